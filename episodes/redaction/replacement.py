"""Redacts a text: replaces it by stars in everything that is recorded, while agents play.

A search finds the places, then they are changed in batches, and both are repeated until nothing is
found, because agents may record the text once more in the meantime. A blob gets the key of its new
content. Its old key stays, with the new content, because the recorder may refer to it once more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, connection, models, transaction
from django.utils import timezone

from environments import security_log
from environments.database.background_jobs import Progress, silent
from environments.database.bulk_writer import BulkWriter
from environments.database.storable import digest_of
from environments.database.write_pauses import give_way
from environments.errors import OrsError
from environments.models import Task
from environments.models.folding import fold_json
from environments.models.task_hash import hash_of_spec, is_sent_task
from environments.runtime.secrets_mask import MAX_SECRET_CHARACTERS, Mask
from environments.tasks.task_places import batched
from episodes.models import (
    Blob,
    Episode,
    RedactedEpisode,
    Redaction,
    Rollout,
    RolloutText,
    TranscriptText,
)
from episodes.recording.blob_rows import BLOB_COLUMNS, BlobRows, stored
from episodes.redaction.recorded_texts import Model, TextPlaces, find, masked, text_fields
from episodes.search import index
from episodes.search import rollouts as rollout_index

MIN_CHARACTERS = 4
MAX_ROUNDS = 3
BATCH_ROWS = 100
BATCH_EPISODES = 10
BATCH_BLOBS = 20


class RedactionRefused(OrsError):
    """A text that cannot be redacted."""


@dataclass(frozen=True)
class RedactionResult:
    """What a redaction, or a dry run of it, has found."""

    places: TextPlaces
    is_dry: bool
    is_complete: bool = True
    """Whether a last search found nothing more."""

    @property
    def sentence(self) -> str:
        sentence = "The text was not found in anything that can be redacted."
        if self.places.count:
            verb = "Found" if self.is_dry else "Replaced"
            sentence = f"{verb} in {self.places.sentence}."
        if self.places.served_tasks:
            tasks = ", ".join(f"#{pk}" for pk in self.places.served_tasks[:10])
            more = ", …" if len(self.places.served_tasks) > 10 else ""
            sentence += (
                f" Tasks that splits serve contain it too and stay as they are: {tasks}{more}. "
                "Edit them, then redact."
            )
        if not self.is_complete:
            sentence += (
                " It is still being recorded; redact it again when those who send it have stopped."
            )
        return sentence


def redact(
    text: str, author: str, reason: str = "", *, dry_run: bool = False, progress: Progress = silent
) -> RedactionResult:
    """Replace `text` in all its forms everywhere, and note that under `author`. Raises:
    RedactionRefused."""
    check_text(text)
    mask = Mask([text], MIN_CHARACTERS)
    places = find(mask, progress)
    if not dry_run:
        _finish_what_was_stopped()
    if dry_run or not places.count:
        return RedactionResult(places, dry_run)
    redaction = Redaction.objects.create(author=author, reason=reason[:300], rows=places.count)
    security_log.note(
        "redacted",
        f"redaction {redaction.pk}",
        who=author,
        detail=f"{places.sentence}. {reason}".strip(),
    )
    remaining = places
    with secure_delete():
        for _ in range(MAX_ROUNDS):
            _replace(mask, remaining, redaction)
            remaining = find(mask, silent)
            if not remaining.count:
                break
        # again the episodes that the follower had read before they were changed
        phrase = " ".join(text.split('"'))
        _index(sorted(places.episodes.intersection(index.matching(f'"{phrase}"', None))))
        _tidy()
    is_complete = not remaining.count
    if is_complete:
        Redaction.objects.filter(pk=redaction.pk).update(finished=timezone.now())
    return RedactionResult(places, is_dry=False, is_complete=is_complete)


def check_text(text: str) -> None:
    """Raises: RedactionRefused, with a message that does not contain the text."""
    if not MIN_CHARACTERS <= len(text) <= MAX_SECRET_CHARACTERS:
        limits = f"{MIN_CHARACTERS} to {MAX_SECRET_CHARACTERS:,}"
        raise RedactionRefused(f"The text has {len(text):,} characters; {limits} can be redacted.")
    if not text.strip():
        raise RedactionRefused(
            "The text consists of blanks only, which are in nearly everything that is recorded."
        )
    if not text.strip("*"):
        raise RedactionRefused(
            "The text consists of asterisks only, which is how redacted texts look."
        )


def _replace(mask: Mask, places: TextPlaces, redaction: Redaction) -> None:
    rows = [RedactedEpisode(redaction=redaction, episode_id=pk) for pk in places.episodes]
    RedactedEpisode.objects.bulk_create(rows, batch_size=1000, ignore_conflicts=True)
    for episodes in batched(sorted(places.episodes), BATCH_EPISODES):
        index.erase(episodes)
        give_way()
    for rollouts in batched(sorted(places.rollouts), BATCH_EPISODES):
        rollout_index.erase(rollouts)
        give_way()
    new_keys: dict[str, str] = {}
    for digests in batched(places.blobs, BATCH_BLOBS):
        copies = BlobRows()
        for blob in Blob.objects.filter(pk__in=digests):
            new_keys[blob.pk] = copies.add(masked(mask, blob.text) or blob.text)
        with transaction.atomic():
            BulkWriter(connection).insert(Blob, BLOB_COLUMNS, copies.in_order())
        give_way()
    for model, pks in places.rows.items():
        for batch in batched(pks, BATCH_ROWS):
            _replace_in_rows(mask, model, batch, new_keys)
            give_way()
    for digests in batched(places.blobs, BATCH_BLOBS):
        with transaction.atomic():
            for blob in Blob.objects.filter(pk__in=digests):
                content = (masked(mask, blob.text) or blob.text).encode()
                is_compressed, data = stored(content)
                Blob.objects.filter(pk=blob.pk).update(
                    is_compressed=is_compressed, size_bytes=len(content), data=data
                )
        give_way()
    # the follower summarises the rollouts once more, which fills their text search
    Rollout.objects.filter(pk__in=places.rollouts).update(is_summarised=False)
    _index(sorted(places.episodes))


def _replace_in_rows(
    mask: Mask, model: Model, pks: Sequence[Any], new_keys: dict[str, str]
) -> None:
    fields = text_fields()[model]
    rows = model._default_manager.filter(pk__in=pks)
    with transaction.atomic():
        for pk, *values in rows.values_list("pk", *(field.attname for field in fields)):
            changes = {}
            for field, value in zip(fields, values, strict=True):
                if field.related_model is Blob:
                    new = new_keys.get(value or "")
                elif (new := masked(mask, value)) is not None:
                    new = new[: field.max_length]
                if new is not None:
                    changes[field.attname] = (value, new)
            if changes:
                _update(model, pk, changes)


def _update(model: Model, pk: Any, changes: dict[str, tuple[Any, Any]]) -> None:
    """Change the row unless somebody else has changed it since; then the next round sees to it."""
    row = model._default_manager.filter(pk=pk, **{name: old for name, (old, _) in changes.items()})
    values = {name: new for name, (_, new) in changes.items()}
    if model is Task and "spec" in values:
        is_sent = any(map(is_sent_task, Task.objects.filter(pk=pk)))
        values["content_hash"] = hash_of_spec(values["spec"], is_sent=is_sent)
        values["folded"] = fold_json(values["spec"])
    try:
        with transaction.atomic():
            row.update(**values)
    except IntegrityError:  # another row has become the same, which a name or a hash must not
        row.update(**{name: _unique(model, name, value, pk) for name, value in values.items()})


def _unique(model: Model, name: str, value: Any, pk: Any) -> Any:
    if name == "content_hash":
        return digest_of(f"{value}{pk}".encode()) * 2
    field = model._meta.get_field(name)
    if not isinstance(field, models.CharField):
        return value
    end = f"~{pk}"
    return value[: (field.max_length or 0) - len(end)] + end


def _index(episodes: Sequence[int]) -> None:
    """Fill the text search for the ended ones of these episodes, in batches."""
    for batch in batched(episodes, BATCH_EPISODES):
        rows = Episode.objects.ended().filter(pk__in=batch)
        index.index(list(rows.values_list("pk", flat=True)))
        give_way()


def _finish_what_was_stopped() -> None:
    """Do what redactions that were stopped have left: fill the text search for what they erased,
    and tidy."""
    if not Redaction.objects.filter(finished=None).exists():
        return
    with_text = RolloutText.objects.values("rollout_id")
    Rollout.objects.filter(is_summarised=True).exclude(pk__in=with_text).update(is_summarised=False)
    # a stop between erasing the words of an episode and indexing it again
    episodes = RedactedEpisode.objects.filter(redaction__finished=None).values("episode")
    with_words = TranscriptText.objects.values("episode_id")
    missing = Episode.objects.ended().filter(pk__in=episodes).exclude(pk__in=with_words)
    _index(list(missing.order_by("pk").values_list("pk", flat=True)))
    with secure_delete():
        _tidy()


@contextmanager
def secure_delete() -> Iterator[None]:
    """Make SQLite write zeros over what is deleted on this connection."""
    if connection.vendor != "sqlite":
        yield
        return
    # each in a cursor of its own: an open one would keep the log from being emptied
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA secure_delete = ON")
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA secure_delete = OFF")


def _tidy() -> None:
    """On SQLite, remove erased words from the index itself, and empty the write-ahead log if nobody
    reads it."""
    if connection.vendor != "sqlite" or connection.in_atomic_block:
        return
    index.merge()
    rollout_index.merge()
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        cursor.fetchall()
