"""Redacts a text: replaces it by stars in everything that is recorded, while agents play.

A search finds the places, then they are changed in batches, and both are repeated until nothing is
found, because agents may record the text once more in the meantime. A blob gets the key of its new
content. Its old key stays, with the new content, because the recorder may refer to it once more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from django.db import IntegrityError, connection, models, transaction
from django.utils import timezone

from environments import security_log
from environments.database.bulk_writer import BulkWriter
from environments.database.jobs import Progress, silent
from environments.database.storable import digest_of
from environments.database.write_pauses import give_way
from environments.errors import OrsError
from environments.models import Task
from environments.models.folding import fold_json
from environments.runtime.secrets_mask import MAX_SECRET_CHARACTERS, Mask
from environments.tasks.task_hash import hash_of_spec, is_sent_task
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
from episodes.redaction.text_search import Found, Model, find, masked, text_fields
from episodes.search import index
from episodes.search import rollouts as rollout_index

MIN_CHARACTERS = 4
MAX_ROUNDS = 3
BATCH_ROWS = 100
BATCH_EPISODES = 10

T = TypeVar("T")


class RedactionRefused(OrsError):
    """A text that cannot be redacted."""


@dataclass(frozen=True)
class Redacted:
    """What a redaction, or a dry run of it, has found."""

    found: Found
    is_dry: bool
    is_complete: bool = True
    """Whether a last search found nothing more."""

    @property
    def sentence(self) -> str:
        said = f"{'Found in' if self.is_dry else 'Replaced in'} {self.found.sentence}."
        said = (
            said if self.found.count else "The text was not found in anything that can be redacted."
        )
        if self.found.served_tasks:
            tasks = ", ".join(f"#{pk}" for pk in self.found.served_tasks[:10])
            more = ", …" if len(self.found.served_tasks) > 10 else ""
            said += (
                f" Tasks that splits serve contain it too and stay as they are: {tasks}{more}. "
                "Edit them, then redact."
            )
        if not self.is_complete:
            said += (
                " It is still being recorded; redact it again when those who send it have stopped."
            )
        return said


def redact(
    text: str, author: str, reason: str = "", *, dry_run: bool = False, progress: Progress = silent
) -> Redacted:
    """Replace `text` in all its forms everywhere, and note that under `author`. Raises:
    RedactionRefused."""
    check_text(text)
    mask = Mask([text], MIN_CHARACTERS)
    found = find(mask, progress)
    if not dry_run:
        _finish_what_was_stopped()
    if dry_run or not found.count:
        return Redacted(found, dry_run)
    noted = Redaction.objects.create(author=author, reason=reason[:300], rows=found.count)
    security_log.note(
        "redacted",
        f"redaction {noted.pk}",
        who=author,
        detail=f"{found.sentence}. {reason}".strip(),
    )
    rounds, left = 1, found
    with _erasing():
        while left.count and rounds <= MAX_ROUNDS:
            _replace(mask, left, noted)
            left, rounds = find(mask, silent), rounds + 1
        _index_what_came_late(text, found)
        _tidy()
    if not left.count:
        Redaction.objects.filter(pk=noted.pk).update(finished=timezone.now())
    return Redacted(found, is_dry=False, is_complete=not left.count)


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


def _replace(mask: Mask, found: Found, noted: Redaction) -> None:
    for episodes in _chunks(sorted(found.episodes), 1000):
        rows = [RedactedEpisode(redaction=noted, episode_id=pk) for pk in episodes]
        RedactedEpisode.objects.bulk_create(rows, ignore_conflicts=True)
    _forget_words(found)
    renamed: dict[str, str] = {}
    for digests in _chunks(found.blobs, 20):
        renamed.update(_copy_blobs(mask, digests))
    for model, pks in found.rows.items():
        for some in _chunks(pks, BATCH_ROWS):
            _replace_in_rows(mask, model, some, renamed)
            give_way()
    for digests in _chunks(found.blobs, 20):
        _overwrite_blobs(mask, digests)
    _index_again(found)


def _copy_blobs(mask: Mask, digests: Sequence[str]) -> dict[str, str]:
    """Store the redacted contents of blobs, and return their keys by the old ones."""
    renamed, rows = dict[str, str](), BlobRows()
    for blob in Blob.objects.filter(pk__in=digests):
        renamed[blob.pk] = rows.add(masked(mask, blob.text) or blob.text)
    with transaction.atomic():
        BulkWriter(connection).insert(Blob, BLOB_COLUMNS, rows.in_order())
    give_way()
    return renamed


def _overwrite_blobs(mask: Mask, digests: Sequence[str]) -> None:
    with transaction.atomic():
        for blob in Blob.objects.filter(pk__in=digests):
            content = (masked(mask, blob.text) or blob.text).encode()
            is_compressed, data = stored(content)
            Blob.objects.filter(pk=blob.pk).update(
                is_compressed=is_compressed, size_bytes=len(content), data=data
            )
    give_way()


def _replace_in_rows(mask: Mask, model: Model, pks: Sequence[Any], renamed: dict[str, str]) -> None:
    fields = text_fields()[model]
    with transaction.atomic():
        for pk, *values in model._default_manager.filter(pk__in=pks).values_list(
            "pk", *(field.attname for field in fields)
        ):
            changed = {
                one.attname: (value, new)
                for one, value in zip(fields, values, strict=True)
                if (new := _replaced(mask, one, value, renamed)) is not None
            }
            _update(model, pk, changed)


def _replaced(mask: Mask, one: Any, value: str | None, renamed: dict[str, str]) -> str | None:
    """Return the new value of a field; None if it stays."""
    if one.related_model is Blob:
        return renamed.get(value or "")
    new = masked(mask, value)
    return new if new is None else new[: one.max_length]


def _update(model: Model, pk: Any, changed: dict[str, tuple[Any, Any]]) -> None:
    """Change the row unless somebody else has changed it since; then the next round sees to it."""
    if not changed:
        return
    row = model._default_manager.filter(pk=pk, **{name: old for name, (old, _) in changed.items()})
    values = {name: new for name, (_, new) in changed.items()}
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
    one = model._meta.get_field(name)
    if not isinstance(one, models.CharField):
        return value
    end = f"~{pk}"
    return value[: (one.max_length or 0) - len(end)] + end


def _forget_words(found: Found) -> None:
    for episodes in _chunks(sorted(found.episodes), BATCH_EPISODES):
        index.erase(episodes)
        give_way()
    for rollouts in _chunks(sorted(found.rollouts), BATCH_EPISODES):
        rollout_index.erase(rollouts)
        give_way()


def _index_again(found: Found) -> None:
    """Fill the text search again. The follower summarises the rollouts once more, which fills
    theirs."""
    Rollout.objects.filter(pk__in=found.rollouts).update(is_summarised=False)
    for episodes in _chunks(sorted(found.episodes), BATCH_EPISODES):
        index.index(
            list(Episode.objects.ended().filter(pk__in=episodes).values_list("pk", flat=True))
        )
        give_way()


def _index_what_came_late(text: str, found: Found) -> None:
    """Fill the text search again for episodes that the follower had read before they were
    changed."""
    quoted = " ".join(text.split('"'))
    late = sorted(found.episodes.intersection(index.matching(f'"{quoted}"', None)))
    for some in _chunks(late, BATCH_EPISODES):
        index.index(some)
        give_way()


def _finish_what_was_stopped() -> None:
    """Do what redactions that were stopped have left: fill the text search for what they erased,
    and tidy."""
    if not Redaction.objects.filter(finished=None).exists():
        return
    indexed = RolloutText.objects.values("rollout_id")
    Rollout.objects.filter(is_summarised=True).exclude(pk__in=indexed).update(is_summarised=False)
    _index_what_was_stopped()
    with _erasing():
        _tidy()


def _index_what_was_stopped() -> None:
    """Fill the text search for episodes of redactions that ended between erasing their words and
    indexing them."""
    episodes = RedactedEpisode.objects.filter(redaction__finished=None).values("episode")
    indexed = TranscriptText.objects.values("episode_id")
    missing = Episode.objects.ended().filter(pk__in=episodes).exclude(pk__in=indexed).order_by("pk")
    for some in _chunks(list(missing.values_list("pk", flat=True)), BATCH_EPISODES):
        index.index(some)
        give_way()


class _erasing:
    """Makes SQLite write zeros over what is deleted on this connection."""

    def __enter__(self) -> None:
        self._set("ON")

    def __exit__(self, *error: object) -> None:
        self._set("OFF")

    def _set(self, value: str) -> None:
        if connection.vendor == "sqlite":
            with connection.cursor() as cursor:
                cursor.execute(f"PRAGMA secure_delete = {value}")


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


def _chunks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
