"""Which tasks are sealed for people, and from whom."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count

import pytest
from django.contrib.auth.models import AnonymousUser, Group, Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from environments.access.privacy import viewer_of
from environments.curation.actions.membership import CopyToSplit, MoveToSplit, RemoveFromSplit
from environments.curation.edit import Edit, last_revision
from environments.curation.splits import DeleteSplit, SealSplit
from environments.models import Split, Task
from environments.models.viewer import visible_splits, visible_tasks
from episodes.models import Episode, Rollout
from episodes.models.privacy import visible_episodes, visible_rollouts
from tests.episodes.reported import reported
from tests.filters import select
from tests.people import client_of, member
from tests.rows import each
from tests.statement_plans import caught, judge
from tests.stored import make_environment, make_episode, make_split, make_task

pytestmark = pytest.mark.django_db(transaction=True)

_numbers = count()


def new_split(*tasks: Task) -> Split:
    split = make_split(*tasks, name=f"split-{next(_numbers)}")
    Split.objects.filter(pk=split.pk).update(is_curated=True)
    return split


def seal(split: Split) -> None:
    SealSplit(split.pk, "people").apply("ada")


def edited(task: Task) -> Task:
    """Return what an edit makes of the task."""
    spec = json.dumps({"question": f"edit-{next(_numbers)}"})
    return Task.objects.get(pk=Edit(task.pk, spec, last_revision(task)).apply("ada").task)


def touch(split: Split) -> None:
    """Change the split, which deletes the places that ended before."""
    CopyToSplit(select(ids=(make_task().pk,)), split.pk).apply("ada")


def earlier_versions() -> list[Task]:
    first = make_task()
    split = new_split(first)
    second = edited(first)
    third = edited(second)
    touch(split)
    seal(split)
    return [first, second, third]


def edited_since() -> list[Task]:
    first = make_task()
    split = new_split(first)
    seal(split)
    second = edited(first)
    touch(split)
    return [first, second]


def taken_out_since() -> list[Task]:
    task = make_task()
    split = new_split(task)
    seal(split)
    RemoveFromSplit(select(ids=(task.pk,), split=split.pk), split.pk).apply("ada")
    touch(split)
    return [task]


def added_since() -> list[Task]:
    task, split = make_task(), new_split()
    seal(split)
    CopyToSplit(select(ids=(task.pk,)), split.pk).apply("ada")
    return [task]


def quarantined() -> list[Task]:
    task = make_task()
    seal(split := new_split(task))
    split.entries.update(is_hidden=True)
    return [task]


def of_a_deleted_split() -> list[Task]:
    seal(split := new_split(task := make_task()))
    DeleteSplit(split.pk).apply("ada")
    return [task]


def generated() -> list[Task]:
    """A task without a place, which was played from the split."""
    seal(split := new_split())
    return [make_episode(split=split).task]


def in_two_sealed_splits() -> list[Task]:
    task = make_task()
    seal(new_split(task))
    seal(new_split(task))
    return [task]


def in_an_open_split_too() -> list[Task]:
    task = make_task()
    seal(new_split(task))
    new_split(task)
    return [task]


def moved_to_an_open_split() -> list[Task]:
    task, other = make_task(), new_split()
    seal(split := new_split(task))
    MoveToSplit(select(ids=(task.pk,), split=split.pk), split.pk, other.pk).apply("ada")
    return [task]


def earlier_version_of_an_open_task() -> list[Task]:
    new_split(first := make_task())
    return [first, edited(first)]


def in_no_split() -> list[Task]:
    return [make_task(), make_episode(split=new_split()).task]


def unsealed_again() -> list[Task]:
    tasks = taken_out_since()
    for split in Split.objects.filter(entries__task__in=tasks):
        SealSplit(split.pk, "nobody", is_opening=True).apply("ada")
    return tasks


def sealed_for_keys() -> list[Task]:
    task = make_task()
    SealSplit(new_split(task).pk, "keys").apply("ada")
    return [task]


SEALED: list[Callable[[], list[Task]]] = [
    *(
        earlier_versions,
        edited_since,
        taken_out_since,
        added_since,
        quarantined,
        of_a_deleted_split,
        generated,
    ),
    in_two_sealed_splits,
]
OPEN: list[Callable[[], list[Task]]] = [
    *(
        in_an_open_split_too,
        moved_to_an_open_split,
        earlier_version_of_an_open_task,
        in_no_split,
        unsealed_again,
    ),
    sealed_for_keys,
]


@each("make, are_seen", [*((make, False) for make in SEALED), *((make, True) for make in OPEN)])
def test_what_was_in_the_split_is_sealed_unless_it_stands_openly(
    make: Callable[[], list[Task]], are_seen: bool
) -> None:
    person = User.objects.filter(username="eve").first() or member("viewer", name="eve")
    tasks = make()
    hidden = viewer_of(User.objects.get(pk=person.pk))
    seen = set(Task.objects.filter(visible_tasks(hidden)).values_list("pk", flat=True))
    assert [task.pk in seen for task in tasks] == [are_seen] * len(tasks)
    for episode in [make_episode(task=task) for task in tasks]:
        assert Episode.objects.filter(visible_episodes(hidden), pk=episode.pk).exists() == are_seen


def test_an_episode_of_the_split_is_sealed_also_if_its_task_is_open() -> None:
    task = make_task()
    seal(split := new_split(task))
    other = new_split(task)
    of_split, of_other = make_episode(task=task, split=split), make_episode(task=task, split=other)
    seen = Episode.objects.filter(visible_episodes(viewer_of(member("viewer"))))
    assert list(seen) == [of_other] != [of_split]


@each(
    "group, is_sealed",
    [("viewer", True), ("player", True), ("curator", False), ("operator", False)],
)
def test_it_is_sealed_from_those_who_may_not_see_hidden_fields(group: str, is_sealed: bool) -> None:
    split = Split.objects.filter(name="train").first() or make_split(make_task())
    Split.objects.filter(pk=split.pk).update(is_sealed_for_people=True)
    hidden = viewer_of(member(group, name=group))
    assert hidden.sealed_splits == ({split.pk: split.environment_id} if is_sealed else {})
    assert viewer_of(AnonymousUser()).sealed_splits == {split.pk: split.environment_id}
    assert Split.objects.filter(visible_splits(hidden)).exists() != is_sealed


def test_a_conversation_without_an_episode_is_seen_if_it_names_an_open_split() -> None:
    closed, is_open = new_split(make_task()), new_split(make_task())
    seal(closed)
    name = closed.name
    for split in [is_open.name, name, name.title(), f"{name} ", f"{name}\u200b", f"{name}2", ""]:
        reported(f"r-{split}", environment_name=closed.environment.name, split=split)
    seen = Rollout.objects.filter(visible_rollouts(viewer_of(member("viewer", name="reader"))))
    assert list(seen.values_list("split", flat=True)) == [is_open.name]


@each("group, least", [("viewer", 1), ("curator", 1), ("operator", 0)])
def test_reading_it_takes_no_statement_more_than_private_environments(
    group: str, least: int
) -> None:
    user = User.objects.get(pk=member(group, name=group).pk)
    user.has_perm("episodes.view_episode")
    with CaptureQueriesContext(connection) as statements:
        viewer_of(user)
    assert len(statements) == least


def test_without_seals_no_query_changes() -> None:
    hidden = viewer_of(member("viewer"))
    assert not visible_tasks(hidden) and not visible_splits(hidden) and not visible_episodes(hidden)


def test_a_task_is_looked_up_without_reading_a_whole_table(monkeypatch: pytest.MonkeyPatch) -> None:
    seal(new_split(make_task()))
    hidden = viewer_of(member("viewer"))
    rows = (
        Task.objects.filter(visible_tasks(hidden), pk=1),
        Episode.objects.filter(visible_episodes(hidden), pk=1),
    )
    with caught(monkeypatch) as statements:
        assert not any(list(one) for one in rows)
    judge(statements, {}, least=1)


def test_who_may_not_read_it_can_neither_seal_nor_unseal_it() -> None:
    Group.objects.get(name="curator").permissions.remove(
        Permission.objects.get(codename="view_hidden_fields")
    )
    client: Client = client_of("curator")
    split, other = new_split(make_task()), new_split(make_task())
    seal(split)
    for action in ("seal", "unseal", "seal_for_people", "unseal_for_people"):
        assert client.post(f"/admin/environments/split/{split.pk}/{action}/").status_code == 404
        assert client.post(f"/admin/environments/split/{other.pk}/{action}/").status_code == 403
    assert not make_environment().splits.exclude(pk=split.pk).filter(is_sealed=True).exists()
