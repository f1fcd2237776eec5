"""Rules for all requests: paths, methods, hosts, bodies, headers, and the order in which they are
checked."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx
import pytest

from environments.agents.ors.urls import ENVIRONMENT_PATHS, ROOT_PATHS
from tests.environments.agents.ors.serving import as_json, fresh_id, opened, raw, result
from tests.rows import each

pytestmark = pytest.mark.asyncio(loop_scope="module")

GETS = {
    "openapi.json",
    "schema.json",
    "health",
    "version",
    "list_environments",
    "tools",
    "splits",
    "prompt",
    "messages",
    "task_tools",
}
WITH_BODY = ["/tasks", "/num_tasks", "/task", "/task_range", "/create", "/call", "/score_group"]
ENDPOINTS = [f"/{word}" for word in [*ROOT_PATHS, *ENVIRONMENT_PATHS]] + [
    f"/echo/{word}" for word in ENVIRONMENT_PATHS
]
ENDPOINTS.remove("/tasks")  # a page for every method but POST


def method_of(path: str) -> str:
    return "GET" if path.rpartition("/")[2] in GETS else "POST"


# --- paths and methods ----------------------------------------------------------------------------


@each("path", ENDPOINTS)
async def test_another_method_is_refused_with_the_right_one(
    client: httpx.AsyncClient, path: str
) -> None:
    allowed = {"GET", "HEAD"} if method_of(path) == "GET" else {"POST"}
    for method in {
        "HEAD",
        "OPTIONS",
        "PUT",
        "DELETE",
        "PATCH",
        "TRACE",
        "GET",
        "POST",
        "X",
    } - allowed:
        answer = await client.request(method, path)
        assert (answer.status_code, answer.headers["allow"]) == (405, method_of(path))
        assert answer.headers["content-type"] == "application/json"
        assert not [name for name in answer.headers if name.startswith("access-control")]


@each(
    "path",
    [
        path
        for path in [*ENDPOINTS, "/openapi.json", "/schema.json", "/nope"]
        if method_of(path) == "GET"
    ],
)
async def test_head_is_answered_as_get_without_the_body(
    client: httpx.AsyncClient, path: str
) -> None:
    answer, head = await client.get(path), await client.head(path)
    assert (head.status_code, head.content) == (answer.status_code, b"")
    assert dict(head.headers) == dict(answer.headers)


async def test_a_refused_method_is_reported_in_json(client: httpx.AsyncClient) -> None:
    assert (await client.post("/tools")).json() == {"detail": "Method Not Allowed"}


@each("path", ["/nope", "/echo", "/echo/nope", "/echo/tools/more"])
@each("method", ["GET", "POST"])
async def test_an_unknown_path_is_reported_in_json(
    client: httpx.AsyncClient, path: str, method: str
) -> None:
    answer = await client.request(method, path)
    assert (answer.status_code, answer.json()) == (404, {"detail": "Not Found"})


@each("word", ["rollouts", "environments", "runs", "namespace"])
async def test_the_platforms_paths_are_no_environments(
    client: httpx.AsyncClient, word: str
) -> None:
    assert (await client.get(f"/v1/{word}/tools")).status_code == 404


@each("path", ["/echo/tools/", "/health/", "//health//", "/tasks/", "/nope/"])
async def test_a_trailing_slash_is_redirected(client: httpx.AsyncClient, path: str) -> None:
    answer = await client.post(f"http://localhost{path}?a=b%20c")
    expected = "/" + path.strip("/") + "?a=b%20c"
    assert (answer.status_code, answer.headers["location"]) == (307, expected)


@each(
    "path",
    ["/a%0Ab/", "/%E2%80%A8é/", "/\\evil.example/", "/%5Cevil.example/x/", "//evil.example/"],
)
async def test_a_redirect_stays_here_whatever_the_path_holds(
    client: httpx.AsyncClient, path: str
) -> None:
    answer = await client.get(f"http://localhost{path}")
    assert answer.status_code == 307
    location = answer.headers["location"]
    assert re.match("/[^/]", location) and location.isascii() and "\\" not in location


@each("name", ["x" * 30_000, "é☃", "%0A", "<script>", "%25s", "{x}"])
async def test_an_odd_environment_name_is_refused_in_json(
    client: httpx.AsyncClient, name: str
) -> None:
    answer = await client.get(f"/{name}/tools")
    assert answer.status_code == 404 and "this server hosts 'echo'" in answer.json()["detail"]
    assert len(answer.text) < 3000


# --- hosts ----------------------------------------------------------------------------------------


@each("host", ["localhost", "LOCALHOST:80", "127.0.0.1:8080", "[::1]:1", "localhost."])
async def test_local_hosts_are_welcome(client: httpx.AsyncClient, host: str) -> None:
    assert (await client.get("/health", headers={"Host": host})).status_code == 200


@each("host", ["evil.example", "", "localhost.evil.example", "localhost:80:80", "a@localhost", "é"])
@each("path", ["/health", "/nope", "/echo/tools"])
async def test_a_foreign_host_is_refused(client: httpx.AsyncClient, host: str, path: str) -> None:
    answer = await client.get(path, headers={"Host": host.encode("latin-1")})  # type: ignore[dict-item]
    assert answer.status_code == 400 and "add it to ORSWEB_ALLOWED_HOSTS" in answer.json()["detail"]


# --- bodies ---------------------------------------------------------------------------------------

MALFORMED = [
    "",
    "{",
    "nonsense",
    "{'a': 1}",
    '{"a": 1,}',
    "[" * 100_000,
    '{"a":' * 100_000,
    "\x00",
    '"\x01"',
    "{} {}",
]


@each("path", WITH_BODY)
@each("body", MALFORMED, ids=range(len(MALFORMED)))
async def test_a_body_that_is_no_json_is_refused_before_anything_else(
    client: httpx.AsyncClient, path: str, body: str
) -> None:
    answer = await client.post(path, **raw(body))
    [problem] = answer.json()["detail"]
    assert (answer.status_code, problem["type"], problem["loc"]) == (422, "json_invalid", ["body"])


@pytest.mark.parametrize(
    "body", [b"\xff\xfe", b'{"split": "\xc3"}', '{"split": "train"}'.encode("utf-16")]
)
async def test_a_body_that_is_no_utf8_is_refused(client: httpx.AsyncClient, body: bytes) -> None:
    assert (await client.post("/num_tasks", **raw(body))).status_code == 422


@each("body", ["null", "[]", "5", '"text"', "true", "NaN"])
@each("path", ["/num_tasks", "/create"])
async def test_a_body_that_is_no_object_is_refused(
    client: httpx.AsyncClient, path: str, body: str
) -> None:
    headers = {"X-Session-ID": fresh_id(), "Content-Type": "application/json"}
    assert (await client.post(path, content=body, headers=headers)).status_code == 422


@pytest.mark.parametrize(
    "kind", ["application/json", "Application/JSON; charset=utf-8", "application/problem+json"]
)
async def test_json_types_are_read(client: httpx.AsyncClient, kind: str) -> None:
    assert (await client.post("/num_tasks", **raw('{"split": "test"}', kind))).json() == {
        "num_tasks": 2
    }


@each(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", "json"]
)
async def test_another_type_is_refused_naming_the_right_one(
    client: httpx.AsyncClient, kind: str
) -> None:
    answer = await client.post("/num_tasks", **raw('{"split": "test"}', kind))
    assert answer.status_code == 422
    assert "Content-Type must be application/json" in answer.json()["detail"][0]["msg"]


@each("path", ["/create_session", "/delete", "/delete_session"])
@each("body", [b"", b"{}", b"nonsense"])
async def test_where_no_body_is_needed_any_will_do(
    client: httpx.AsyncClient, path: str, body: bytes
) -> None:
    headers = {"X-Session-ID": fresh_id(), "Content-Type": "application/octet-stream"}
    assert (await client.post(path, content=body, headers=headers)).status_code == 200


@each(
    ("body", "kind", "location"),
    [
        ({}, "missing", ["body", "split"]),
        ({"split": 5}, "string_type", ["body", "split"]),
        ({"split": None}, "string_type", ["body", "split"]),
        ({"split": "train", "extra": 1}, "extra_forbidden", ["body", "extra"]),
    ],
)
async def test_a_mistyped_body_is_reported_field_by_field(
    client: httpx.AsyncClient, body: Any, kind: str, location: list[str]
) -> None:
    answer = await client.post("/num_tasks", json=body)
    [problem] = answer.json()["detail"]
    assert (answer.status_code, problem["type"], problem["loc"]) == (422, kind, location)
    assert set(problem) == {"type", "loc", "msg", "input"}


async def test_an_unknown_field_is_reported_with_the_known_ones(client: httpx.AsyncClient) -> None:
    answer = await client.post("/task", json={"split": "train", "index": 0, "idx": 1})
    assert (
        answer.json()["detail"][0]["msg"] == "Extra inputs are not permitted; allowed: split, index"
    )


async def test_no_refusal_repeats_a_value(client: httpx.AsyncClient) -> None:
    secret = "hunter2-hunter2"
    wrong = {
        "task_spec": secret,
        "split": [secret],
        "secrets": {"a": {"deep": secret}},
        "index": secret,
        "env_name": [secret],
    }
    answer = await client.post("/create", json=wrong, headers={"X-Session-ID": fresh_id()})
    assert (
        answer.status_code == 422
        and secret not in answer.text
        and len(answer.json()["detail"]) == 5
    )


async def test_a_thousand_problems_are_not_all_listed(client: httpx.AsyncClient) -> None:
    answer = await client.post(
        "/num_tasks", json={"split": "train", **{f"extra{n}": n for n in range(1000)}}
    )
    assert answer.status_code == 422 and len(answer.json()["detail"]) <= 100


async def test_of_equal_keys_the_last_counts(client: httpx.AsyncClient) -> None:
    answer = await client.post("/num_tasks", **raw('{"split": "train", "split": "test"}'))
    assert answer.json() == {"num_tasks": 2}


@each("value", ["half \ud800 of one", "\udfff", "nul \x00", "\u2028\ufeff", "é" * 5000])
async def test_odd_text_survives_a_round_trip(client: httpx.AsyncClient, value: str) -> None:
    header = await opened(client)
    body = as_json({"name": "echo", "input": {"text": value}})
    answer = await client.post(
        "/call", content=body["content"], headers={**header, **body["headers"]}
    )
    assert result(answer)["output"]["blocks"][0]["text"] == value


@each("depth", [150, 400, 900, 3000])
@each("leaf", ['"x"', '"\\ud800"'])
async def test_a_deep_input_is_read_or_refused(
    client: httpx.AsyncClient, depth: int, leaf: str
) -> None:
    header = await opened(client)
    body = '{"name": "echo", "input": {"text": "x", "more": %s}}' % (
        "[" * depth + leaf + "]" * depth
    )
    answer = await client.post(
        "/call", content=body, headers={**header, "Content-Type": "application/json"}
    )
    assert answer.status_code == (200 if depth < 200 else 422)


@each("depth", [150, 400, 900, 3000])
@each("leaf", ['"x"', '"\\ud800"'])
async def test_a_deep_task_is_read_or_refused(
    client: httpx.AsyncClient, depth: int, leaf: str
) -> None:
    body = '{"task_spec": {"more": %s}}' % ("[" * depth + leaf + "]" * depth)
    headers = {"X-Session-ID": fresh_id(), "Content-Type": "application/json"}
    answer = await client.post("/create", content=body, headers=headers)
    assert answer.status_code == (200 if depth < 200 else 422)


LOST = ["NaN", "Infinity", "-Infinity", "1e400", "-1E+400", "1" * 400 + ".5", '[2, {"b": NaN}]']
"""Numbers that would be null where they are stored."""
LOST_IN = {
    "/call": ('{"name": "echo", "input": {"text": "x", "more": %s}}', "input.more"),
    "/create": ('{"task_spec": {"a": [1, %s]}}', "task_spec.a.1"),
    "/score_group": (
        '{"candidates": [{"messages": [], "metadata": {"a": %s}}]}',
        "candidates.0.metadata.a",
    ),
}


@each("path", LOST_IN)
@each("number", LOST, ids=range(len(LOST)))
async def test_a_number_that_cannot_be_stored_is_refused_by_its_place(
    client: httpx.AsyncClient, path: str, number: str
) -> None:
    header = {"X-Session-ID": fresh_id()} if path == "/create" else await opened(client)
    body, place = LOST_IN[path]
    answer = await client.post(
        path, content=body % number, headers={**header, "Content-Type": "application/json"}
    )
    [problem] = answer.json()["detail"]
    assert answer.status_code == 422 and f"JSON decode error: {place}" in problem["msg"]
    assert "is NaN, an infinity or a number beyond 1.8e308; write a finite number" in problem["msg"]


async def test_a_text_with_such_words_and_a_long_whole_number_are_kept(
    client: httpx.AsyncClient,
) -> None:
    header = {**await opened(client), "Content-Type": "application/json"}
    text = f"NaN, Infinity, 1e400 and {10**400}"
    body = json.dumps({"name": "echo", "input": {"text": text, "more": 10**400}})
    answer = await client.post("/call", content=body, headers=header)
    assert result(answer)["output"]["blocks"][0]["text"] == text
    answer = await client.post("/call", content=body.replace("1000", "9" * 5000), headers=header)
    assert answer.status_code == 422 and "a number in it has more than 4,300 digits" in answer.text


# --- the session's id -----------------------------------------------------------------------------

WITH_SESSION = [
    "/create",
    "/ping",
    "/delete",
    "/delete_session",
    "/prompt",
    "/messages",
    "/task_tools",
    "/call",
    "/score_group",
]


def sensible(path: str) -> dict[str, Any]:
    bodies: dict[str, Any] = {
        "/create": {"task_spec": {}},
        "/call": {"name": "echo", "input": {"text": "x"}},
        "/score_group": {"candidates": []},
    }
    return raw(json.dumps(bodies.get(path, {})))


@each("path", WITH_SESSION)
@each("sid", [None, b"", b"  \t "])
async def test_without_an_id_nothing_goes(
    client: httpx.AsyncClient, path: str, sid: bytes | None
) -> None:
    body = sensible(path)
    headers = body["headers"] | ({} if sid is None else {"X-Session-ID": sid})
    answer = await client.request(method_of(path), path, content=body["content"], headers=headers)
    assert (answer.status_code, answer.json()) == (
        400,
        {"detail": "X-Session-ID header is required"},
    )


@each(
    ("sid", "detail"),
    [
        (b"\xff\xfe", "X-Session-ID is not valid UTF-8"),
        (b"x" * 501, "X-Session-ID has 501 characters; at most 500 are allowed"),
    ],
)
@each("path", WITH_SESSION)
async def test_a_bad_id_is_refused(
    client: httpx.AsyncClient, path: str, sid: bytes, detail: str
) -> None:
    body = sensible(path)
    headers = body["headers"] | {"X-Session-ID": sid}
    answer = await client.request(method_of(path), path, content=body["content"], headers=headers)
    assert (answer.status_code, answer.json()) == (400, {"detail": detail})


@each(
    "path", ["/ping", "/prompt", "/messages", "/task_tools", "/call", "/score_group", "/echo/call"]
)
async def test_an_unknown_session_is_reported(client: httpx.AsyncClient, path: str) -> None:
    body = sensible(path.removeprefix("/echo"))
    headers = body["headers"] | {"X-Session-ID": "never-opened"}
    answer = await client.request(method_of(path), path, content=body["content"], headers=headers)
    assert (answer.status_code, answer.json()) == (404, {"detail": "Active environment not found"})


async def test_malformed_json_is_reported_before_a_missing_id(client: httpx.AsyncClient) -> None:
    assert (await client.post("/call", **raw("{"))).status_code == 422


async def test_a_missing_id_is_reported_before_wrong_types(client: httpx.AsyncClient) -> None:
    assert (await client.post("/call", json={"wrong": 1})).status_code == 400


async def test_an_unknown_session_is_reported_before_wrong_types(client: httpx.AsyncClient) -> None:
    answer = await client.post("/call", json={"wrong": 1}, headers={"X-Session-ID": "never-opened"})
    assert answer.status_code == 404


async def test_wrong_types_are_reported_to_a_live_session(client: httpx.AsyncClient) -> None:
    header = await opened(client)
    answer = await client.post(
        "/call", json={"name": 1, "input": "x", "task_id": 5}, headers=header
    )
    assert answer.status_code == 422
    assert [problem["loc"][-1] for problem in answer.json()["detail"]] == [
        "name",
        "input",
        "task_id",
    ]
