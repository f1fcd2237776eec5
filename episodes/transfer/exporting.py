"""Exporting: episodes into a file. Driven by `manage.py export_episodes`, the export page and the API. Blocking.

    for piece in exported(episodes_of(EpisodeFilter.parse(query)), "jsonl"):
        file.write(piece)

Episodes come in the order of their ids, pairs in the order of their tasks. Memory holds some megabytes, however many
there are and however long they take; no transaction stays open between pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, Protocol, get_args

from django.db.models import QuerySet

from environments.transfer.streaming import Pieces
from episodes.models import Episode
from episodes.transfer.episode_lines import EpisodeLines
from episodes.transfer.export_source import Recorded, facts_of, ids_of, recorded
from episodes.transfer.tables import EpisodeTable
from episodes.transfer.training import Chat, pairs

Format = Literal["jsonl", "csv", "parquet", "messages", "pairs"]
FORMATS: tuple[Format, ...] = get_args(Format)
MEDIA_TYPES: dict[Format, str] = {
    "jsonl": "application/jsonl",
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
    "messages": "application/jsonl",
    "pairs": "application/jsonl",
}
ENDINGS: dict[Format, str] = {
    "jsonl": "jsonl",
    "csv": "csv",
    "parquet": "parquet",
    "messages": "messages.jsonl",
    "pairs": "pairs.jsonl",
}
"""Of a file's name."""
PIECE_BYTES = 128 * 1024
"""Pieces are this large at least, but for the last."""


RUNNING_HEADER = "X-Running-Episodes"
"""Of answers that are files: how many of the episodes in it had not ended."""
_WHY_NOTHING: dict[Format, str] = {
    "pairs": "A pair needs two attempts at one task that called a tool and have different returns; there are none.",
    "messages": "None of these episodes has called a tool, so there is no conversation.",
}


class EpisodeFileWriter(Protocol):
    """Makes one file; what it gives is the next of it."""

    needs_steps: bool
    """False: `write` gets episodes without texts and steps."""

    def start(self) -> str | bytes: ...

    def write(self, episode: Recorded) -> Iterator[str] | Iterator[bytes]: ...

    def end(self) -> str | bytes: ...


def exported(
    episodes: QuerySet[Episode],
    format: Format,
    *,
    definition: str | None = None,
    margin: float = 0.0,
    progress: Callable[[int], None] | None = None,
    has_additions: bool = True,
) -> Pieces:
    """The file, in pieces.

    `definition`: of the reward in messages and pairs (sum, last, max, mean); None: each environment's own. `margin`: of
    pairs. `progress` hears how many episodes have been taken; of pairs nothing, for only some of them are.
    `has_additions`: whether jsonl tells what people added, notes among it.
    """
    if format == "pairs":
        return _joined(pairs(episodes, definition, margin))
    return _joined(_written(episodes, _writer(format, definition, has_additions=has_additions), progress))


def running_among(episodes: QuerySet[Episode], format: Format) -> int:
    """How many of `episodes` are still running, and so stand in a file of `format` only as far as they have come.

    Two queries, of few rows however many episodes there are.
    """
    if format == "pairs":  # holds attempts that have ended
        return 0
    running = list(Episode.objects.filter(status="running").values_list("pk", flat=True))
    return episodes.filter(pk__in=running).count() if running else 0


def why_nothing(format: Format, *, is_any: bool) -> str:
    """A sentence in place of a file without contents, which nobody could tell from a failed one.

    `is_any`: there are episodes, but nothing of them stands in such a file.
    """
    said = _WHY_NOTHING.get(format, "") if is_any else ""
    return said or "No episode matches, so there is nothing to export; loosen the filter."


def _writer(format: Format, definition: str | None, *, has_additions: bool) -> EpisodeFileWriter:
    if format == "jsonl":
        return EpisodeLines(has_additions=has_additions)
    if format == "csv":
        return EpisodeTable()
    if format == "messages":
        return Chat(definition)
    from episodes.transfer.tables import StepTable  # pyarrow takes a third of a second

    return StepTable()


def _written(
    episodes: QuerySet[Episode], writer: EpisodeFileWriter, progress: Callable[[int], None] | None
) -> Iterator[str | bytes]:
    yield writer.start()
    done = 0
    for ids in ids_of(episodes):
        for episode in _read(ids, has_steps=writer.needs_steps):
            yield from writer.write(episode)
            done += 1
            if progress:
                progress(done)
    yield writer.end()


def _read(ids: Sequence[int], *, has_steps: bool) -> Iterator[Recorded]:
    if has_steps:
        return recorded(ids)
    return (Recorded(facts, "", "", iter(())) for facts in facts_of(ids))


def _joined(pieces: Iterator[str] | Iterator[str | bytes]) -> Pieces:
    waiting, size = list[bytes](), 0
    for piece in pieces:
        data = piece.encode() if isinstance(piece, str) else piece
        waiting.append(data)
        size += len(data)
        if size >= PIECE_BYTES:
            yield b"".join(waiting)
            waiting, size = [], 0
    if size:
        yield b"".join(waiting)
