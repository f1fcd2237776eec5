"""The state of tasks in the API, and what replaced a superseded one."""

from __future__ import annotations

import pytest
from pytest_django import Settings

from environments.keys.stored_keys import make_key
from environments.models import Split, Task
from tests.environments.tasks.test_task_states import one_in_each_state
from tests.episodes.api.asking import get
from tests.stored import make_split

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_task_is_returned_with_its_state() -> None:
    tasks = one_in_each_state()
    wanted = {pk: "active" if state == "served" else state for state, pk in tasks.items()}
    assert {pk: get(f"tasks/{pk}")["state"] for pk in tasks.values()} == wanted
    assert wanted.items() <= {row["id"]: row["state"] for row in get("tasks")["results"]}.items()


def test_a_superseded_task_leads_to_what_replaced_it() -> None:
    tasks = one_in_each_state()
    new = Task.objects.get(pk=tasks["superseded"]).replaced_by_id
    successor = {"id": new, "url": f"http://testserver/api/tasks/{new}"}
    rows = {row["id"]: row["replaced_by"] for row in get("tasks")["results"]}
    assert {pk for pk, row in rows.items() if row} == {tasks["superseded"]}
    assert (
        rows[tasks["superseded"]] == get(f"tasks/{tasks['superseded']}")["replaced_by"] == successor
    )
    assert get(f"tasks/{new}")["state"] == "active"


def test_a_superseded_task_that_a_split_serves_again_is_active() -> None:
    old = Task.objects.get(pk=one_in_each_state()["superseded"])
    make_split(old, name="again")
    found = get(f"tasks/{old.pk}")
    assert (found["state"], found["replaced_by"]) == ("active", None)


def test_a_frozen_split_lists_a_superseded_task_as_such() -> None:
    old = Task.objects.get(pk=one_in_each_state()["superseded"])
    make_split(old, name="again")
    Split.objects.filter(name="again").update(frozen=old.created)
    [found] = get("tasks?environment=math&split=again")["results"]
    assert (found["state"], found["replaced_by"]["id"]) == ("superseded", old.replaced_by_id)


def test_a_key_that_may_not_read_what_replaced_a_task_is_not_led_to_it(settings: Settings) -> None:
    settings.ORSWEB_REQUIRE_KEYS = True
    old = Task.objects.get(pk=one_in_each_state()["superseded"])
    make_split(old, name="kept")
    Split.objects.filter(name="kept").update(frozen=old.created)
    _, key = make_key("lab", scopes=["read"], splits=["kept"])
    found = get(f"tasks/{old.pk}", **{"X-API-Key": key})
    assert (found["state"], found["replaced_by"]) == ("superseded", None)
