"""Glimpse: how an episode began and how it ended, in a few lines of text. Shown beside a table of episodes.

Its texts are cut to a few lines, and what stands in large blobs is left to the replay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from environments.display.parts import Part, blocks, fields, prompt, read_json
from environments.errors import shorten
from episodes.models import Blob, Episode, Step
from episodes.rendering.visible import visible

STEPS_AT_EACH_END = 3
SHOWN_CHARACTERS = 600
"""Of what was said at once."""
READ_BYTES = 256 * 1024
"""Of a blob; larger ones are not read."""


@dataclass(frozen=True, slots=True)
class PreviewText:
    """One step in short."""

    step: Step
    input: str
    output: str


@dataclass(frozen=True, slots=True)
class Glimpse:
    prompt: str
    first: Sequence[PreviewText]
    left_out: int
    """Steps between the first and the last."""
    last: Sequence[PreviewText]

    @property
    def steps(self) -> int:
        """All of them, refused ones too."""
        return len(self.first) + self.left_out + len(self.last)


def glimpse_of(episode: Episode) -> Glimpse:
    """Three queries, and one for each blob of the six steps."""
    rows = episode.steps.select_related("input_blob", "output_blob").defer("input_blob__data", "output_blob__data")
    first = list(rows.order_by("index")[:STEPS_AT_EACH_END])
    after = first[-1].index if first else -1
    last = list(rows.filter(index__gt=after).order_by("-index")[:STEPS_AT_EACH_END])[::-1]
    left_out = last[0].index - after - 1 if last else 0
    return Glimpse(
        prompt=_text(prompt(_read(episode.prompt, ""))),
        first=[_said(step) for step in first],
        left_out=left_out,
        last=[_said(step) for step in last],
    )


def _said(step: Step) -> PreviewText:
    answer = read_json(_read(step.output_blob, step.output))
    shown = blocks(answer.get("blocks", [])) if isinstance(answer, dict) else []
    return PreviewText(
        step,
        _text(fields(_read(step.input_blob, step.input))),
        _text(shown) or visible(shorten(step.error, SHOWN_CHARACTERS)),
    )


def _read(blob: Blob | None, text: str) -> str:
    if blob is None:
        return text
    return blob.text if blob.size_bytes <= READ_BYTES else f"{blob.size_bytes / 1024:,.0f} KB, shown in the replay"


def _text(parts: Sequence[Part]) -> str:
    """The parts as text, images by their kind."""
    lines = [f"[{part.text[5:].partition(';')[0]}]" if part.kind == "image" else part.text for part in parts]
    return visible(shorten("\n".join(lines).strip(), SHOWN_CHARACTERS))
