"""Tests of who may read what in the API."""

from __future__ import annotations

import pytest
from django.db import OperationalError, connection
from django.test import Client

from environments.models import Task, TaskStatistics
from tests.episodes.api.asking import get, ids
from tests.episodes.suites.published import core
from tests.people import client_of, member
from tests.rows import each
from tests.stored import make_episode, make_run, make_step, make_task

pytestmark = pytest.mark.django_db

LAB = {"X-API-Key": "lab-key-1"}


@pytest.fixture
def person() -> Client:
    client = Client()
    client.force_login(member("viewer"))
    return client


@pytest.mark.usefixtures("keys")
@each(
    "path",
    [
        "environments",
        "tasks",
        "runs",
        "episodes",
        "episodes/1",
        "episodes/1/steps",
        "episodes/1/events",
        "curves",
    ],
)
def test_a_stranger_gets_an_error_in_json_about_what_to_send(path: str) -> None:
    response = Client().get(f"/api/{path}")
    assert (response.status_code, response["WWW-Authenticate"]) == (401, "X-API-Key")
    assert "X-API-Key" in response.json()["detail"]


@pytest.mark.usefixtures("keys")
def test_a_wrong_key_is_refused_also_with_a_login(person: Client) -> None:
    assert "ORSWEB_API_KEYS" in get("episodes", 401, person, **{"X-API-Key": "guessed"})["detail"]


@pytest.mark.usefixtures("keys")
def test_a_stranger_who_opens_the_description_is_asked_to_log_in() -> None:
    assert Client().get("/api/")["Location"].startswith("/accounts/login/")


def test_without_keys_this_machine_reads_everything() -> None:
    episode = make_episode(key_label="lab")
    assert ids("episodes") == [episode.pk]


@pytest.mark.usefixtures("keys")
def test_a_person_reads_everything(person: Client) -> None:
    episode = make_episode(key_label="lab")
    assert get(f"episodes/{episode.pk}", client=person)["id"] == episode.pk


@pytest.mark.usefixtures("keys")
def test_a_key_lists_its_own_episodes() -> None:
    make_episode(key_label="home")
    own = make_episode(key_label="lab")
    make_episode(key_label="")
    assert ids("episodes", **LAB) == [own.pk]


@pytest.mark.usefixtures("keys")
@each("part", ["", "/steps", "/steps/0", "/events"])
def test_a_key_does_not_learn_whether_another_episode_exists(part: str) -> None:
    other = make_episode(key_label="home")
    make_step(other)
    refused = get(f"episodes/{other.pk}{part}", 404, **LAB)["detail"]
    missing = get(f"episodes/{other.pk + 1}{part}", 404, **LAB)["detail"]
    assert refused.replace(str(other.pk), "N") == missing.replace(str(other.pk + 1), "N")


@pytest.mark.usefixtures("keys")
def test_a_key_reads_its_own_episode_and_steps() -> None:
    own = make_episode(key_label="lab")
    make_step(own)
    assert get(f"episodes/{own.pk}", **LAB)["id"] == own.pk
    assert get(f"episodes/{own.pk}/steps", **LAB)["results"][0]["index"] == 0


@pytest.mark.usefixtures("keys")
def test_a_key_lists_the_runs_that_hold_an_episode_of_its_own() -> None:
    mine, other = make_run("mine"), make_run("other")
    make_episode(key_label="lab", run=mine)
    make_episode(key_label="home", run=other)
    assert ids("runs", **LAB) == [mine.pk]
    get(f"runs/{other.pk}", 404, **LAB)


@pytest.mark.usefixtures("keys")
def test_a_key_hears_no_names_that_others_gave() -> None:
    make_episode(key_label="home", run=make_run("secret-run"), model="secret-model")
    for path in ("episodes?run=secret", "episodes?model=secret", "curves?run=secret"):
        assert get(path, **LAB)["note"] == ""


@pytest.mark.usefixtures("keys")
def test_a_curve_counts_a_keys_own_episodes() -> None:
    environment = make_episode(key_label="lab", end_number=1).environment
    make_episode(key_label="home", end_number=2, environment=environment)
    assert get(f"curves?environment={environment.name}", **LAB)["total"]["n"] == 1


@pytest.mark.usefixtures("keys")
def test_a_task_that_others_brought_is_not_a_key_s_to_read(person: Client) -> None:
    brought, listed = make_task(), make_task()
    Task.objects.filter(pk=listed.pk).update(source="code")
    assert [task["id"] for task in get("tasks", client=person)["results"]] == [
        listed.pk,
        brought.pk,
    ]
    assert [task["id"] for task in get("tasks", **LAB)["results"]] == [listed.pk]
    assert "no task" in get(f"tasks/{brought.pk}", 404, **LAB)["detail"]
    make_episode(task=brought, key_label="lab")
    assert get(f"tasks/{brought.pk}", **LAB)["id"] == brought.pk


@pytest.mark.usefixtures("keys")
def test_a_task_has_figures_for_people_alone(person: Client) -> None:
    task = make_task()
    Task.objects.filter(pk=task.pk).update(source="code")
    counted = {"attempts": 3, "scored": 3, "successes": 1, "return_total": 1.5, "rate": 1 / 3}
    TaskStatistics.objects.create(task=task, environment=task.environment, by="all", **counted)
    assert get(f"tasks/{task.pk}", client=person)["statistics"]["attempts"] == 3
    assert get(f"tasks/{task.pk}", **LAB)["statistics"] is None


@pytest.mark.usefixtures("keys")
@pytest.mark.parametrize(("path", "rows"), [("leaderboard", "rows"), ("doctor", "findings")])
def test_figures_of_whole_environments_are_for_people(person: Client, path: str, rows: str) -> None:
    make_task()
    assert "log in" in get(f"environments/math/{path}", 403, **LAB)["detail"]
    assert rows in get(f"environments/math/{path}", client=person)


@pytest.mark.usefixtures("keys")
def test_suites_are_for_people_and_the_salt_for_those_who_see_hidden_fields(person: Client) -> None:
    version = core()
    assert (
        "log in" in get("suites", 403, **LAB)["detail"]
        and "log in" in get("suites/core", 403, **LAB)["detail"]
    )
    assert [row["name"] for row in get("suites", client=person)] == ["core"]
    assert get("suites/core", client=person)["salt"] is None
    assert get("suites/core", client=client_of("curator", name="eve"))["salt"] == version.salt


def test_without_keys_it_says_in_json_that_the_database_is_away() -> None:
    _check_away(Client(), {})


@pytest.mark.usefixtures("keys")
def test_with_keys_it_says_in_json_that_the_database_is_away(person: Client) -> None:
    _check_away(Client(), LAB)
    _check_away(person, {})


def _check_away(client: Client, headers: dict[str, str]) -> None:
    client.raise_request_exception = False
    with connection.execute_wrapper(_is_away):
        response = client.get("/api/episodes", headers=headers)
    assert (response.status_code, response["Content-Type"], response["Retry-After"]) == (
        503,
        "application/json",
        "2",
    )
    assert response.json() == {"detail": "The database is unavailable; try again."}


def _is_away(*_: object) -> None:
    raise OperationalError("server closed the connection unexpectedly")
