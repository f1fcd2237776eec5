"""Flags: people report what is broken about a task, and the report stays open until a curator
settles it."""

from __future__ import annotations

import pytest

from environments.models import TaskFlag
from environments.tasks.flags import (
    MAX_CHARACTERS,
    MAX_TOGETHER,
    FlagRefused,
    flag,
    flagged,
    flags_of,
    settle,
)
from tests.stored import make_task

pytestmark = pytest.mark.django_db


def test_it_waits_until_a_person_settles_it() -> None:
    task = make_task()
    flag(task, "ada", "The answer is wrong.", 12)
    [waiting] = flags_of(task).open
    assert (waiting.author, waiting.note, waiting.episode) == ("ada", "The answer is wrong.", 12)
    assert settle(task, "eve") == 1 and not flags_of(task).open
    [settled] = flags_of(task).settled
    assert settled.settled_by == "eve" and settled.settled is not None


def test_a_second_note_of_a_person_is_added_to_their_open_flag() -> None:
    task = make_task()
    flag(task, "ada", "Wrong.", 12)
    flag(task, "ada", "And misspelt.", 12)
    flag(task, "ada", "Here too.", 13)
    [only] = flags_of(task).open
    assert only.note == "Wrong.\n\nAnd misspelt.\n\nEpisode 13: Here too." and only.episode == 12


def test_a_form_that_is_sent_twice_says_it_once() -> None:
    task = make_task()
    flag(task, "ada", "Wrong.")
    assert flag(task, "ada", " Wrong. ").note == "Wrong."


def test_an_episode_can_be_added_to_an_open_flag() -> None:
    task = make_task()
    flag(task, "ada", "Wrong.")
    assert flag(task, "ada", "Here.", 13).episode == 13


def test_each_person_has_a_flag_of_their_own_and_settled_ones_stay() -> None:
    task = make_task()
    first = flag(task, "ada", "Wrong.")
    flag(task, "bob", "Wrong.")
    assert settle(task, "eve", first.pk) == 1
    flag(task, "ada", "Still wrong.")
    assert [row.author for row in flags_of(task).open] == [
        "bob",
        "ada",
    ] and TaskFlag.objects.count() == 3


def test_a_flag_is_settled_once_and_only_from_its_own_task() -> None:
    task = make_task()
    number = flag(task, "ada", "Wrong.").pk
    assert settle(make_task(), "eve", number) == 0
    assert settle(task, "eve", number) == 1 and settle(task, "bob", number) == 0


@pytest.mark.parametrize(
    ("note", "told"),
    [(" \n", "Say what is wrong"), ("x" * (MAX_CHARACTERS + 1), "2,001 characters; at most 2,000")],
)
def test_a_note_is_needed_and_bounded(note: str, told: str) -> None:
    with pytest.raises(FlagRefused, match=told):
        flag(make_task(), "ada", note)


def test_all_notes_of_one_person_together_are_bounded() -> None:
    task = make_task()
    for number in range(MAX_TOGETHER // MAX_CHARACTERS - 1):
        flag(task, "ada", f"{number}" + "x" * (MAX_CHARACTERS - 2))
    with pytest.raises(FlagRefused, match="once somebody has settled it"):
        flag(task, "ada", "a" + "x" * (MAX_CHARACTERS - 1) + "", 3) and flag(
            task, "ada", "b" * MAX_CHARACTERS
        )


def test_the_queue_holds_each_task_once() -> None:
    task, other = make_task(), make_task()
    make_task()
    for author, row in (("ada", task), ("bob", task), ("ada", other)):
        flag(row, author, "Wrong.")
    settle(other, "eve")
    assert list(flagged()) == [task]


def test_text_is_stored_without_characters_that_no_database_takes() -> None:
    assert flag(make_task(), "ada", "a\0b").note == "ab"
