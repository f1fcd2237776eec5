"""AddTags and RemoveTags: words on tasks, with their history."""

from __future__ import annotations

import json

import pytest

from environments.curation.action import ActionRefused
from environments.curation.actions.tags import AddTags, RemoveTags
from environments.models import Split, TaskRevision, TaskTag
from tests.environments.curation.tasks import AUTHOR, SMALL_BATCH, make_tasks, split_of
from tests.filters import select

pytestmark = pytest.mark.django_db(transaction=True)


def tags_of(task: int) -> list[str]:
    return list(TaskTag.objects.filter(task=task).values_list("name", flat=True))


def test_it_adds_tags_that_are_not_there() -> None:
    one, two = make_tasks(2)
    AddTags(select(ids=(one,)), ("hard",)).apply(AUTHOR)
    outcome = AddTags(select(), (" geometry ", "hard", "hard")).apply(AUTHOR)
    assert tags_of(one) == tags_of(two) == ["geometry", "hard"]
    assert outcome.sentence == "Tagged 2 tasks “geometry”, “hard”."


def test_it_removes_tags() -> None:
    one, two = make_tasks(2)
    AddTags(select(), ("hard", "old")).apply(AUTHOR)
    outcome = RemoveTags(select(ids=(one,)), ("hard", "unknown")).apply(AUTHOR)
    assert (tags_of(one), tags_of(two), outcome.changed) == (["old"], ["hard", "old"], 1)


def test_it_shows_the_history() -> None:
    make_tasks(1)
    AddTags(select(), ("b",), "so").apply(AUTHOR)
    outcome = AddTags(select(), ("a",)).apply(AUTHOR)
    [revision] = TaskRevision.objects.filter(change=outcome.change)
    assert (json.loads(revision.before), json.loads(revision.after)) == (
        {"tags": ["b"]},
        {"tags": ["a", "b"]},
    )


def test_it_writes_no_history_of_what_did_not_change() -> None:
    make_tasks(1)
    AddTags(select(), ("a",)).apply(AUTHOR)
    assert AddTags(select(), ("a",)).apply(AUTHOR).changed == 0
    assert TaskRevision.objects.count() == 1


def test_it_plans_how_many_tasks_will_change() -> None:
    one, *_ = make_tasks(3)
    AddTags(select(ids=(one,)), ("hard",)).apply(AUTHOR)
    plan = AddTags(select(), ("hard",)).plan()
    assert (plan.title, plan.selected, plan.changing) == ("Tag 2 tasks “hard”", 3, 2)
    assert plan.sentences == ("1 task is already tagged.",)
    assert RemoveTags(select(), ("hard",)).plan().title == "Take “hard” off 1 task"


def test_it_takes_a_percent_sign_for_itself() -> None:
    make_tasks(1)
    assert AddTags(select(), ("100%s",)).plan().title == "Tag 1 task “100%s”"
    assert AddTags(select(), ("100%s",)).apply(AUTHOR).sentence == "Tagged 1 task “100%s”."


@pytest.mark.parametrize(
    ("tag", "why"),
    [("", "No tag"), ("x" * 61, "longer than 60"), ("a,b", "comma"), ("a\0b", "control character")],
)
def test_it_refuses_what_is_no_tag(tag: str, why: str) -> None:
    make_tasks(1)
    with pytest.raises(ActionRefused, match=why):
        AddTags(select(), (tag,)).plan()


@pytest.mark.usefixtures("small_batches")
def test_it_tags_more_tasks_than_one_batch() -> None:
    count = len(make_tasks(SMALL_BATCH + 1))
    assert AddTags(select(), ("hard",)).apply(AUTHOR).changed == count
    assert TaskTag.objects.count() == TaskRevision.objects.count() == count


def test_it_leaves_splits_alone() -> None:
    split = split_of(*make_tasks(1))
    AddTags(select(), ("hard",)).apply(AUTHOR)
    assert Split.objects.get(pk=split.pk).version == 0
