"""Notes that players and readers write on an episode or on one of its steps."""

from __future__ import annotations

from django.db.models import F, QuerySet

from environments.database.storable import id_in, index_in
from environments.errors import OrsError, shorten
from episodes.models import Episode, Note

MAX_CHARACTERS = 4_000
"""Maximum number of characters of one note."""
MAX_NOTES = 300
"""Notes on one episode; pages show all of them."""


class BadNote(OrsError):
    """A note cannot be saved or deleted; the message says why and what to do."""


def notes_of(episode: Episode, author: str | None = None) -> QuerySet[Note]:
    """Return the notes on an episode: those on the whole episode first, then by step, oldest first.

    `author`: only their notes.
    """
    rows = Note.objects.filter(episode=episode)
    if author is not None:
        rows = rows.filter(author=author)
    return rows.order_by(F("step").asc(nulls_first=True), "id")


def add_note(episode: Episode, author: str, text: str, step: str = "") -> Note:
    """Save a note. `step` is an index as a form sends it, or empty for the whole episode. Raises:
    BadNote."""
    text = text.replace("\0", "").replace("\r\n", "\n").strip()
    if not text:
        raise BadNote("The note is empty. Write a few words.")
    if len(text) > MAX_CHARACTERS:
        raise BadNote(
            f"The note has {len(text):,} characters; at most {MAX_CHARACTERS:,} are "
            "allowed. Shorten it."
        )
    index = _index(episode, step.strip())
    if Note.objects.filter(episode=episode).count() >= MAX_NOTES:
        raise BadNote(
            f"Episode {episode.pk} already has {MAX_NOTES} notes, the maximum. Delete "
            "one of yours first."
        )
    return Note.objects.create(episode=episode, step=index, author=author, text=text)


def remove_note(episode: Episode, author: str, number: str) -> None:
    """Delete the note with id `number` if `author` wrote it. Raises: BadNote."""
    own = Note.objects.filter(episode=episode, author=author)
    if not own.filter(pk=id_in(number) or 0).delete()[0]:
        raise BadNote("This note can't be deleted: it is already gone, or another person wrote it.")


def _index(episode: Episode, step: str) -> int | None:
    if not step:
        return None
    index = index_in(step)
    if index is None or not episode.steps.filter(index=index).exists():
        raise BadNote(
            f"Episode {episode.pk} has no step {shorten(step, 40)!r}. Leave it empty for "
            "the whole episode."
        )
    return index
