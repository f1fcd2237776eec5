"""Transcript: an episode's steps, a window of them at a time, as parts that a page can show. No request, no HTML.

Increment: an episode's steps after one that is known, for whoever is told of every step as it comes.

Asked after each call that a person makes. Django takes twenty times as long to write such a statement as the database
to answer it, so it is written once, and rows are made of what the driver gives.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC
from functools import cache
from typing import Any

from django.db import connection
from django.db.models import Max, QuerySet

from environments.display.parts import SHOWN_CHARACTERS, Part, blocks, fields, indented, read_json
from episodes.attempts.return_so_far import ReturnSoFar
from episodes.models import Blob, Episode, Step


def steps_after(episode: int, index: int, most: int) -> list[Step]:
    """In order, `most` at most; with their blobs, which have no data. One query, and one more when there are blobs."""
    names, statement = _statement()
    with connection.cursor() as cursor:
        cursor.execute(statement, [episode, index, most])
        rows = cursor.fetchall()
    steps = [Step.from_db(connection.alias, names, row) for row in rows]
    digests = {digest for step in steps for digest in (step.input_blob_id, step.output_blob_id) if digest}
    blobs = Blob.objects.defer("data").in_bulk(digests) if digests else {}
    for step in steps:
        _complete(step, blobs)
    return steps


def _complete(step: Step, blobs: dict[str, Blob]) -> None:
    """What Django does with each row: SQLite's times are of no zone, which is UTC."""
    if step.started.tzinfo is None:
        step.started = step.started.replace(tzinfo=UTC)
    if step.input_blob_id:
        step.input_blob = blobs[step.input_blob_id]
    if step.output_blob_id:
        step.output_blob = blobs[step.output_blob_id]


@cache
def _statement() -> tuple[list[str], str]:
    fields = Step._meta.concrete_fields
    columns = ", ".join(connection.ops.quote_name(field.column) for field in fields if field.column)
    where = 'WHERE episode_id = %s AND "index" > %s ORDER BY "index" LIMIT %s'
    return [field.attname for field in fields], f"SELECT {columns} FROM {Step._meta.db_table} {where}"


STEPS_PER_PAGE = 200
STEP_FACTS = ("index", "tool", "status", "reason", "error", "reward", "finished", "task_id", "duration_ms", "waited_ms")
COMPONENTS = ("reward_components", "components", "rewards", "reward_breakdown", "reward_terms")
"""Members of a step's metadata under which environments tell what a reward is made of: an object of numbers."""


@dataclass(frozen=True, slots=True)
class TranscriptView:
    """How much of a transcript is shown, and by which definition of return."""

    steps: int = STEPS_PER_PAGE
    definition: str = "sum"
    characters: int = SHOWN_CHARACTERS
    """Of one text."""
    blob_bytes: int = 2 * 1024 * 1024
    """Of one large input or output; one that is larger is one link away."""
    total_bytes: int = 16 * 1024 * 1024
    """Of all large inputs and outputs together."""


WHOLE = TranscriptView()
"""The admin's, which shows many steps on a page of their own."""


@dataclass(frozen=True, slots=True)
class StepLine:
    """One step, ready to show."""

    step: Step
    input: list[Part]
    output: list[Part]
    metadata: str
    components: list[tuple[str, float]]
    """What the reward is made of, where the environment says so."""
    raw: str
    """The ToolOutput's exact text; empty where it is too long to fold away."""
    running: float | None
    """The return up to and including this step."""
    is_whole: bool
    """False when input or output is too large for the page."""


@dataclass(frozen=True, slots=True)
class Transcript:
    lines: list[StepLine]
    first: int
    """Index of the window's first step."""
    last: int | None
    """Index of the episode's last step; None before the first."""
    size: int
    """Steps of a full window."""

    @property
    def heading(self) -> str:
        """How many steps there are, and which of them the page shows unless it shows all."""
        if self.last is None:
            return "Steps"
        total = self.last + 1
        if self.previous is None and self.next is None:
            return f"{total:,} step{'' if total == 1 else 's'}"
        shown_last = min(self.first + self.size - 1, self.last)
        return f"Steps {self.first:,}\N{EN DASH}{shown_last:,} of {total:,}"

    @property
    def count(self) -> int:
        return 0 if self.last is None else self.last + 1

    @property
    def previous(self) -> int | None:
        return max(0, self.first - self.size) if self.first else None

    @property
    def next(self) -> int | None:
        following = self.first + self.size
        return following if self.last is not None and following <= self.last else None


