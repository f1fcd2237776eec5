"""Notes: what people say of an episode or of one of its steps. Players and readers write them; no HTML here."""

from __future__ import annotations

from django.db.models import F, QuerySet

from environments.errors import OrsError, shorten
from episodes.models import Episode, Note

MAX_CHARACTERS = 4_000
"""Of one note."""
MAX_NOTES = 300
"""Of one episode: a page shows them all."""


class BadNote(OrsError):
    """It cannot be kept; the message says why and what would do."""


def notes_of(episode: Episode, author: str | None = None) -> QuerySet[Note]:
    """Of the whole episode first, then step by step, oldest first. `author`: theirs alone."""
    rows = Note.objects.filter(episode=episode)
    chosen = rows if author is None else rows.filter(author=author)
    return chosen.order_by(F("step").asc(nulls_first=True), "id")


def add_note(episode: Episode, author: str, text: str, step: str = "") -> Note:
    """`step`: index as a form gives it; empty: the note is of the whole episode. Raises: BadNote."""
    said = text.replace("\0", "").replace("\r\n", "\n").strip()
    if not said:
        raise BadNote("A note needs some words.")
    if len(said) > MAX_CHARACTERS:
        raise BadNote(f"This note has {len(said):,} characters; at most {MAX_CHARACTERS:,} fit. Shorten it.")
    index = _index(episode, step.strip())
    if Note.objects.filter(episode=episode).count() >= MAX_NOTES:
        raise BadNote(f"Episode {episode.pk} has {MAX_NOTES} notes, the most that fit. Delete one of yours first.")
    return Note.objects.create(episode=episode, step=index, author=author, text=said)


def remove_note(episode: Episode, author: str, number: str) -> None:
    """Delete the author's note of that id. Raises: BadNote."""
    own = Note.objects.filter(episode=episode, author=author)
    if not (number.isdecimal() and len(number) < 19 and own.filter(pk=int(number)).delete()[0]):
        raise BadNote("This note is not there to be deleted: it has gone already, or somebody else wrote it.")


def _index(episode: Episode, step: str) -> int | None:
    if not step:
        return None
    is_number = step.isdecimal() and len(step) < 10
    if not (is_number and episode.steps.filter(index=int(step)).exists()):
        raise BadNote(f"Episode {episode.pk} has no step {shorten(step, 40)!r}; leave it empty for the whole episode.")
    return int(step)
