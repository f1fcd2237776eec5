"""Imports files of episodes into the database. Used by `manage.py import_episodes`, which holds the
database's lock.

A file holds the lines that `export_episodes --format jsonl` writes, or trajectories in ATIF
(`formats/atif/`).

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
from itertools import count
from pathlib import Path

from django.db import DataError, IntegrityError, connection, transaction
from django.db.models import Max

from environments.database.background_jobs import Progress
from environments.database.bulk_writer import BulkWriter
from environments.files.json_lines import text_of
from environments.files.rows import BadRow, Refusal, Unreadable, many
from environments.models import Environment
from episodes.models import Episode
from episodes.rollups.follower import catch_up
from episodes.rollups.recount import rebuild
from episodes.transfer.episode_line import MAX_ID, EpisodeLine, episode_of
from episodes.transfer.formats.atif.import_files import EpisodeSource, FileItem, source_of
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
        note = f" ({', '.join(changes)})" if changes else ""
        return (
            f"{many(self.imported, 'episode')} with {many(self.steps, 'step')} "
            f"imported{note}, "
            f"{self.skipped:,} skipped as already there, {many(self.refused, 'line')} refused"
        )

    def add(self, episodes: Sequence[NewEpisode]) -> None:
        self.imported += len(episodes)
        for new in episodes:
            line = new.line
            self.steps += len(line.steps)
            self.new_ends += line.end_number not in (None, new.end_number)
            if new.id != line.id and not new.episode.is_foreign:
                self.renumbered += 1
                if len(self.new_ids) < MAX_LISTED:
                    self.new_ids[line.id] = new.id

    def refuse(self, file: str, number: int, reason: str) -> None:
        self.refused += 1
        if self.refused <= MAX_LISTED:
            self.refusals.append((file, Refusal(number, reason)))


@dataclass(frozen=True, slots=True)
class _FileEpisode:
    """A parsed line and its place."""

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
        self._sources = [source_of(path) for path in paths]
        self._progress = progress or (lambda done, total: None)
        self._names = names or TrialFacts()
        highest = [_max_id(source) for source in self._sources]
        here: int = Episode.objects.aggregate(last=Max("pk"))["last"] or 0
        self._free_ids = count(max([here, *highest]) + 1)
        self._total = sum(source.size_bytes for source in self._sources)
        self._keeps_ends = can_keep_end_numbers()
        self._references, self._parents = References(), Parents()
        self._environments: set[int] = set()

    def run(self) -> EpisodeImportReport:
        """Import everything. Raises: django.db.Error when the database fails; committed batches
        stay."""
        batch, steps, size_bytes = list[_FileEpisode](), 0, 0
        for episode in self._episodes():
            batch.append(episode)
            steps += len(episode.line.steps)
            size_bytes += episode.size_bytes
            if (
                len(batch) >= BATCH_EPISODES
                or steps >= BATCH_STEPS
                or size_bytes >= MAX_BATCH_BYTES
            ):
                self._write(batch)
                batch, steps, size_bytes = [], 0, 0
        self._write(batch)
        self._parents.join()
        for environment in Environment.objects.filter(pk__in=self._environments):
            rebuild(environment)
        catch_up()
        return self.report

    def _episodes(self) -> Iterator[_FileEpisode]:
        before = 0
        for source in self._sources:
            for item in source.items():
                self._progress(before + item.read_bytes, self._total)
                try:
                    yield self._parsed(item)
                except BadRow as error:
                    self.report.refuse(item.file, item.number, str(error))
            before += source.size_bytes

    def _parsed(self, item: FileItem) -> _FileEpisode:
        """Return the episode of an item. Raises: BadRow."""
        if isinstance(item.content, str):
            raise BadRow(item.content)
        text = text_of(item.content)
        episode = trajectory_episode(text, item.folder, self._names)
        if episode is None:
            line = episode_of(text)
            rollouts = [ImportedRollout(part, part.messages) for part in line.rollouts]
            episode = ImportedEpisode(line, rollouts)
        return _FileEpisode(item.file, item.number, episode, len(item.content))

    def _write(self, batch: Sequence[_FileEpisode]) -> None:
        """Write a batch. If the database rejects it, write its episodes one by one and refuse the
        bad ones."""
        try:
            self._commit(batch)
        except (DataError, IntegrityError, OverflowError, ValueError) as error:
            if len(batch) > 1:
                for episode in batch:
                    self._write([episode])
            else:
                reason = f"cannot be stored: {type(error).__name__}"
                self.report.refuse(batch[0].file, batch[0].number, reason)

    def _commit(self, batch: Sequence[_FileEpisode]) -> None:
        """Write a batch in one transaction. Raises: any error, after which nothing of `batch` is
        written."""
        try:
            with transaction.atomic():
                new = self._new(batch)
                if new:
                    writer = ImportBatch(self._references, BulkWriter(connection))
                    self._environments |= writer.write(new)
        except BaseException:
            self._references.forget()
            raise
        self._parents.expect(episode.line for episode in batch)
        self.report.add(new)
        self.report.skipped += len(batch) - len(new)

    def _new(self, batch: Sequence[_FileEpisode]) -> list[NewEpisode]:
        """Return the episodes of a batch that do not exist yet, with ids and ending numbers."""
        lines = [episode.line for episode in batch]
        sessions = Episode.objects.filter(session_id__in={line.session_id for line in lines})
        keys: set[Key | str] = set(sessions.values_list("session_id", "created"))
        keys |= set(sessions.values_list("session_id", flat=True))
        rows = Episode.objects.filter(pk__in=[line.id for line in lines])
        numbers = set(rows.values_list("pk", flat=True))
        ids, new = list[int](), list[ImportedEpisode]()
        for episode in (row.episode for row in batch):
            line = episode.line
            key = line.session_id, line.created
            if (line.session_id if episode.is_foreign else key) in keys:
                continue
            is_free = not episode.is_foreign and line.id not in numbers
            number = line.id if is_free else next(self._free_ids)
            keys |= {key, line.session_id}
            numbers.add(number)
            ids.append(number)
            new.append(episode)
        ends = end_numbers([episode.line for episode in new], are_kept=self._keeps_ends)
        return [NewEpisode(*values) for values in zip(ids, ends, new, strict=True)]


def _max_id(source: EpisodeSource) -> int:
    """Return the highest id of an episode in a source. Raises: Unreadable."""
    highest = 0
    try:
        for item in source.items():
            if isinstance(item.content, bytes) and (match := _ID.search(item.content)):
                highest = max(highest, int(match[1]))
    except (OSError, zipfile.BadZipFile) as error:
        raise Unreadable(
            f"The file cannot be read: {getattr(error, 'strerror', None) or error}."
        ) from error
    return min(highest, MAX_ID)