def transcript_of(episode: Episode, index: int = 0, view: TranscriptView = WHOLE) -> Transcript:
    """The window that holds step `index`, the last one where there is no such step; four queries."""
    last = episode.steps.aggregate(last=Max("index"))["last"]
    index = min(index, last or 0)
    first = index - index % view.steps
    return Transcript(lines_at(episode, first, first + view.steps, view), first, last, view.steps)


def lines_at(episode: Episode, first: int, stop: int, view: TranscriptView) -> list[StepLine]:
    """Steps `first` to `stop` - 1. Three queries."""
    steps = _steps(episode).filter(index__gte=first, index__lt=stop)
    return list(_lines(list(steps), _before(episode, first, view), view))


def lines_after(episode: Episode, last: int, so_far: ReturnSoFar, view: TranscriptView) -> list[StepLine]:
    """Steps after index `last`, where the return is `so_far`, which they are added to. One query, or two more."""
    return list(_lines(steps_after(episode.pk, last, view.steps), so_far, view))


def line_after(step: Step, so_far: ReturnSoFar, view: TranscriptView) -> StepLine:
    """A step that came after the return `so_far`, which it is added to. No query, unless it has blobs."""
    return next(iter(_lines([step], so_far, view)))


def line_of(episode: Episode, index: int, view: TranscriptView) -> StepLine | None:
    """One step; None: there is none."""
    return next(iter(lines_at(episode, index, index + 1, view)), None)


def _steps(episode: Episode) -> Any:
    related = episode.steps.select_related("input_blob", "output_blob")
    return related.defer("input_blob__data", "output_blob__data").order_by("index")


def return_so_far(episode: Episode, definition: str) -> float | None:
    """Of one that still runs, whose row tells no return yet. One query."""
    return _sum_of(episode.steps.all(), definition).value


def _before(episode: Episode, first: int, view: TranscriptView) -> ReturnSoFar:
    """The return before step `first`."""
    return _sum_of(episode.steps.filter(index__lt=first), view.definition) if first else ReturnSoFar(view.definition)


def _sum_of(steps: QuerySet[Step], definition: str) -> ReturnSoFar:
    """Added here: where sums run over, PostgreSQL refuses to add."""
    so_far = ReturnSoFar(definition)
    for reward in steps.filter(reward__isnull=False).order_by("index").values_list("reward", flat=True):
        so_far.add(reward)
    return so_far


def _lines(steps: Sequence[Step], so_far: ReturnSoFar, view: TranscriptView) -> Iterable[StepLine]:
    texts = _texts((blob for step in steps for blob in (step.input_blob, step.output_blob) if blob), view)
    for step in steps:
        given = texts.get(step.input_blob_id) if step.input_blob_id else step.input
        answer = texts.get(step.output_blob_id) if step.output_blob_id else step.output
        output = read_json(answer or "")
        whole = output if isinstance(output, dict) else {}
        metadata = whole.get("metadata")
        yield StepLine(
            step=step,
            input=fields(given or "", view.characters),
            output=blocks(whole.get("blocks", [] if not answer else output), view.characters),
            metadata=indented(metadata)[: 4 * SHOWN_CHARACTERS] if metadata is not None else "",
            components=components(metadata),
            raw=answer if answer and len(answer) <= SHOWN_CHARACTERS else "",
            running=so_far.add(step.reward),
            is_whole=given is not None and answer is not None,
        )


def components(metadata: Any) -> list[tuple[str, float]]:
    """The numbers under the first of COMPONENTS that `metadata` has; 40 at most."""
    if not isinstance(metadata, dict):
        return []
    for name in COMPONENTS:
        told = metadata.get(name)
        if isinstance(told, dict):
            numbers = [(str(key)[:80], value) for key, value in told.items() if type(value) in (int, float)]
            return [(key, float(value)) for key, value in numbers[:40] if abs(value) <= 1.7e308 or value != value]
    return []


def _texts(blobs: Iterable[Blob], view: TranscriptView) -> dict[str, str]:
    """Digest -> content of those that a page can bear, in order, until the page is full."""
    wanted, room = set(), view.total_bytes
    for blob in blobs:
        if blob.digest not in wanted and blob.size_bytes <= min(view.blob_bytes, room):
            wanted.add(blob.digest)
            room -= blob.size_bytes
    return {blob.digest: blob.text for blob in Blob.objects.filter(digest__in=wanted)} if wanted else {}


# --- one step as JSON ------------------------------------------------------------------------------------------------


def step_json(step: Step) -> str:
    """Everything recorded of a step as one JSON object; input and output are the exact texts."""
    facts = {name: getattr(step, name) for name in STEP_FACTS} | {"started": step.started.isoformat()}
    return (
        json.dumps(facts)[:-1] + f', "input": {step.input_json or "null"}, "output": {step.output_json or "null"}' + "}"
    )
