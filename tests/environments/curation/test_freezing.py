"""A frozen split cannot change until it is unfrozen, and its hash is the hash of its content."""

from __future__ import annotations

import pytest
from django.core.management import CommandError, call_command

from environments.curation.splits import freeze, unfreeze
from environments.tasks.listed_tasks import ListedTasks
from environments.tasks.split_change import SplitChange, commit
from environments.tasks.split_errors import FrozenSplit
from tests.stored import make_split, make_task

pytestmark = pytest.mark.django_db(transaction=True)


def test_it_refuses_a_frozen_split() -> None:
    split = make_split(make_task())
    digest = freeze(split)
    with (
        pytest.raises(FrozenSplit, match=r"Split 'train' of 'math' is frozen\. Unfreeze it"),
        SplitChange(split),
    ):
        pass
    split.refresh_from_db()
    assert split.frozen_hash == digest != ""


def test_an_unfrozen_split_changes_again() -> None:
    split = make_split(make_task())
    freeze(split)
    unfreeze(split)
    with SplitChange(split) as change:
        change.add([make_task().pk])
        commit(change)
    assert len(ListedTasks().ids("math", split.name)) == 2


def test_the_hash_is_computed_over_content_and_order() -> None:
    one, two = make_task(), make_task()
    first, same, turned = (
        make_split(*tasks, name=name)
        for name, *tasks in [("a", one, two), ("b", one, two), ("c", two, one)]
    )
    assert freeze(first) == freeze(same) != freeze(turned)


def test_the_command_freezes_a_split_and_prints_its_hash(
    capsys: pytest.CaptureFixture[str],
) -> None:
    split = make_split(make_task())
    call_command("freeze_split", "math", "train")
    split.refresh_from_db()
    assert capsys.readouterr().out == f"Froze split 'train'. Its hash is {split.frozen_hash}.\n"
    with pytest.raises(CommandError, match="Split 'train' is already frozen"):
        call_command("freeze_split", "math", "train")
    with pytest.raises(CommandError, match="no split 'tset' of 'math'; there are: math train"):
        call_command("freeze_split", "math", "tset")
