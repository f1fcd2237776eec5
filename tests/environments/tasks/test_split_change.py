"""Changes of splits: staged unseen, visible at once, undone when they fail."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from environments.curation.splits import freeze
from environments.models import Split, SplitEntry, SplitRemoval, Task
from environments.tasks import split_change
from environments.tasks.listed_tasks import ListedTasks, task_ids
from environments.tasks.split_change import SplitChange, commit
from environments.tasks.split_errors import SplitBusy, SplitGone
from environments.tasks.task_places import splits_of
from tests.stored import make_split, make_task

pytestmark = pytest.mark.django_db(transaction=True)


def served(split: Split) -> list[int]:
    """Return the task ids as agents get them now."""
    return list(ListedTasks().ids("math", split.name))


def make_tasks(count: int) -> list[Task]:
    return [make_task() for _ in range(count)]


def quarantine(*tasks: Task) -> None:
    Task.objects.filter(pk__in=[task.pk for task in tasks]).update(state="quarantined")


def test_it_appends_tasks_that_are_not_there_yet() -> None:
    one, two, three = make_tasks(3)
    split = make_split(one)
    with SplitChange(split) as change:
        assert change.add([three.pk, one.pk, two.pk, three.pk]) == 2
        commit(change)
    assert served(split) == [one.pk, three.pk, two.pk]


def test_it_shows_nothing_before_the_commit() -> None:
    one, two = make_tasks(2)
    split = make_split(one)
    with SplitChange(split) as change:
        change.remove([one.pk])
        change.add([two.pk])
        assert served(split) == [one.pk]
        commit(change)
        assert served(split) == [two.pk]


def test_it_undoes_what_fails() -> None:
    one, two = make_tasks(2)
    split = make_split(one)
    with pytest.raises(ZeroDivisionError), SplitChange(split) as change:
        change.remove([one.pk])
        change.add([two.pk])
        raise ZeroDivisionError
    assert list(SplitEntry.objects.values_list("task", "until")) == [(one.pk, None)]


def test_it_puts_a_task_in_anothers_place() -> None:
    one, two, three, new = make_tasks(4)
    split = make_split(one, two, three)
    with SplitChange(split) as change:
        assert change.replace({two.pk: new.pk}) == 1
        commit(change)
    assert served(split) == [one.pk, new.pk, three.pk]


def test_it_only_removes_a_task_whose_successor_is_there_already() -> None:
    one, two, three = make_tasks(3)
    split = make_split(one, two, three)
    with SplitChange(split) as change:
        change.replace({two.pk: one.pk})
        commit(change)
    assert served(split) == [one.pk, three.pk]


def test_it_hides_quarantined_tasks_and_shows_them_again_in_their_place() -> None:
    one, two = make_tasks(2)
    split = make_split(one, two)
    quarantine(one)
    with SplitChange(split) as change:
        assert change.refresh([one.pk, two.pk]) == 1
        commit(change)
    assert served(split) == [two.pk]
    Task.objects.update(state="active")
    with SplitChange(split) as change:
        change.refresh([one.pk])
        commit(change)
    assert served(split) == [one.pk, two.pk]


def test_it_adds_a_quarantined_task_hidden() -> None:
    one, two = make_tasks(2)
    split = make_split(one)
    quarantine(two)
    with SplitChange(split) as change:
        change.add([two.pk])
        commit(change)
    assert served(split) == [one.pk]
    assert split.entries.count() == 2


def test_it_counts_the_tasks_served() -> None:
    tasks = make_tasks(4)
    split = make_split(*tasks[:3])
    quarantine(tasks[0], tasks[3])
    with SplitChange(split) as change:
        change.refresh([tasks[0].pk])
        change.remove([tasks[1].pk])
        change.add([tasks[3].pk])
        commit(change)
    split.refresh_from_db()
    assert (split.size, split.version) == (1, 1)


def test_each_step_of_a_change_sees_those_before() -> None:
    one, two, three = make_tasks(3)
    split = make_split(one)
    with SplitChange(split) as change:
        change.add([two.pk])
        change.replace({two.pk: three.pk})
        change.replace({three.pk: two.pk})
        change.remove([two.pk])
        change.add([two.pk, three.pk])
        commit(change)
    assert served(split) == [one.pk, two.pk, three.pk]


def test_it_makes_several_splits_change_at_once() -> None:
    one, two = make_tasks(2)
    source, target = make_split(one, two, name="train"), make_split(name="hard")
    with SplitChange(source) as taken, SplitChange(target) as given:
        taken.remove([one.pk])
        given.add([one.pk])
        commit(given, taken)
    assert (served(source), served(target)) == ([two.pk], [one.pk])


def test_it_leaves_all_splits_alone_when_one_cannot_be_changed() -> None:
    one, two = make_tasks(2)
    source, target = make_split(one, two, name="train"), make_split(name="hard")
    with pytest.raises(SplitBusy), SplitChange(source) as taken, SplitChange(target) as given:
        taken.remove([one.pk])
        given.add([one.pk])
        Split.objects.filter(pk=target.pk).update(changing="somebody else")
        commit(taken, given)
    assert served(source) == [one.pk, two.pk]


def test_it_leaves_no_ended_places_behind() -> None:
    tasks = make_tasks(3)
    split = make_split(*tasks)
    with SplitChange(split) as change:
        change.remove([tasks[0].pk])
        commit(change)
    assert not SplitEntry.objects.exclude(until=None).exists()


def test_a_reader_of_the_version_before_reads_it_whole() -> None:
    one, two = make_tasks(2)
    split = make_split(one)
    with SplitChange(split) as change:
        change.replace({one.pk: two.pk})
        commit(change)
        assert list(task_ids(split.pk, 0)) == [one.pk]
        assert list(task_ids(split.pk, 1)) == [two.pk]


def test_it_refuses_a_second_change_meanwhile() -> None:
    split = make_split(make_task())
    with (
        SplitChange(split),
        pytest.raises(SplitBusy, match="being changed by someone else"),
        SplitChange(split),
    ):
        pass
    with SplitChange(split) as change:
        commit(change)


def test_it_says_that_a_split_is_gone() -> None:
    split = make_split()
    Split.objects.all().delete()
    with pytest.raises(SplitGone, match="Split 'train' no longer exists"), SplitChange(split):
        pass


def interrupted(split: Split) -> None:
    """Make a change that was killed half way, long ago."""
    one, *_ = make_tasks(1)
    change = SplitChange(split).__enter__()
    change.remove(list(split.entries.values_list("task", flat=True)))
    change.add([one.pk])
    Split.objects.filter(pk=split.pk).update(changing_until=timezone.now() - timedelta(seconds=1))


def test_it_removes_what_an_interrupted_change_left() -> None:
    one, two = make_tasks(2)
    split = make_split(one)
    interrupted(split)
    with SplitChange(split) as change:
        change.add([two.pk])
        commit(change)
    assert served(split) == [one.pk, two.pk]
    assert SplitEntry.objects.count() == 2


def test_a_change_that_lost_its_claim_touches_nothing_more() -> None:
    one, two = make_tasks(2)
    split = make_split(one)
    slow = SplitChange(split).__enter__()
    slow.remove([one.pk])
    Split.objects.filter(pk=split.pk).update(changing_until=timezone.now() - timedelta(seconds=1))
    with SplitChange(split) as change:
        change.add([two.pk])
        with pytest.raises(SplitBusy):
            slow.add([make_task().pk])
        slow.__exit__(None, None, None)
        commit(change)
    assert served(split) == [one.pk, two.pk]


def test_it_works_in_batches_and_tells_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split_change, "BATCH", 2)
    tasks, told = make_tasks(5), list[int]()
    split = make_split()
    with SplitChange(split, progress=told.append) as change:
        change.add([task.pk for task in tasks])
        commit(change)
    assert told == [2, 4, 5]
    assert served(split) == [task.pk for task in tasks]


def test_it_remembers_what_was_taken_out_of_the_classs_list() -> None:
    task = make_task()
    split = make_split(task)
    SplitEntry.objects.update(source_hash=task.content_hash)
    with SplitChange(split) as change:
        change.remove([task.pk])
        commit(change)
    assert list(SplitRemoval.objects.values_list("source_hash", flat=True)) == [task.content_hash]


def test_it_names_the_splits_of_a_task() -> None:
    one, two = make_tasks(2)
    first, second, frozen = (
        make_split(one, name="a"),
        make_split(one, name="b"),
        make_split(one, name="c"),
    )
    make_split(two, name="d")
    freeze(frozen)
    assert splits_of([one.pk]) == [first, second]


def test_many_tasks_are_replaced_as_if_at_once() -> None:
    one, two, three, four = make_tasks(4)
    split = make_split(one, two, three)
    with SplitChange(split) as change:
        assert (
            change.replace({one.pk: two.pk, two.pk: one.pk, three.pk: four.pk, four.pk: one.pk})
            == 3
        )
        commit(change)
    assert served(split) == [two.pk, one.pk, four.pk]


def test_of_many_tasks_with_the_same_new_one_the_first_keeps_its_place() -> None:
    one, two, three = make_tasks(3)
    split = make_split(one, two)
    with SplitChange(split) as change:
        change.replace({one.pk: three.pk, two.pk: three.pk})
        commit(change)
    assert served(split) == [three.pk]


def test_a_claim_is_held_through_a_pause_in_writing(monkeypatch: pytest.MonkeyPatch) -> None:
    split = make_split(make_task())
    with SplitChange(split) as change:
        Split.objects.filter(pk=split.pk).update(
            changing_until=timezone.now() - timedelta(seconds=1)
        )
        monkeypatch.setattr(split_change, "CLAIM_SECONDS", 0.0)
        change.hold()
        with pytest.raises(SplitBusy), SplitChange(split):
            pass
