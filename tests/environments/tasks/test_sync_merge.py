"""A sync keeps what people did to a split: edits, additions, removals, quarantine, freezing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from environments.curation.splits import DeleteSplit, freeze
from environments.models import Split, SplitEntry, Task
from environments.tasks.split_change import SplitChange, commit
from environments.tasks.sync_report import SplitSync
from tests.environments.listings import listing, numbered, synced
from tests.stored import make_environment, make_split, make_task

pytestmark = pytest.mark.django_db(transaction=True)


def sync_list(*tasks: Any) -> SplitSync:
    """Sync environment `shop` with these tasks in split `train`."""
    [split] = asyncio.run(synced(listing({"train": list(tasks)}))).splits
    return split


def sync_splits(**tasks: Any) -> tuple[SplitSync, ...]:
    """Sync environment `shop` with these tasks, by split."""
    return asyncio.run(synced(listing(tasks))).splits


def specs() -> list[str]:
    served = SplitEntry.objects.filter(split__name="train", is_hidden=False, until=None)
    return list(served.order_by("position").values_list("task__spec", flat=True))


def a_task(n: int) -> Task:
    return Task.objects.get(spec=f'{{"n":{n}}}')


def is_dropped(task: Task) -> bool:
    return Task.objects.filter(pk=task.pk, dropped__isnull=False).exists()


def change(action: str, *tasks: Task, split: str = "train") -> None:
    with SplitChange(Split.objects.get(name=split)) as split_change:
        keys = [task.pk for task in tasks]
        getattr(split_change, action)(dict([keys]) if action == "replace" else keys)
        commit(split_change)


def own_task(word: str) -> Task:
    return make_task({"own": word}, make_environment("shop"))


def test_it_keeps_an_edited_task_in_its_place() -> None:
    sync_list(*numbered(3))
    change("replace", a_task(1), own_task("edited"))
    assert sync_list(*numbered(5)) == SplitSync("shop", "train", added=2, unchanged=3, edited=1)
    assert specs() == ['{"n":0}', '{"own": "edited"}', '{"n":2}', '{"n":3}', '{"n":4}']


def test_it_moves_an_edited_task_with_the_place_that_the_class_gives_it() -> None:
    sync_list({"n": 0}, {"n": 1})
    change("replace", a_task(1), own_task("edited"))
    sync_list({"n": 1}, {"n": 0})
    assert specs() == ['{"own": "edited"}', '{"n":0}']


def test_it_keeps_an_edited_task_whose_original_the_class_dropped() -> None:
    sync_list(*numbered(2))
    change("replace", a_task(0), own_task("edited"))
    assert sync_list({"n": 1}) == SplitSync(
        "shop", "train", unchanged=1, kept=1, dropped=1, conflicts=1
    )
    assert specs() == ['{"n":1}', '{"own": "edited"}']


def test_it_does_not_bring_back_the_original_of_an_edit_that_the_class_drops_and_lists_again() -> (
    None
):
    sync_list(*numbered(2))
    change("replace", a_task(0), own_task("edited"))
    sync_list({"n": 1})
    sync_list({"n": 1}, {"n": 2})
    sync_list(*numbered(2))
    assert specs() == ['{"own": "edited"}', '{"n":1}']


def test_it_takes_an_edit_that_the_class_made_its_own_once() -> None:
    sync_list(*numbered(2))
    change("replace", a_task(0), own_task("edited"))
    sync_list({"n": 1}, {"own": "edited"})
    assert specs() == ['{"n":1}', '{"own": "edited"}']


def test_it_does_not_bring_back_the_place_of_a_task_that_became_another_one() -> None:
    sync_list(*numbered(3))
    change("replace", a_task(2), a_task(0))
    assert sync_list(*numbered(4)) == SplitSync("shop", "train", added=1, unchanged=2, withheld=1)
    assert specs() == ['{"n":0}', '{"n":1}', '{"n":3}']


def test_it_keeps_what_people_added_after_the_classs_own() -> None:
    sync_list(*numbered(1))
    change("add", own_task("added"))
    assert sync_list(*numbered(2)) == SplitSync("shop", "train", added=1, unchanged=1, kept=1)
    assert specs() == ['{"n":0}', '{"n":1}', '{"own": "added"}']


def test_it_does_not_bring_back_what_people_took_out() -> None:
    sync_list(*numbered(3))
    change("remove", a_task(1))
    assert sync_list(*numbered(4)) == SplitSync("shop", "train", added=1, unchanged=2, withheld=1)
    assert specs() == ['{"n":0}', '{"n":2}', '{"n":3}']


def test_it_keeps_a_quarantined_task_hidden() -> None:
    sync_list(*numbered(2))
    Task.objects.filter(pk=a_task(0).pk).update(state="quarantined")
    change("refresh", a_task(0))
    sync_list(*numbered(3, start=0))
    assert specs() == ['{"n":1}', '{"n":2}']
    sync_list(*reversed(numbered(3)))
    assert specs() == ['{"n":2}', '{"n":1}']


def test_it_marks_what_the_class_dropped_until_it_is_listed_again() -> None:
    sync_list(*numbered(2))
    assert sync_list({"n": 1}).removed == 1
    assert a_task(0).dropped is not None
    sync_list(*numbered(2))
    assert a_task(0).dropped is None


def test_it_marks_no_task_that_another_split_still_lists() -> None:
    asyncio.run(synced(listing({"train": numbered(2), "test": numbered(1)})))
    asyncio.run(synced(listing({"train": numbered(1, start=1), "test": numbered(1)})))
    assert a_task(0).dropped is None


def test_it_marks_no_task_that_moved_to_another_split() -> None:
    sync_splits(train=numbered(2), test=[])
    sync_splits(train=numbered(1), test=numbered(1, start=1))
    assert not Task.objects.filter(dropped__isnull=False).exists()


def test_it_marks_what_the_class_dropped_where_people_had_edited_it() -> None:
    sync_list(*numbered(2))
    change("replace", a_task(0), own_task("edited"))
    assert "1 added by people kept, 1 marked as dropped" in str(sync_list({"n": 1}))
    assert is_dropped(a_task(0)) and not is_dropped(Task.objects.get(spec='{"own": "edited"}'))
    sync_list(*numbered(2))
    assert not is_dropped(a_task(0))


def test_it_marks_what_the_class_dropped_where_people_had_taken_it_out() -> None:
    sync_list(*numbered(2))
    change("remove", a_task(0))
    curated(a_task(0))
    assert sync_list({"n": 1}) == SplitSync("shop", "train", unchanged=1, dropped=1)
    assert is_dropped(a_task(0))
    assert sync_list(*numbered(2)).withheld == 1
    assert not is_dropped(a_task(0))


def test_it_marks_what_people_had_taken_out_once_no_split_of_the_class_lists_it() -> None:
    sync_splits(train=numbered(2), test=numbered(1))
    for split in ("train", "test"):
        change("remove", a_task(0), split=split)
    sync_splits(train=numbered(2), test=[])
    assert not is_dropped(a_task(0))
    sync_splits(train=numbered(1, start=1), test=[])
    assert is_dropped(a_task(0))


def test_it_marks_the_tasks_of_a_split_that_the_class_no_longer_declares() -> None:
    sync_splits(train=numbered(1), test=numbered(4))
    change("remove", a_task(1), split="test")
    change("remove", a_task(3), split="test")
    _, test = sync_splits(train=numbered(2))
    assert test == SplitSync("shop", "test", removed=2, dropped=2, is_undeclared=True)
    assert str(test).endswith(
        "2 removed, 2 marked as dropped; no longer served, because the class no longer declares it"
    )
    assert [is_dropped(a_task(n)) for n in range(4)] == [False, False, True, True]


@pytest.mark.parametrize("is_frozen", [False, True])
def test_the_marks_go_when_the_class_declares_the_split_again(is_frozen: bool) -> None:
    sync_splits(train=numbered(1), test=numbered(3))
    if is_frozen:
        freeze(Split.objects.get(name="test"))
    assert sync_splits(train=numbered(1))[1].dropped == 2
    assert sync_splits(train=numbered(1), test=numbered(3))[1] == SplitSync(
        "shop", "test", unchanged=3
    )
    assert not Task.objects.filter(dropped__isnull=False).exists()


def test_it_tells_once_of_a_split_that_is_no_longer_declared() -> None:
    sync_splits(train=numbered(1), test=[])
    assert len(sync_splits(train=numbered(1))) == 2
    assert len(sync_splits(train=numbered(1))) == 1


def test_it_leaves_a_frozen_split_alone_and_says_so() -> None:
    sync_list(*numbered(2))
    freeze(Split.objects.get(name="train"))
    report = sync_list(*numbered(3))
    assert report == SplitSync("shop", "train", unchanged=2, is_frozen=True)
    assert "frozen" in str(report)
    assert specs() == ['{"n":0}', '{"n":1}']


def test_it_goes_on_serving_a_split_that_people_made() -> None:
    sync_list(*numbered(1))
    make_split(a_task(0), name="hard", environment=make_environment("shop"))
    Split.objects.filter(name="hard").update(is_curated=True)
    sync_list(*numbered(1))
    assert Split.objects.get(name="hard").is_served


def curated(*tasks: Task, name: str = "hard") -> Split:
    split = make_split(*tasks, name=name, environment=make_environment("shop"))
    Split.objects.filter(pk=split.pk).update(is_curated=True, type="test", position=9)
    return split


def test_it_leaves_a_split_to_people_whose_name_the_class_declares_later() -> None:
    sync_list(*numbered(2))
    split = curated(a_task(1))
    reports = asyncio.run(synced(listing({"train": numbered(2), "hard": numbered(5)}))).splits
    assert reports[1] == SplitSync("shop", "hard", unchanged=1, is_taken=True)
    assert "a split of this name was made in the admin" in str(reports[1]) and reports[1].has_news
    split.refresh_from_db()
    assert (split.is_curated, split.is_served, split.type, split.position, split.size) == (
        True,
        True,
        "test",
        9,
        1,
    )
    assert [entry.task for entry in split.entries.all()] == [a_task(1)]


def test_the_name_of_a_split_that_people_deleted_is_free_for_the_class() -> None:
    sync_list(*numbered(2))
    split = curated(a_task(1), name="hard")
    DeleteSplit(split.pk).apply("ada")
    asyncio.run(synced(listing({"train": numbered(2), "hard": numbered(3)})))
    split.refresh_from_db()
    assert (split.is_curated, split.is_served, split.type, split.size) == (
        False,
        True,
        "validation",
        3,
    )


def test_it_tells_how_many_edits_it_kept_in_their_places() -> None:
    sync_list(*numbered(3))
    change("replace", a_task(1), own_task("edited"))
    assert "3 unchanged, 0 removed, 1 kept with edits" in str(sync_list(*numbered(4)))


def test_it_tells_what_it_kept() -> None:
    sync_list(*numbered(3))
    change("remove", a_task(1))
    change("add", own_task("added"))
    told = (
        "shop/train: 1 added, 2 unchanged, 0 removed, 1 added by people kept, 1 removed by people "
        "left out"
    )
    assert str(sync_list(*numbered(4))) == told
