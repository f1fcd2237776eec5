"""The pieces of a file of episodes. `episode_export.py` says which episodes go into one. Blocking.

    for piece in exported(episodes, "jsonl"):
        file.write(piece)

Episodes are written in the order of their ids, pairs in the order of their tasks. Memory use is
some megabytes, however many episodes there are, and no transaction stays open between pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, Protocol, get_args

from django.db.models import QuerySet

from environments.files.streaming import Pieces
from episodes.attempts.conventions import coverage_among
from episodes.attempts.rule import AttemptQuerySet
from episodes.models import Episode, Rollout
from episodes.transfer.atif.job_archive import JobArchive
from episodes.transfer.atif.lines import TrajectoryLines
from episodes.transfer.csv_lines import EpisodeTable
from episodes.transfer.episode_lines import EpisodeLines
from episodes.transfer.export_source import UNGUARDED, Recorded, facts_of, ids_of, recorded
from episodes.transfer.pairs import pairs
from episodes.transfer.training import Chat, TrainingFile, conversations
from episodes.visibility import TaskGuard

Format = Literal["jsonl", "csv", "parquet", "messages", "pairs", "atif", "harbor"]
FORMATS: tuple[Format, ...] = get_args(Format)
MEDIA_TYPES: dict[Format, str] = {
    "jsonl": "application/jsonl",
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
    "messages": "application/jsonl",
    "pairs": "application/jsonl",
    "atif": "application/jsonl",
    "harbor": "application/zip",
}
ENDINGS: dict[Format, str] = {
    "jsonl": "jsonl",
    "csv": "csv",
    "parquet": "parquet",
    "messages": "messages.jsonl",
    "pairs": "pairs.jsonl",
    "atif": "atif.jsonl",
    "harbor": "harbor.zip",
}
"""The file extension of each format."""
IMPORTABLE = frozenset(("jsonl", "atif", "harbor"))
"""Formats that `import_episodes` reads."""
MIN_PIECE_BYTES = 128 * 1024
"""Minimum size of a piece, except for the last one."""


RUNNING_HEADER = "X-Running-Episodes"
"""Header of a response with a file: how many episodes in the file were still running."""
_WHY_NOTHING: dict[Format, str] = {
    "pairs": (
        "There are no pairs: a pair needs two attempts at one task that called a tool and have "
        "different returns. "
        "Attempts whose tool input isn't a JSON object are only in files with arguments=string."
    ),
    "messages": (
        "There are no conversations: none of these episodes has called a tool. Those whose tool "
        "input isn't a JSON "
        "object are only in files with arguments=string."
    ),
}


class EpisodeFileWriter(Protocol):
    """Writes one file. Each call returns the next piece of it."""

    needs_steps: bool
    """Whether `write` needs the episodes' texts and steps."""

    def start(self) -> str | bytes: ...

    def write(self, episode: Recorded) -> Iterator[str] | Iterator[bytes]: ...

    def end(self) -> str | bytes: ...


def exported(
    episodes: AttemptQuerySet[Episode],
    format: Format,
    *,
    training: TrainingFile | None = None,
    progress: Callable[[int], None] | None = None,
    has_additions: bool = True,
    guard: TaskGuard = UNGUARDED,
) -> Pieces:
    """Yield the file in pieces.

    training: how messages and pairs are written, and where trajectories have prompts from that
    their clients didn't ask for; afterwards it says what was left out of messages and pairs.
    progress: called with the number of episodes written so far; not for pairs, which use only some
    of the episodes. has_additions: whether jsonl, atif and harbor include what people added, such
    as notes.
    guard: what of tasks may be in the file.
    """
    training = training or TrainingFile()
    if format == "pairs":
        return _joined(pairs(episodes, training, guard))
    if format in ("atif", "harbor"):
        training.coverage = coverage_among(episodes, training.options.definition).text
    writer: EpisodeFileWriter
    if format == "jsonl":
        writer = EpisodeLines(has_additions=has_additions)
    elif format == "csv":
        writer = EpisodeTable(episodes)
    elif format == "messages":
        writer = Chat(training)
    elif format == "atif":
        writer = TrajectoryLines(training, has_additions=has_additions)
    elif format == "harbor":
        writer = JobArchive(training, has_additions=has_additions)
    else:
        from episodes.transfer.step_table import StepTable  # pyarrow takes a third of a second

        writer = StepTable()
    return _joined(_written(episodes, writer, guard, progress))


def exported_rollouts(rollouts: QuerySet[Rollout], training: TrainingFile) -> Pieces:
    """Yield a file of messages with a conversation for each uploaded rollout, in pieces."""
    related = rollouts.select_related("run", "event_blob", "episode__tools")
    return _joined(conversations(related, training))


def running_among(episodes: QuerySet[Episode], format: Format) -> int:
    """Return how many of `episodes` are still running, so that a file of `format` holds them
    incompletely.

    Takes two queries, which read few rows however many episodes there are.
    """
    if format == "pairs":  # holds attempts that have ended
        return 0
    running = list(Episode.objects.filter(status="running").values_list("pk", flat=True))
    return episodes.filter(pk__in=running).count() if running else 0


def why_nothing(format: Format, *, is_any: bool) -> str:
    """Return the sentence that replaces an empty file, which would look like a failed export.

    `is_any`: whether there are episodes, of which nothing belongs in such a file.
    """
    reason = _WHY_NOTHING.get(format, "") if is_any else ""
    return reason or "No episodes match the filter, so there is nothing to export."


def _written(
    episodes: QuerySet[Episode],
    writer: EpisodeFileWriter,
    guard: TaskGuard,
    progress: Callable[[int], None] | None,
) -> Iterator[str | bytes]:
    yield writer.start()
    count = 0
    for ids in ids_of(episodes):
        if writer.needs_steps:
            batch = recorded(ids, guard)
        else:
            batch = (Recorded(facts, "", "", iter(())) for facts in facts_of(ids, guard))
        for episode in batch:
            yield from writer.write(episode)
            count += 1
            if progress:
                progress(count)
    yield writer.end()


def _joined(pieces: Iterator[str] | Iterator[str | bytes]) -> Pieces:
    waiting, size = list[bytes](), 0
    for piece in pieces:
        data = piece.encode() if isinstance(piece, str) else piece
        waiting.append(data)
        size += len(data)
        if size >= MIN_PIECE_BYTES:
            yield b"".join(waiting)
            waiting, size = [], 0
    if size:
        yield b"".join(waiting)
