"""Tests of PUT and GET /api/runs/by-name/{name}: how a trainer describes its run."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import quote

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.utils import timezone

from environments.runtime.secrets_mask import STARS
from episodes.models import Episode, Rollout, Run
from tests.episodes.api.asking import get, ids
from tests.people import member
from tests.rows import each
from tests.stored import make_episode, make_run

pytestmark = pytest.mark.django_db

LAB, HOME = {"X-API-Key": "lab-key-1"}, {"X-API-Key": "home-key-1"}


def put(
    name: str, description: Any, status: int = 200, client: Client | None = None, **headers: str
) -> Any:
    """Return the response to PUT /api/runs/by-name/…"""
    path = f"/api/runs/by-name/{quote(name, safe='')}"
    body = description if isinstance(description, (str, bytes)) else json.dumps(description)
    response = (client or Client()).put(
        path, body, content_type="application/json", headers=headers
    )
    assert response.status_code == status, response.content
    return response


def described(name: str) -> Run:
    return Run.objects.get(name=name)


def test_a_first_description_creates_the_run() -> None:
    description = {
        "step": 3,
        "model": "m-1",
        "config": {"lr": 1e-5},
        "git_commit": "ab12",
        "notes": "Go",
        "tags": ["a"],
    }
    answer = put("grpo-3", description, 201).json()
    assert {name: answer[name] for name in description} == description
    assert (answer["state"], answer["name"]) == ("running", "grpo-3") and answer["updated"]


def test_members_that_are_left_out_keep_their_values() -> None:
    put("grpo-3", {"step": 3, "tags": ["a", "b"], "notes": "Go", "state": "failed"}, 201)
    answer = put("grpo-3", {"step": 4}).json()
    assert (answer["step"], answer["tags"], answer["notes"], answer["state"]) == (
        4,
        ["a", "b"],
        "Go",
        "failed",
    )


def test_null_empties_a_member() -> None:
    put("grpo-3", {"step": 3, "tags": ["a"], "config": {"lr": 1}, "notes": "Go"}, 201)
    answer = put("grpo-3", {"step": None, "tags": None, "config": None, "notes": None}).json()
    assert (answer["step"], answer["tags"], answer["config"], answer["notes"]) == (
        None,
        [],
        None,
        "",
    )


@pytest.mark.parametrize(
    "name", ["a/b", "läuft 1", "..", "a?b#c&d=e%", "/start/", "x.y", "日本", "a\nb", "by-name/x"]
)
def test_any_name_can_be_described_and_read(name: str) -> None:
    put(name, {"step": 1}, 201)
    assert get(f"runs/by-name/{quote(name, safe='')}")["name"] == name == Run.objects.get().name


def test_a_name_that_nobody_has_is_not_found() -> None:
    assert "'nobody'" in get("runs/by-name/nobody", 404)["detail"]


@pytest.mark.parametrize("name", ["x" * 201, " "])
def test_a_name_that_no_session_can_have_is_refused(name: str) -> None:
    assert "1 to 200 characters" in put(name, {}, 400).json()["detail"]


@pytest.mark.parametrize("name", ["\0", "a\0b"])
def test_a_name_that_no_database_stores_does_not_become_another(name: str) -> None:
    put("\ufffd", {"step": 1}, 201)
    put("a\ufffdb", {"step": 1}, 201)
    assert "NUL" in put(name, {}, 404).json()["detail"]
    assert "NUL" in get(f"runs/by-name/{quote(name)}", 404)["detail"]
    assert Run.objects.count() == 2


@each(
    ("description", "sentence"),
    [
        ({"stpe": 3}, "Did you mean 'step'?"),
        ({"nope": 3}, "The members of a run are step, state"),
        ({"step": "3"}, "whole number"),
        ({"step": True}, "whole number"),
        ({"step": -1}, "whole number from 0 to 4611686018427387904"),
        ({"step": -1.0}, "whole number from 0 to 4611686018427387904"),
        ({"step": 2**63}, "whole number from 0 to 4611686018427387904"),
        ({"step": 2**70}, "whole number from 0 to 4611686018427387904"),
        ({"state": "done"}, "allowed are running, ended, failed"),
        ({"tags": "a"}, "a list of at most 50"),
        ({"tags": ["x" * 51]}, "1 to 50 characters"),
        ({"config": [1]}, "a JSON object"),
        (
            '{"config": {"a": [1, {"b": 1e400}]}}',
            "config.a.1.b is NaN, an infinity or a number beyond 1.8e308; write a",
        ),
        ('{"config": {"a": NaN}}', "config.a is NaN"),
        ('{"config": {"a": -Infinity}}', "config.a is NaN, an infinity"),
        ('{"config": {"a": ' + "1" * 400 + ".5}}", "config.a is NaN, an infinity"),
        ('{"config": {"a": ' + "9" * 5000 + "}}", "a number in it has more than 4,300 digits"),
        ({"notes": "x" * 20_001}, "at most 20,000"),
        ([], "a JSON object"),
        ("{", "JSON"),
        (b"\xff", "UTF-8"),
    ],
)
def test_an_invalid_description_changes_nothing(description: Any, sentence: str) -> None:
    assert sentence in put("grpo-3", description, 400).json()["detail"]
    assert not Run.objects.exists()


def test_characters_that_no_database_stores_are_replaced() -> None:
    config = {"x": "\ud800", "n": 10**400, "\ud800": {"\0": "😀"}}
    answer = put(
        "grpo-3", {"notes": "a\0b\ud800", "tags": ["\ud800"], "config": config}, 201
    ).json()
    assert (answer["notes"], answer["tags"]) == ("a\ufffdb\ufffd", ["\ufffd"])
    assert answer["config"] == {"x": "\ufffd", "n": 10**400, "\ufffd": {"\ufffd": "😀"}}
    assert Client().get("/runs/").status_code == 200


def test_a_body_that_is_not_json_is_refused() -> None:
    response = Client().put(
        "/api/runs/by-name/x", b"step=3", content_type="application/x-www-form-urlencoded"
    )
    assert response.status_code == 415 and "application/json" in response.json()["detail"]


@each(
    ("body", "sentence"),
    [
        ('{"step": ', "at line 1, column 10 it is not: expecting value"),
        (b'{"notes": "\xff"}', "its byte 11 is not UTF-8"),
        ('{"config": ' + "[" * 5_000 + "]" * 5_000 + "}", "it is nested too deeply"),
        ('{"step": ' + "9" * 5_000 + "}", "a number in it has more than 4,300 digits"),
        ('{"step": "7"}', """step='"7"' cannot be used: it has to be a whole number"""),
        ('{"step": true}', "step='true' cannot be used"),
    ],
)
def test_what_is_wrong_with_a_body_is_said_as_its_sender_wrote_it(
    body: str | bytes, sentence: str
) -> None:
    assert sentence in put("grpo-3", body, 400).json()["detail"]


def test_other_methods_name_those_that_are_allowed() -> None:
    response = Client().post("/api/runs/by-name/x", {})
    assert (response.status_code, response["Allow"]) == (405, "GET, HEAD, PUT")
    assert Client().put("/api/runs").status_code == 405


# --- versions -------------------------------------------------------------------------------------


def test_the_etag_changes_with_each_description() -> None:
    first = put("grpo-3", {"step": 1}, 201)["ETag"]
    assert Client().get("/api/runs/by-name/grpo-3")["ETag"] == first
    assert put("grpo-3", {"step": 2})["ETag"] != first


def test_a_run_that_has_not_changed_is_not_sent_again() -> None:
    etag = put("grpo-3", {"step": 1}, 201)["ETag"]
    response = Client().get("/api/runs/by-name/grpo-3", headers={"If-None-Match": etag})
    assert (response.status_code, response.content) == (304, b"")


def test_a_stale_etag_changes_nothing() -> None:
    stale = put("grpo-3", {"step": 1}, 201)["ETag"]
    fresh = put("grpo-3", {"step": 2})["ETag"]
    assert fresh in put("grpo-3", {"step": 3}, 409, **{"If-Match": stale}).json()["detail"]
    assert described("grpo-3").step == 2
    put("grpo-3", {"step": 3}, **{"If-Match": fresh})


@pytest.mark.parametrize("etag", ["*", '"0123"'])
def test_an_etag_of_a_run_that_does_not_exist_creates_nothing(etag: str) -> None:
    assert "no run" in put("grpo-3", {}, 409, **{"If-Match": etag}).json()["detail"]
    assert not Run.objects.exists()


def test_an_etag_without_quotation_marks_is_refused() -> None:
    assert "quotation marks" in put("grpo-3", {}, 400, **{"If-Match": "0123"}).json()["detail"]


def test_a_step_goes_back_only_with_the_etag() -> None:
    etag = put("grpo-3", {"step": 7}, 201)["ETag"]
    assert etag in put("grpo-3", {"step": 3}, 409).json()["detail"]
    assert described("grpo-3").step == 7
    put("grpo-3", {"step": 7})
    etag = Client().get("/api/runs/by-name/grpo-3")["ETag"]
    assert put("grpo-3", {"step": 3}, **{"If-Match": etag}).json()["step"] == 3


# --- executions -----------------------------------------------------------------------------------


def begin(description: Any, status: int, *, episodes: int = 1, **headers: str) -> str:
    """Return the name of the run that a description is about, after it has played `episodes`."""
    name = put("tiny", description, status, **headers).json()["name"]
    for _ in range(episodes):
        make_episode(run=described(name), run_step=described(name).step)
    return str(name)


START: dict[str, Any] = {
    "state": "running",
    "step": 0,
    "model": "a",
    "config": {"lr": 1, "seed": 2},
}


@each(
    ("description", "is_another"),
    [
        (START, False),
        ({**START, "config": {"seed": 2, "lr": 1}}, False),
        ({"state": "running", "step": 31}, False),
        ({"step": 30, "tags": ["late"], "notes": "n"}, False),
        ({"state": "ended", "step": 30}, False),
        ({"resume": True, "step": 12, "model": "b", "config": {"lr": 3}}, False),
        ({"state": "running", "step": 29}, True),
        ({"step": 1}, True),
        ({"model": "b"}, True),
        ({"config": {"lr": 2, "seed": 2}}, True),
        ({"run_id": "of-my-own"}, True),
    ],
)
def test_a_trainer_goes_on_with_its_run_or_begins_the_next_one(
    description: Any, is_another: bool
) -> None:
    Episode.objects.all().delete()
    Run.objects.all().delete()
    begin(START, 201)
    if description is not START and description.get("config") != {"seed": 2, "lr": 1}:
        put("tiny", {"step": 30})
    answer = put("tiny", description, 201 if is_another else 200).json()
    assert (answer["name"], answer["title"]) == ("tiny (2)" if is_another else "tiny", "tiny")
    assert Run.objects.count() == 1 + is_another


def test_the_first_run_of_a_name_is_left_as_it_was_by_the_second() -> None:
    begin(START, 201)
    put("tiny", {"step": 40})
    put("tiny", {"state": "ended"})
    first = get("runs/by-name/tiny")
    assert begin({**START, "model": "b", "config": {"lr": 5}}, 201) == "tiny (2)"
    assert get(f"runs/{first['id']}")["updated"] == first["updated"]
    second = get("runs/by-name/tiny")
    assert (second["number"], second["model"], second["config"]) == (2, "b", {"lr": 5})
    assert ids("runs?name=tiny") == [second["id"], first["id"]] and ids("runs?name=tiny%20(2)") == [
        second["id"]
    ]
    assert put("tiny (2)", {"state": "ended"}).json()["id"] == second["id"]
    assert put("tiny (2)", START).json()["id"] == second["id"]


@each(
    ("description", "name"),
    [
        ({"state": "ended"}, "tiny"),
        ({"notes": "it diverged", "step": 40}, "tiny"),
        ({"state": "running", "resume": True, "step": 12}, "tiny"),
        ({"state": "running", "step": 40}, "tiny (2)"),
        ({"step": 41}, "tiny (2)"),
        ({"step": 39}, "tiny (2)"),
    ],
)
def test_a_run_that_has_ended_goes_on_only_if_its_trainer_resumes(
    description: Any, name: str
) -> None:
    Episode.objects.all().delete()
    Run.objects.all().delete()
    begin({**START, "step": 40}, 201)
    put("tiny", {"state": "ended"})
    answer = put("tiny", description, 200 if name == "tiny" else 201).json()
    is_over = name == "tiny" and not description.get("resume")
    assert (answer["name"], answer["state"]) == (name, "ended" if is_over else "running")


def test_a_run_without_episodes_is_still_being_described() -> None:
    begin(START, 201, episodes=0)
    put("tiny", {"step": 20})
    assert begin({"model": "b", "config": {"lr": 7}, "step": 20}, 200, episodes=0) == "tiny"


def test_a_step_back_by_a_few_is_refused_with_the_ways_out() -> None:
    begin({"step": 7}, 201)
    detail = put("tiny", {"step": 5}, 409).json()["detail"]
    assert '"resume": true' in detail and '"state": "running"' in detail
    assert put("tiny", {"step": 5, "resume": True}).json()["step"] == 5


def test_whoever_has_read_a_run_corrects_it() -> None:
    begin(START, 201)
    etag = Client().get("/api/runs/by-name/tiny")["ETag"]
    assert begin({"model": "b", "config": {"lr": 9}}, 200, **{"If-Match": etag}) == "tiny"
    etag = Client().get("/api/runs/by-name/tiny")["ETag"]
    put("tiny", {"step": 30}, **{"If-Match": etag})
    etag = Client().get("/api/runs/by-name/tiny")["ETag"]
    assert begin({**START, "model": "b"}, 201, **{"If-Match": etag}) == "tiny (2)"


def test_an_id_of_ones_own_is_that_of_a_run_of_the_name() -> None:
    assert begin({"run_id": "x", "step": 40}, 201) == "tiny"
    assert begin({"run_id": "y", "step": 1}, 201) == "tiny (2)"
    put("tiny", {"run_id": "x", "state": "ended"})
    assert begin({"run_id": "x", "state": "running", "step": 50}, 200) == "tiny"
    assert put("other", {"run_id": "x"}, 201).json()["run_id"] == "x"
    for wrong in ("", " ", 3, "x" * 201):
        assert "1 to 200 characters" in put("tiny", {"run_id": wrong}, 400).json()["detail"]
    assert "true, false" in put("tiny", {"resume": "yes"}, 400).json()["detail"]


# --- lists ----------------------------------------------------------------------------------------


def test_runs_are_listed_by_state_and_tag() -> None:
    put("one", {"tags": ["sweep", "small"]}, 201)
    put("two", {"tags": ["sweep"], "state": "ended"}, 201)
    make_run("three")
    one, two = described("one").pk, described("two").pk
    assert ids("runs?tag=sweep") == [two, one]
    assert ids("runs?tag=sweep&state=running") == [one]
    assert ids("runs?tag=Sweep") == []
    assert "allowed are" in get("runs?state=done", 400)["detail"]


# --- who may --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("keys")
def test_a_key_describes_a_run_before_its_first_episode_and_after() -> None:
    put("grpo-3", {"step": 1}, 201, **LAB)
    put("grpo-3", {"step": 2}, **LAB)
    assert ids("runs", **LAB) == [described("grpo-3").pk] and ids("runs", **HOME) == []


@pytest.mark.usefixtures("keys")
def test_a_key_describes_a_run_that_holds_an_episode_of_its_own() -> None:
    make_episode(key_label="lab", run=make_run("shared"))
    put("shared", {"step": 2}, **LAB)


@pytest.mark.usefixtures("keys")
def test_a_key_reads_and_describes_a_run_that_it_uploaded_a_rollout_of() -> None:
    run = make_run("uploaded")
    Rollout.objects.create(key_label="lab", event_id="1", run=run, received=timezone.now())
    assert ids("runs", **LAB) == [run.pk] and ids("runs", **HOME) == []
    put("uploaded", {"step": 2}, **LAB)


@pytest.mark.usefixtures("keys")
def test_a_key_does_not_sort_by_what_others_reached_in_its_runs() -> None:
    for name in ("b", "a"):
        make_episode(key_label="lab", run=make_run(name))
    assert ids("runs?sort=name", **LAB) == [make_run(name).pk for name in ("a", "b")]
    for sort in ("-return", "last", "split"):
        assert "a key can sort by" in get(f"runs?sort={sort}", 400, **LAB)["detail"]


@pytest.mark.usefixtures("keys")
def test_another_keys_run_is_not_found() -> None:
    make_episode(key_label="lab", run=make_run("theirs"))
    put("fresh", {"step": 1}, 201, **LAB)
    for name in ("theirs", "fresh"):
        put(name, {"step": 9}, 404, **HOME)
        get(f"runs/by-name/{name}", 404, **HOME)
    assert described("fresh").step == 1


@pytest.mark.usefixtures("keys")
def test_a_stranger_describes_nothing() -> None:
    put("grpo-3", {}, 401)
    put("grpo-3", {}, 401, **{"X-API-Key": "guessed"})


@pytest.mark.usefixtures("keys")
def test_a_person_needs_the_permission() -> None:
    person = member("viewer")
    client = Client()
    client.force_login(person)
    assert "may not describe runs" in put("grpo-3", {}, 403, client).json()["detail"]
    person.user_permissions.add(Permission.objects.get(codename="change_run"))
    put("grpo-3", {}, 201, client)


@pytest.mark.usefixtures("keys")
def test_a_browser_needs_the_csrf_token() -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(User.objects.create_superuser("ada"))
    assert "X-CSRFToken" in put("grpo-3", {}, 403, client).json()["detail"]
    client.cookies["csrftoken"] = "a" * 32
    put("grpo-3", {}, 201, client, **{"X-CSRFToken": "a" * 32})


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Referer": "http://evil.example/"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
)
def test_without_keys_another_site_changes_nothing(headers: dict[str, str]) -> None:
    put("grpo-3", {}, 403, Client(enforce_csrf_checks=True), **headers)
    assert not Run.objects.exists()


def test_without_keys_a_program_on_this_machine_needs_nothing() -> None:
    put("grpo-3", {}, 201, Client(enforce_csrf_checks=True))


@pytest.mark.usefixtures("keys")
def test_a_description_is_recorded_without_the_key_that_sends_it() -> None:
    encoded = base64.b64encode(b"user:lab-key-1").decode()
    description = {
        "notes": f"run with {LAB['X-API-Key']}",
        "config": {"header": encoded},
        "tags": ["lab-key-1"],
    }
    put("with lab-key-1", description, 201, **LAB)
    run = Run.objects.get()
    assert (run.name, run.notes, run.tag_names) == (
        "with ********",
        "run with ********",
        ["********"],
    )
    assert STARS in run.config and encoded[8:-4] not in run.config
    assert get("runs/by-name/with%20lab-key-1", **LAB)["name"] == "with ********"
