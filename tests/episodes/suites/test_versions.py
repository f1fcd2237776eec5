"""Versions of suites: what publishing freezes, what the hash identifies, and what is refused."""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import replace
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from environments.models import Environment, Split, SplitEntry
from episodes.models import Suite, SuiteTask
from episodes.suites.versions import (
    MAX_TASKS,
    SuiteRefused,
    UnchangedSuite,
    check_name,
    problems_of,
)
from tests.episodes.suites.published import make_suite, make_tasks, member, split_of, tasks_of
from tests.rows import each

pytestmark = pytest.mark.django_db


def test_the_hash_can_be_computed_from_the_tasks_alone() -> None:
    """As docs/suites.md says: without any code of this project."""
    split = split_of("math", 3)
    version = make_suite(member(split, 2.0))
    hashes = [
        hashlib.sha256(json.dumps(json.loads(task.spec), sort_keys=True).encode()).hexdigest()
        for task in tasks_of(split)
    ]
    tasks = hashlib.sha256(
        "".join(f"{line}\n" for line in (version.salt, *hashes)).encode()
    ).hexdigest()
    listed = {
        "environment": "math",
        "split": "test",
        "tasks": 3,
        "tasks_sha256": tasks,
        "weight": 2.0,
    }
    listed |= {"return": "sum", "threshold": 0.9}
    listed |= {"no_call": "zero", "expired": "keep", "interrupted": "out", "env_error": "out"}
    whole: dict[str, Any] = {"format": "orsweb suite 1", "members": [listed], "score": "success"}
    document = json.dumps(whole, sort_keys=True, separators=(",", ":"))
    assert version.hash == hashlib.sha256(document.encode()).hexdigest()


def test_a_version_keeps_its_tasks_when_the_split_changes() -> None:
    split = split_of("math", 2)
    version = make_suite(member(split))
    [more] = make_tasks("math", 1)
    SplitEntry.objects.create(split=split, position=2, task=more)
    Split.objects.update(version=1)
    assert SuiteTask.objects.filter(member__version=version).count() == 2
    assert version.members.get().has_changed
    second = make_suite(member(Split.objects.get()))
    assert (second.number, second.members.get().tasks_count) == (2, 3)
    assert second.hash != version.hash and problems_of(version) == problems_of(second) == []


def test_a_task_that_is_in_a_split_twice_is_in_the_suite_once() -> None:
    split = split_of("math", 2)
    SplitEntry.objects.create(split=split, position=2, task=tasks_of(split)[0])
    assert make_suite(member(split)).members.get().tasks_count == 2


def test_weights_definitions_and_scores_make_other_versions() -> None:
    split = split_of("math", 2)
    same = member(split)
    make_suite(same)
    with pytest.raises(UnchangedSuite, match="Nothing has changed since v1"):
        make_suite(same)
    hashes = {
        make_suite(replace(same, weight=2.0)).hash,
        make_suite(member(split, definition=replace(same.definition, threshold=0.5))).hash,
        make_suite(same, score="return").hash,
    }
    assert len(hashes) == 3


def test_what_is_wrong_in_the_rows_is_found() -> None:
    version = make_suite(member(split_of("math", 3)))
    output = io.StringIO()
    call_command("verify_suite", "core/v1", stdout=output)
    assert f"sha256:{version.hash}" in output.getvalue() and version.document in output.getvalue()
    SuiteTask.objects.filter(position=1).delete()
    with pytest.raises(
        CommandError, match="The tasks of math/test are not those that were published"
    ):
        call_command("verify_suite", "core/v1")
    with pytest.raises(CommandError, match="There is no v7 of the suite core"):
        call_command("verify_suite", "core/v7")


def test_what_cannot_be_frozen_is_refused() -> None:
    split = split_of("math", 2)
    with pytest.raises(SuiteRefused, match="1 to 20 members; this one has 0"):
        make_suite()
    with pytest.raises(SuiteRefused, match="weight of math/test is 0; it must be above 0"):
        make_suite(member(split, 0.0))
    with pytest.raises(SuiteRefused, match="there twice with the same definition"):
        make_suite(member(split), member(split, 2.0))
    Environment.objects.update(is_procedural=True)
    with pytest.raises(SuiteRefused, match="The class generates the tasks of math/test"):
        make_suite(member(Split.objects.select_related("environment").get()))
    assert not Suite.objects.exists()


def test_more_tasks_than_a_version_may_have_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_TASKS == 20_000
    monkeypatch.setattr("episodes.suites.versions.MAX_TASKS", 2)
    with pytest.raises(SuiteRefused, match="3 tasks together; 2 are allowed"):
        make_suite(member(split_of("math", 3)))


@each("name", ["", "a b", "-a", "a/b", "é", "a" * 101, "new"])
def test_names_that_no_address_can_have_are_refused(name: str) -> None:
    with pytest.raises(SuiteRefused, match="name"):
        check_name(name)
