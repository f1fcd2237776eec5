"""Imports files of episodes into the database. Used by `manage.py import_episodes`, which holds the
database's lock.

A file holds the lines that `export_episodes --format jsonl` writes, or trajectories in ATIF
(`atif/`).

An episode that already exists (with the same session and start, or, if another program wrote it,
the same session) is skipped, so an interrupted import can be repeated.
An episode whose id is taken gets a new one, above all ids of the database and of the files. Each
batch is one short transaction. `import_batch.py` decides which endings keep their number. The
statistics of tasks are marked as outdated with the first batch and counted at the end; then the
follower catches up with the new endings.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from django.db import DataError, IntegrityError, connection, transaction
from django.db.models import Max

from environments.database.bulk_writer import BulkWriter
from environments.database.jobs import Progress
from environments.files.rows import BadRow, Refusal, Unreadable, many
from environments.models import Environment
from episodes.models import Episode
from episodes.rollups.follower import catch_up
from episodes.rollups.recount import rebuild
from episodes.transfer.episode_line import MAX_ID, EpisodeLine, episode_of
from episodes.transfer.formats.atif.import_files import EpisodeSource, FoundItem, source_of
from episodes.transfer.formats.atif.imported import ImportedEpisode, ImportedRollout, TrialFacts
from episodes.transfer.formats.atif.reading import trajectory_episode
from episodes.transfer.import_batch import (
    ImportBatch,
    Key,
    NewEpisode,
    Parents,
    References,
    can_keep_end_numbers,
    end_numbers,
)

BATCH_EPISODES = 200
BATCH_STEPS = 2000
MAX_BATCH_BYTES = 8 * 1024 * 1024
MAX_LISTED = 1000
"""Refusals and new ids that the report lists; more are only counted."""
_ID = re.compile(rb'"orsweb":\s*"episode/1",\s*"id":\s*(\d{1,19})\b')


@dataclass(slots=True)
class EpisodeImportReport:
    """What happened to the lines of the files."""

    imported: int = 0
    steps: int = 0
    skipped: int = 0
    """Number of episodes that already existed."""
    renumbered: int = 0
    """Imported episodes whose id was taken by another episode."""
    new_ids: dict[int, int] = field(default_factory=dict)
    """Id in the file -> id here of the first MAX_LISTED renumbered episodes."""
    new_ends: int = 0
    """Imported episodes whose ending has a different number here than in the file."""
    refused: int = 0
    refusals: list[tuple[str, Refusal]] = field(default_factory=list)
    """File and line of the first MAX_LISTED refused lines."""

    @property
    def sentence(self) -> str:
        """The report as a sentence without its full stop."""
        changes = [f"{self.renumbered:,} under a new id"] if self.renumbered else []
        changes += [f"{self.new_ends:,} with a new ending number"] if self.new_ends else []
        renumbered = f" ({', '.join(changes)})" if changes else ""
        return (
            f"{many(self.imported, 'episode')} with {many(self.steps, 'step')} "
            f"imported{renumbered}, "
            f"{self.skipped:,} skipped as already there, {many(self.refused, 'line')} refused"
        )

    def take(self, episodes: Sequence[NewEpisode], skipped: int) -> None:
        self.imported += len(episodes)
        self.skipped += skipped
        self.steps += sum(len(one.line.steps) for one in episodes)
        self.new_ends += sum(one.line.end_number not in (None, one.end_number) for one in episodes)
        moved = {
            one.line.id: one.id for one in episodes if one.id != one.line.id and not one.is_foreign
        }
        self.renumbered += len(moved)
        if len(self.new_ids) < MAX_LISTED:
            self.new_ids.update(moved)

    def refuse(self, file: str, number: int, reason: str) -> None:
        self.refused += 1
        if self.refused <= MAX_LISTED:
            self.refusals.append((file, Refusal(number, reason)))


@dataclass(frozen=True, slots=True)
class _Numbered:
    """A parsed line and where it was found."""

    file: str
    number: int
    """Number of the line, from 1."""
    episode: ImportedEpisode
    size_bytes: int

    @property
    def line(self) -> EpisodeLine:
        return self.episode.line


class Import:
    """One import of some files. `report` says how far it got, even after a failure."""

    def __init__(
        self,
        paths: Sequence[Path],
        progress: Progress | None = None,
        names: TrialFacts | None = None,
    ) -> None:
        """Prepare the import.

        names: environment and run for trajectories that other programs wrote; empty ones are taken
        from the files.

        Raises: Unreadable, before anything is written.
        """
        self.report = EpisodeImportReport()
        self._sources, self._progress = (
            [source_of(path) for path in paths],
            progress or (lambda done, total: None),
        )
        self._given = names or TrialFacts()
        highest = [_max_id(source) for source in self._sources]
        here: int = Episode.objects.aggregate(last=Max("pk"))["last"] or 0
        self._free = max([here, *highest]) + 1
        self._total = sum(source.size_bytes for source in self._sources)
        self._keeps_ends, self._references, self._parents = (
            can_keep_end_numbers(),
            References(),
            Parents(),
        )
        self._environments: set[int] = set()

    def run(self) -> EpisodeImportReport:
        """Import everything. Raises: django.db.Error when the database fails; committed batches
        stay."""
        for batch in self._batches():
            self._write(batch)
        self._parents.join()
        for environment in Environment.objects.filter(pk__in=self._environments):
            rebuild(environment)
        catch_up()
        return self.report

    def _batches(self) -> Iterator[list[_Numbered]]:
        batch, steps, size_bytes = list[_Numbered](), 0, 0
        for one in self._episodes():
            batch.append(one)
            steps += len(one.line.steps)
            size_bytes += one.size_bytes
            if (
                len(batch) >= BATCH_EPISODES
                or steps >= BATCH_STEPS
                or size_bytes >= MAX_BATCH_BYTES
            ):
                yield batch
                batch, steps, size_bytes = [], 0, 0
        if batch:
            yield batch

    def _episodes(self) -> Iterator[_Numbered]:
        before = 0
        for source in self._sources:
            for item in source:
                self._progress(before + item.done, self._total)
                yield from self._episode(item)
            before += source.size_bytes

    def _episode(self, item: FoundItem) -> Iterator[_Numbered]:
        """Yield the episode of an item, or nothing if it is refused."""
        try:
            if isinstance(item.content, str):
                raise BadRow(item.content)
            text = _decoded(item.content)
            found = trajectory_episode(text, item.folder, lambda: self._named(item.trial()))
            episode = _line_episode(text) if found is None else found
            yield _Numbered(item.file, item.number, episode, len(item.content))
        except BadRow as error:
            self.report.refuse(item.file, item.number, str(error))

    def _named(self, found: TrialFacts) -> TrialFacts:
        given = self._given
        return found._replace(
            environment=given.environment or found.environment, run=given.run or found.run
        )

    def _write(self, batch: Sequence[_Numbered]) -> None:
        """Write a batch. If the database rejects it, write its episodes one by one and refuse the
        bad ones."""
        try:
            self._commit(batch)
        except (DataError, IntegrityError, OverflowError, ValueError) as error:
            if len(batch) == 1:
                self.report.refuse(
                    batch[0].file, batch[0].number, f"cannot be stored: {type(error).__name__}"
                )
                return
            for one in batch:
                self._write([one])

    def _commit(self, batch: Sequence[_Numbered]) -> None:
        """Write a batch in one transaction. Raises: any error, after which nothing of `batch` is
        written."""
        free = self._free
        try:
            with transaction.atomic():
                new = self._new(batch)
                writer = BulkWriter(connection)
                environments = (
                    ImportBatch(self._references, writer).write(new) if new else set[int]()
                )
        except BaseException:
            self._free = free
            self._references.forget()
            raise
        self._environments |= environments
        self._parents.expect(one.line for one in batch)
        self.report.take(new, skipped=len(batch) - len(new))

    def _new(self, batch: Sequence[_Numbered]) -> list[NewEpisode]:
        """Return the episodes of a batch that do not exist yet, with ids and ending numbers."""
        sessions = Episode.objects.filter(session_id__in={one.line.session_id for one in batch})
        there: set[Key | str] = set(sessions.values_list("session_id", "created"))
        there |= set(sessions.values_list("session_id", flat=True))
        taken = set(
            Episode.objects.filter(pk__in=[one.line.id for one in batch]).values_list(
                "pk", flat=True
            )
        )
        ids, new = list[int](), list[ImportedEpisode]()
        for episode in (one.episode for one in batch):
            line = episode.line
            key = line.session_id, line.created
            if (line.session_id if episode.is_foreign else key) in there:
                continue
            number = self._next_free() if episode.is_foreign or line.id in taken else line.id
            there |= {key, line.session_id}
            taken.add(number)
            ids.append(number)
            new.append(episode)
        ends = end_numbers([episode.line for episode in new], are_kept=self._keeps_ends)
        return [NewEpisode(*one) for one in zip(ids, ends, new, strict=True)]

    def _next_free(self) -> int:
        self._free += 1
        return self._free - 1


def _max_id(source: EpisodeSource) -> int:
    """Return the highest id of an episode in a source. Raises: Unreadable."""
    highest = 0
    try:
        for item in source:
            if isinstance(item.content, bytes) and (found := _ID.search(item.content)):
                highest = max(highest, int(found[1]))
    except (OSError, zipfile.BadZipFile) as error:
        raise Unreadable(
            f"The file cannot be read: {getattr(error, 'strerror', None) or error}."
        ) from error
    return min(highest, MAX_ID)


def _line_episode(text: str) -> ImportedEpisode:
    """Return the episode of a line of `jsonl`. Raises: BadRow."""
    line = episode_of(text)
    return ImportedEpisode(line, [ImportedRollout(part, part.messages) for part in line.rollouts])


def _decoded(line: bytes) -> str:
    try:
        return line.decode().strip()
    except UnicodeDecodeError as error:
        byte = line[error.start]
        raise BadRow(
            f"is not UTF-8: byte 0x{byte:02x} at {error.start + 1}; save the file as UTF-8"
        ) from error
