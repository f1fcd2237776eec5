"""An episode's steps: a window of them as parts that a page can show, the steps after a known one,
steps as JSON.

Used by replay, comparison, player, API and admin. There are no requests and no HTML here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, timedelta
from functools import cache
from typing import Any

from django.db import connection
from django.db.models import Max, QuerySet

from environments.display.parts import (
    MAX_SHOWN_CHARACTERS,
    Part,
    blocks,
    fields,
    indented,
    read_json,
)
from environments.display.visible import visible
from episodes.attempts.components import COMPONENT_MEMBERS, components_of
from episodes.attempts.return_so_far import ReturnSoFar
from episodes.models import Blob, Episode, Step

STEPS_PER_PAGE = 200
MAX_WHOLE_CHARACTERS = 400_000
"""Number of characters of a text that is shown as a whole."""
MAX_WHOLE_BYTES = 64 * 1024 * 1024
"""Number of bytes that are read for a step that is shown as a whole."""
STEPS_PER_READ = 5_000
"""Steps of one answer of `step_columns`."""
STEP_FACTS = (
    "index",
    "tool",
    "status",
    "reason",
    "error",
    "reward",
    "finished",
    "task_id",
    "duration_ms",
    "waited_ms",
)
SHOWN_COMPONENTS = (*COMPONENT_MEMBERS, "components", "reward_breakdown", "reward_terms")
"""Members of a step's metadata that are shown as parts of its reward. Figures are computed from the
first two only."""
_STATES = {"ok": "o", "refused": "r", "failed": "f"}


@dataclass(frozen=True, slots=True)
class TranscriptView:
    """The extent of a transcript that is shown, and the definition of the return."""

    steps: int = STEPS_PER_PAGE
    definition: str = "sum"
    characters: int = MAX_SHOWN_CHARACTERS
    """Characters of one text that are shown."""
    blob_bytes: int = 2 * 1024 * 1024
    """Largest input or output that is read; the page links to a larger one."""
    total_bytes: int = 16 * 1024 * 1024
    """Bytes that are read of all large inputs and outputs together."""


WHOLE = TranscriptView()
"""View of the admin, which shows many steps on a page."""


@dataclass(frozen=True, slots=True)
class StepLine:
    """A step, ready to show."""

    step: Step
    input: list[Part]
    output: list[Part]
    metadata: str
    components: list[tuple[str, float]]
    """Name and value of each part of the reward, where the environment reports them."""
    raw: str
    """The exact text of the ToolOutput; empty where it is too long for a page."""
    running: float | None
    """The return up to and including this step."""
    is_whole: bool
    """False when input or output is too large for the page."""

    def repeats(self, earlier: StepLine) -> bool:
        """Return whether the step has the call and the result of another one."""

        def content(line: StepLine) -> tuple[object, ...]:
            step = line.step
            return step.tool, step.status, step.error, line.input, line.output, line.is_whole

        return self.is_whole and content(self) == content(earlier)


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
        """Number of steps, and which of them the page shows unless it shows all."""
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
    """Return the window that contains step `index`, or the last window where there is no such step.
    Four queries."""
    last = episode.steps.aggregate(last=Max("index"))["last"]
    index = min(index, last or 0)
    first = index - index % view.steps
    return Transcript(lines_at(episode, first, first + view.steps, view), first, last, view.steps)


def lines_at(episode: Episode, first: int, stop: int, view: TranscriptView) -> list[StepLine]:
    """Return the steps `first` to `stop - 1`. Three queries."""
    rows = episode.steps.select_related("input_blob", "output_blob").order_by("index")
    rows = rows.defer("input_blob__data", "output_blob__data")
    so_far = ReturnSoFar(view.definition)
    if first:
        so_far = _sum_of(episode.steps.filter(index__lt=first), view.definition)
    return list(_lines(list(rows.filter(index__gte=first, index__lt=stop)), so_far, view))


def lines_after(
    episode: Episode, last: int, so_far: ReturnSoFar, view: TranscriptView
) -> list[StepLine]:
    """Return the steps after index `last`, with rewards added to `so_far`. One query, or three if
    there are blobs."""
    return list(_lines(steps_after(episode.pk, last, view.steps), so_far, view))


def line_after(step: Step, so_far: ReturnSoFar, view: TranscriptView) -> StepLine:
    """Return one step, with its reward added to `so_far`, the return before it. No query, unless it
    has blobs."""
    return next(iter(_lines([step], so_far, view)))


def line_of(episode: Episode, index: int, view: TranscriptView) -> StepLine | None:
    """Return the step `index`; None if there is no such step."""
    return next(iter(lines_at(episode, index, index + 1, view)), None)


def return_so_far(episode: Episode, definition: str) -> float | None:
    """Return the return up to now of a running episode, whose row has no return yet. One query."""
    return _sum_of(episode.steps.all(), definition).value


def _sum_of(steps: QuerySet[Step], definition: str) -> ReturnSoFar:
    """Return the return of `steps`. Added here, because PostgreSQL raises an error where a sum
    overflows."""
    so_far = ReturnSoFar(definition)
    rows = steps.filter(reward__isnull=False).order_by("index")
    for reward in rows.values_list("reward", flat=True):
        so_far.add(reward)
    return so_far


def _lines(steps: Sequence[Step], so_far: ReturnSoFar, view: TranscriptView) -> Iterable[StepLine]:
    texts = _texts(
        (blob for step in steps for blob in (step.input_blob, step.output_blob) if blob), view
    )
    for step in steps:
        call = texts.get(step.input_blob_id) if step.input_blob_id else step.input
        answer = texts.get(step.output_blob_id) if step.output_blob_id else step.output
        output = read_json(answer or "")
        whole = output if isinstance(output, dict) else {}
        metadata = whole.get("metadata")
        yield StepLine(
            step=step,
            input=fields(call or "", view.characters),
            output=blocks(whole.get("blocks", [] if not answer else output), view.characters),
            metadata=indented(metadata)[: 4 * MAX_SHOWN_CHARACTERS] if metadata is not None else "",
            components=list(components_of(metadata, SHOWN_COMPONENTS).items()),
            raw=answer if answer and len(answer) <= MAX_SHOWN_CHARACTERS else "",
            running=so_far.add(step.reward),
            is_whole=call is not None and answer is not None,
        )


def _texts(blobs: Iterable[Blob], view: TranscriptView) -> dict[str, str]:
    """Return the content by digest of the blobs that fit on the page, in order, until the page is
    full."""
    digests, room = set(), view.total_bytes
    for blob in blobs:
        if blob.digest not in digests and blob.size_bytes <= min(view.blob_bytes, room):
            digests.add(blob.digest)
            room -= blob.size_bytes
    if not digests:
        return {}
    return {blob.digest: blob.text for blob in Blob.objects.filter(digest__in=digests)}


# --- steps after a known one, for pages that follow a play or a running episode -------------------


def steps_after(episode: int, index: int, most: int) -> list[Step]:
    """Return at most `most` steps after `index`, in order, with their blobs, whose data is
    deferred.

    One query, two when there are blobs. It runs after every call that a person makes, and Django
    needs twenty times as long to compile the statement as the database to answer it. So the
    statement is compiled once, and rows are made of the values that the driver returns.
    """
    statement = _statement()
    with connection.cursor() as cursor:
        cursor.execute(statement, [episode, index, most])
        rows = cursor.fetchall()
    names = [field.attname for field in Step._meta.concrete_fields]
    steps = [Step.from_db(connection.alias, names, row) for row in rows]
    digests = {
        digest for step in steps for digest in (step.input_blob_id, step.output_blob_id) if digest
    }
    blobs = Blob.objects.defer("data").in_bulk(digests) if digests else {}
    for step in steps:
        # as Django converts rows: times from SQLite have no zone and are UTC
        if step.started.tzinfo is None:
            step.started = step.started.replace(tzinfo=UTC)
        if step.input_blob_id:
            step.input_blob = blobs[step.input_blob_id]
        if step.output_blob_id:
            step.output_blob = blobs[step.output_blob_id]
    return steps


@cache
def _statement() -> str:
    names = [field.column for field in Step._meta.concrete_fields]
    columns = ", ".join(connection.ops.quote_name(name) for name in names if name)
    where = 'WHERE episode_id = %s AND "index" > %s ORDER BY "index" LIMIT %s'
    return f"SELECT {columns} FROM {Step._meta.db_table} {where}"  # nosec B608 # only our own names


# --- steps as JSON --------------------------------------------------------------------------------


def step_json(step: Step) -> str:
    """Return everything that is recorded of a step as one JSON object; input and output are the
    exact texts."""
    facts = {name: getattr(step, name) for name in STEP_FACTS}
    members = json.dumps({**facts, "started": step.started.isoformat()})[1:-1]
    input_json, output_json = step.input_json or "null", step.output_json or "null"
    return f'{{{members}, "input": {input_json}, "output": {output_json}}}'


def step_columns(episode: Episode, first: int = 0) -> dict[str, Any]:
    """Return facts of STEPS_PER_READ steps from `first` on, as columns, for the replay's list of
    steps. Two queries.

    `total` (steps of the episode), `status`, `first`, `tools` (names in order of appearance), and
    per step: `tool` (index in `tools`), `state` (one letter each: o for ok, r for refused, f for
    failed), `reward` (or null), and in milliseconds: `start` (since the episode was created),
    `wait` (for the setup and other calls), `duration`.
    `reason` has the reasons of steps that were refused or failed, or whose reward was no number, by
    the step's index.
    """
    last = episode.steps.aggregate(last=Max("index"))["last"]
    window = episode.steps.filter(index__gte=first, index__lt=first + STEPS_PER_READ)
    columns = ("index", "tool", "status", "reason", "reward", "started", "waited_ms", "duration_ms")
    rows = list(window.order_by("index").values_list(*columns))
    tools = {tool: place for place, tool in enumerate(dict.fromkeys(row[1] for row in rows))}
    return {
        "first": first,
        "total": 0 if last is None else last + 1,
        "status": episode.status,
        "tools": [visible(tool) for tool in tools],
        "state": "".join(_STATES[status] for _, _, status, *_ in rows),
        "reason": {index: reason for index, _, _, reason, *_ in rows if reason},
        "tool": [tools[tool] for _, tool, *_ in rows],
        "reward": [reward for _, _, _, _, reward, *_ in rows],
        "start": [round((row[5] - episode.created) / timedelta(milliseconds=1)) for row in rows],
        "wait": [round(row[6]) for row in rows],
        "duration": [round(row[7]) for row in rows],
    }
