"""Notes on episodes and steps: which are saved, which are refused, and who can delete them."""

from __future__ import annotations

import pytest

from episodes.models import Note
from episodes.transcript.notes import (
    MAX_CHARACTERS,
    MAX_NOTES,
    BadNote,
    add_note,
    notes_of,
    remove_note,
)
from tests.rows import each
from tests.stored import make_episode, make_step

pytestmark = pytest.mark.django_db


def test_notes_on_the_whole_episode_come_first_then_by_step() -> None:
    episode = make_episode()
    make_step(episode)
    make_step(episode)
    for text, step in (("late", "1"), ("early", "0"), ("of all", ""), ("early too", "0")):
        add_note(episode, "ada", text, step)
    add_note(make_episode(), "ada", "elsewhere")
    assert [(note.text, note.step) for note in notes_of(episode)] == [
        ("of all", None),
        ("early", 0),
        ("early too", 0),
        ("late", 1),
    ]


def test_the_notes_of_one_author_can_be_read() -> None:
    episode = make_episode()
    for author in ("ada", "bob"):
        add_note(episode, author, f"by {author}")
    assert [note.text for note in notes_of(episode, "bob")] == ["by bob"]


@each(
    ("text", "step", "message"),
    [
        (" \n\t", "", "is empty"),
        ("x" * (MAX_CHARACTERS + 1), "", "4,001 characters; at most 4,000 are allowed"),
        ("x", "1", "has no step '1'"),
        ("x", "-1", "has no step '-1'"),
        ("x", "٣٣", "has no step"),
        ("x", "9" * 50, "has no step '9999"),
    ],
)
def test_a_bad_note_is_refused(text: str, step: str, message: str) -> None:
    episode = make_episode()
    make_step(episode)
    with pytest.raises(BadNote, match=message):
        add_note(episode, "ada", text, step)
    assert not Note.objects.exists()


def test_the_number_of_notes_on_an_episode_is_limited() -> None:
    episode = make_episode()
    Note.objects.bulk_create(
        Note(episode=episode, author="ada", text="x") for _ in range(MAX_NOTES)
    )
    with pytest.raises(BadNote, match="the maximum"):
        add_note(episode, "bob", "one more")


def test_characters_that_no_database_can_store_are_removed() -> None:
    assert add_note(make_episode(), "ada", "a\0b\r\nc").text == "ab\nc"


def test_only_its_author_deletes_a_note() -> None:
    episode = make_episode()
    note = add_note(episode, "ada", "mine")
    for author, number in (
        ("bob", str(note.pk)),
        ("ada", "x"),
        ("ada", "9" * 40),
        ("ada", str(note.pk + 1)),
    ):
        with pytest.raises(BadNote):
            remove_note(episode, author, number)
    remove_note(episode, "ada", str(note.pk))
    assert not Note.objects.exists()
