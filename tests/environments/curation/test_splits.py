"""Freezing, unfreezing and deleting splits."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

import pytest

from environments.curation.action import ActionRefused
from environments.curation.actions.membership import SaveAsSplit
from environments.curation.actions.quarantine import Quarantine, Release
from environments.curation.splits import (
    DeleteSplit,
    FreezeSplit,
    UnfreezeSplit,
    content_digest,
)
from environments.errors import InvalidSplit
from environments.models import Environment, SecurityEvent, Split, SplitEntry, Task
from environments.tasks.split_change import SplitChange
from environments.tasks.split_errors import FrozenSplit
from tests.environments.curation.tasks import (
    AUTHOR,
    SMALL_BATCH,
    break_off_after,
    make_tasks,
    served,
    split_of,
)
from tests.filters import select
from tests.stored import make_environment

pytestmark = pytest.mark.django_db(transaction=True)


def saved(name: str = "new") -> int:
    outcome = SaveAsSplit(select(make_environment().pk), name, "train").apply(AUTHOR)
    assert outcome.split is not None
    return outcome.split


def test_it_freezes_a_split_and_reports_its_hash() -> None:
    split = split_of(*make_tasks(2))
    outcome = FreezeSplit(split.pk).apply(AUTHOR)
    hashes = Task.objects.order_by("pk").values_list("content_hash", flat=True)
    digest = hashlib.sha256("".join(f"{content}\n" for content in hashes).encode()).hexdigest()
    assert Split.objects.get().frozen_hash == digest
    assert digest in outcome.sentence


def test_it_hides_what_was_quarantined_while_the_split_was_frozen() -> None:
    one, two, three = make_tasks(3)
    split = split_of(one, two, three)
    Quarantine(select(ids=(three,)), "why").apply(AUTHOR)
    FreezeSplit(split.pk).apply(AUTHOR)
    Quarantine(select(ids=(one,)), "why").apply(AUTHOR)
    Release(select(ids=(three,))).apply(AUTHOR)
    assert served(split) == [one, two]
    plan = UnfreezeSplit(split.pk).plan()
    assert plan.sentences == (
        "2 tasks were quarantined or released meanwhile, which takes effect when you unfreeze it.",
    )
    UnfreezeSplit(split.pk).apply(AUTHOR)
    assert served(split) == [two, three]


def frozen_and_quarantined(tasks: list[int]) -> Split:
    """Return a frozen split of the tasks; all but the first have been quarantined since."""
    split = split_of(*tasks)
    FreezeSplit(split.pk).apply(AUTHOR)
    Quarantine(select(ids=tuple(tasks[1:])), "why").apply(AUTHOR)
    return split


@pytest.mark.usefixtures("small_batches")
def test_unfreezing_that_is_stopped_leaves_the_split_frozen_and_can_be_repeated() -> None:
    split = frozen_and_quarantined(tasks := make_tasks(2 * SMALL_BATCH))
    before = Split.objects.values().get()
    with pytest.raises(ZeroDivisionError):
        UnfreezeSplit(split.pk).apply(AUTHOR, break_off_after(SMALL_BATCH))
    assert (Split.objects.values().get(), served(split)) == (before, tasks)
    assert content_digest(split) == before["frozen_hash"]
    UnfreezeSplit(split.pk).apply(AUTHOR)
    assert (Split.objects.get().frozen, served(split)) == (None, tasks[:1])


def test_unfreezing_that_was_killed_can_be_repeated() -> None:
    split = frozen_and_quarantined(tasks := make_tasks(2))
    with pytest.MonkeyPatch.context() as patch, pytest.raises(ZeroDivisionError):
        patch.setattr(SplitChange, "__exit__", lambda *_: None)
        UnfreezeSplit(split.pk).apply(AUTHOR, break_off_after(0))
    assert (served(split), Split.objects.get().frozen is None) == (tasks, False)
    # as if half a minute had passed
    Split.objects.update(changing_until=datetime(2026, 1, 1, tzinfo=UTC))
    UnfreezeSplit(split.pk).apply(AUTHOR)
    assert (Split.objects.get().frozen, served(split)) == (None, tasks[:1])


def test_what_is_quarantined_while_a_split_is_unfrozen_is_not_served_in_it() -> None:
    split = frozen_and_quarantined(tasks := make_tasks(3))

    def meanwhile(done: int, total: int) -> None:
        Quarantine(select(ids=(tasks[0],)), "why").apply(AUTHOR)

    Release(select(ids=(tasks[2],))).apply(AUTHOR)
    UnfreezeSplit(split.pk).apply(AUTHOR, meanwhile)
    assert served(split) == [tasks[2]]


def test_it_unfreezes_without_a_change_of_content() -> None:
    split = split_of(*make_tasks(2))
    FreezeSplit(split.pk).apply(AUTHOR)
    UnfreezeSplit(split.pk).apply(AUTHOR)
    row = Split.objects.get()
    assert (row.frozen, row.frozen_hash, row.version) == (None, "", 0)


def test_it_refuses_to_freeze_a_generated_split() -> None:
    split = split_of(environment=make_environment(is_procedural=True))
    with pytest.raises(
        ActionRefused,
        match=r"The class generates the tasks of split 'train', .* "
        r"as a new split",
    ):
        FreezeSplit(split.pk).apply(AUTHOR)
    assert Split.objects.get().frozen is None


def test_it_freezes_a_saved_split_of_a_class_that_generates_its_tasks() -> None:
    make_tasks(1, environment=make_environment(is_procedural=True))
    FreezeSplit(split := saved()).apply(AUTHOR)
    assert Split.objects.get(pk=split).frozen_hash


def test_it_says_which_tasks_a_split_will_serve_when_its_class_generates_them_now() -> None:
    split = split_of(*make_tasks(1))
    FreezeSplit(split.pk).apply(AUTHOR)
    Environment.objects.update(is_procedural=True)
    [sentence] = UnfreezeSplit(split.pk).plan().sentences
    assert (
        sentence
        == "Its class generates tasks: from the next start of the server it generates those of this split."
    )


def test_it_freezes_once_and_unfreezes_once() -> None:
    split = split_of(*make_tasks(1))
    with pytest.raises(ActionRefused, match="not frozen"):
        UnfreezeSplit(split.pk).plan()
    FreezeSplit(split.pk).apply(AUTHOR)
    with pytest.raises(ActionRefused, match="already frozen"):
        FreezeSplit(split.pk).apply(AUTHOR)


@pytest.mark.usefixtures("small_batches")
def test_it_deletes_a_curated_split_and_keeps_its_tasks() -> None:
    make_tasks(2 * SMALL_BATCH)
    split = saved()
    DeleteSplit(split).apply(AUTHOR)
    with pytest.raises(InvalidSplit, match="Invalid split 'new'"):
        served(split)
    assert not Split.objects.existing().exists()
    assert not SplitEntry.objects.filter(until=None).exists()
    assert Task.objects.count() == 2 * SMALL_BATCH
    assert SecurityEvent.objects.get(kind="deleted").what == "split new of math"


def test_the_name_of_a_deleted_split_is_free_and_keeps_its_id() -> None:
    tasks = make_tasks(2)
    split = saved()
    DeleteSplit(split).apply(AUTHOR)
    version = Split.objects.get().version
    assert saved() == split
    assert served(split) == tasks
    assert Split.objects.get().version > version


def test_it_refuses_to_delete_what_the_class_declares() -> None:
    split = split_of(*make_tasks(1))
    with pytest.raises(ActionRefused, match="declared by the class of 'math'"):
        DeleteSplit(split.pk).apply(AUTHOR)


def test_it_refuses_to_delete_a_frozen_split() -> None:
    tasks = make_tasks(1)
    split = saved()
    FreezeSplit(split).apply(AUTHOR)
    with pytest.raises(FrozenSplit, match="Unfreeze it"):
        DeleteSplit(split).apply(AUTHOR)
    assert served(split) == tasks


def test_it_plans_a_deletion() -> None:
    make_tasks(3)
    plan = DeleteSplit(saved()).plan()
    assert (plan.title, plan.selected) == ("Delete split 'new'", 3)


def test_it_refuses_a_split_that_is_gone() -> None:
    make_tasks(1)
    split = saved()
    DeleteSplit(split).apply(AUTHOR)
    for action in (DeleteSplit(split), FreezeSplit(split), UnfreezeSplit(split)):
        with pytest.raises(ActionRefused, match="no longer exists"):
            action.plan()
