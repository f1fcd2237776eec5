"""Tests of PUT and GET /api/runs/by-name/{name}: how a trainer describes its run."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import quote

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from environments.runtime.secrets_mask import STARS
from episodes.models import Run
from tests.episodes.api.asking import get, ids
from tests.people import member
from tests.rows import each
from tests.stored import make_episode, make_run

pytestmark = pytest.mark.django_db

LAB, HOME = {"X-API-Key": "lab-key-1"}, {"X-API-Key": "home-key-1"}


def put(name: str, description: Any, status: int = 200, client: Client | None = None, **headers: str) -> Any:
    """Return the response to PUT /api/runs/by-name/…"""
    path = f"/api/runs/by-name/{quote(name, safe='')}"
    body = description if isinstance(description, (str, bytes)) else json.dumps(description)
    response = (client or Client()).put(path, body, content_type="application/json", headers=headers)
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
    assert (answer["step"], answer["tags"], answer["notes"], answer["state"]) == (4, ["a", "b"], "Go", "failed")


def test_null_empties_a_member() -> None:
    put("grpo-3", {"step": 3, "tags": ["a"], "config": {"lr": 1}, "notes": "Go"}, 201)
    answer = put("grpo-3", {"step": None, "tags": None, "config": None, "notes": None}).json()
    assert (answer["step"], answer["tags"], answer["config"], answer["notes"]) == (None, [], None, "")


@pytest.mark.parametrize("name", ["a/b", "läuft 1", "..", "a?b#c&d=e%", "/start/", "x.y", "日本", "a\nb", "by-name/x"])
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
    answer = put("grpo-3", '{"notes": "a\\u0000b\\ud800", "tags": ["\\ud800"], "config": {"x": NaN}}', 201).json()
    assert (answer["notes"], answer["tags"], answer["config"]) == ("a\ufffdb\ufffd", ["\ufffd"], {"x": None})


def test_a_body_that_is_not_json_is_refused() -> None:
    response = Client().put("/api/runs/by-name/x", b"step=3", content_type="application/x-www-form-urlencoded")
    assert response.status_code == 415 and "application/json" in response.json()["detail"]


@each(
    ("body", "sentence"),
    [
        ('{"step": ', "at line 1, column 10 it is not: expecting value"),
        (b'{"notes": "\xff"}', "its byte 11 is not UTF-8"),
        ('{"config": ' + "[" * 5_000 + "]" * 5_000 + "}", "it is nested too deeply"),
        ('{"step": ' + "9" * 5_000 + "}", "a number in it has too many digits"),
        ('{"step": "7"}', """step='"7"' cannot be used: it has to be a whole number"""),
        ('{"step": true}', "step='true' cannot be used"),
    ],
)
def test_what_is_wrong_with_a_body_is_said_as_its_sender_wrote_it(body: str | bytes, sentence: str) -> None:
    assert sentence in put("grpo-3", body, 400).json()["detail"]


def test_other_methods_name_those_that_are_allowed() -> None:
    response = Client().post("/api/runs/by-name/x", {})
    assert (response.status_code, response["Allow"]) == (405, "GET, HEAD, PUT")
    assert Client().put("/api/runs").status_code == 405


# --- versions --------------------------------------------------------------------------------------------------------


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


# --- lists -----------------------------------------------------------------------------------------------------------


def test_runs_are_listed_by_state_and_tag() -> None:
    put("one", {"tags": ["sweep", "small"]}, 201)
    put("two", {"tags": ["sweep"], "state": "ended"}, 201)
    make_run("three")
    one, two = described("one").pk, described("two").pk
    assert ids("runs?tag=sweep") == [two, one]
    assert ids("runs?tag=sweep&state=running") == [one]
    assert ids("runs?tag=Sweep") == []
    assert "allowed are" in get("runs?state=done", 400)["detail"]


# --- who may ---------------------------------------------------------------------------------------------------------


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
    [{"Origin": "http://evil.example"}, {"Referer": "http://evil.example/"}, {"Sec-Fetch-Site": "cross-site"}],
)
def test_without_keys_another_site_changes_nothing(headers: dict[str, str]) -> None:
    put("grpo-3", {}, 403, Client(enforce_csrf_checks=True), **headers)
    assert not Run.objects.exists()


def test_without_keys_a_program_on_this_machine_needs_nothing() -> None:
    put("grpo-3", {}, 201, Client(enforce_csrf_checks=True))


@pytest.mark.usefixtures("keys")
def test_a_description_is_recorded_without_the_key_that_sends_it() -> None:
    encoded = base64.b64encode(b"user:lab-key-1").decode()
    description = {"notes": f"run with {LAB['X-API-Key']}", "config": {"header": encoded}, "tags": ["lab-key-1"]}
    put("with lab-key-1", description, 201, **LAB)
    run = Run.objects.get()
    assert (run.name, run.notes, run.tag_names) == ("with ********", "run with ********", ["********"])
    assert STARS in run.config and encoded[8:-4] not in run.config
    assert get("runs/by-name/with%20lab-key-1", **LAB)["name"] == "with ********"
