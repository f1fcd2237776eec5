"""Transcript: an episode's steps, a page of them at a time, as parts that a page can show. No request, no HTML."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db.models import Max, Q, Sum

from environments.parts import SHOWN_CHARACTERS, Part, blocks, fields, indented, read_json
from episodes.models import Blob, Episode, Step

STEPS_PER_PAGE = 200
STEP_FACTS = ("index", "tool", "status", "reason", "error", "reward", "finished", "task_id", "duration_ms", "waited_ms")
SHOWN_BLOB_BYTES = 2 * 1024 * 1024
PAGE_BLOB_BYTES = 16 * 1024 * 1024
"""All large inputs and outputs of a page together; the rest of them is one link away."""


@dataclass(frozen=True, slots=True)
class Line:
    """One step, ready to show."""

    step: Step
    input: list[Part]
    output: list[Part]
    metadata: str
    raw: str
    """The ToolOutput's exact text; empty where it is too long to fold away."""
    running_sum: float
    """Of all rewards up to and including this step."""
    is_whole: bool
    """False when input or output is too large for the page."""


@dataclass(frozen=True, slots=True)
class Transcript:
    lines: list[Line]
    first: int
    """Index of the page's first step."""
    last: int | None
    """Index of the episode's last step; None before the first."""

    @property
    def heading(self) -> str:
        """How many steps there are, and which of them the page shows unless it shows all."""
        if self.last is None:
            return "Steps"
        total = self.last + 1
        if self.previous is None and self.next is None:
            return f"{total} step{'' if total == 1 else 's'}"
        shown_last = min(self.first + STEPS_PER_PAGE - 1, self.last)
        return f"Steps {self.first:,}\N{EN DASH}{shown_last:,} of {total:,}"

    @property
    def previous(self) -> int | None:
        return self.first - STEPS_PER_PAGE if self.first else None

    @property
    def next(self) -> int | None:
        following = self.first + STEPS_PER_PAGE
        return following if self.last is not None and following <= self.last else None


def transcript_of(episode: Episode, index: int = 0) -> Transcript:
    """The page of steps that holds step `index`; three queries."""
    first = index - index % STEPS_PER_PAGE
    told = episode.steps.aggregate(last=Max("index"), before=Sum("reward", filter=Q(index__lt=first)))
    if told["last"] is not None and first > told["last"]:
        return transcript_of(episode, told["last"])
    steps = list(
        episode.steps.filter(index__gte=first, index__lt=first + STEPS_PER_PAGE)
        .select_related("input_blob", "output_blob")
        .defer("input_blob__data", "output_blob__data")
        .order_by("index")
    )
    return Transcript(list(_lines(steps, told["before"] or 0.0)), first, told["last"])


def _lines(steps: Sequence[Step], running_sum: float) -> Iterable[Line]:
    texts = _texts(blob for step in steps for blob in (step.input_blob, step.output_blob) if blob)
    for step in steps:
        running_sum += step.reward or 0.0
        given = texts.get(step.input_blob_id) if step.input_blob_id else step.input
        answer = texts.get(step.output_blob_id) if step.output_blob_id else step.output
        output = read_json(answer or "")
        whole = output if isinstance(output, dict) else {}
        yield Line(
            step=step,
            input=fields(given or ""),
            output=blocks(whole.get("blocks", [] if not answer else output)),
            metadata=indented(whole["metadata"]) if whole.get("metadata") is not None else "",
            raw=answer if answer and len(answer) <= SHOWN_CHARACTERS else "",
            running_sum=running_sum,
            is_whole=given is not None and answer is not None,
        )


def _texts(blobs: Iterable[Blob]) -> dict[str, str]:
    """Digest -> content of those that a page can bear, in order, until the page is full."""
    wanted, room = set(), PAGE_BLOB_BYTES
    for blob in blobs:
        if blob.digest not in wanted and blob.size_bytes <= min(SHOWN_BLOB_BYTES, room):
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
