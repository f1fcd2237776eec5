"""A preview of an episode: its prompt, first and last steps in a few lines of text, next to a table
of episodes.

Texts are cut to MAX_SHOWN_CHARACTERS, and large blobs are left to the replay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from environments.display.parts import Part, blocks, fields, prompt, read_json
from environments.display.visible import visible
from environments.errors import shorten
from episodes.models import Blob, Episode, Step
from episodes.rendering.ansi import ansi
from episodes.transcript.cards import MessageCard, message_cards

STEPS_AT_EACH_END = 3
MAX_SHOWN_CHARACTERS = 600
"""Number of characters of each text that are shown."""
MAX_BLOB_BYTES = 256 * 1024
"""Maximum size of a blob that is read for a preview, in bytes."""


@dataclass(frozen=True, slots=True)
class PreviewText:
    """The shortened texts of one step."""

    step: Step
    input: str
    output: str


@dataclass(frozen=True, slots=True)
class EpisodePreview:
    prompt: Sequence[MessageCard]
    first: Sequence[PreviewText]
    left_out: int
    """Number of steps between the first and the last ones."""
    last: Sequence[PreviewText]

    @property
    def steps(self) -> int:
        """Number of all steps, refused ones included."""
        return len(self.first) + self.left_out + len(self.last)


def preview_of(episode: Episode) -> EpisodePreview:
    """Return the preview of `episode`. Three queries, and one for each blob of the six steps."""
    rows = episode.steps.select_related("input_blob", "output_blob").defer(
        "input_blob__data", "output_blob__data"
    )
    first = list(rows.order_by("index")[:STEPS_AT_EACH_END])
    after = first[-1].index if first else -1
    last = list(rows.filter(index__gt=after).order_by("-index")[:STEPS_AT_EACH_END])[::-1]
    left_out = last[0].index - after - 1 if last else 0
    return EpisodePreview(
        prompt=message_cards(_shortened(prompt(_read(episode.prompt, ""))), "prompt"),
        first=[_preview_of_step(step) for step in first],
        left_out=left_out,
        last=[_preview_of_step(step) for step in last],
    )


def _preview_of_step(step: Step) -> PreviewText:
    answer = read_json(_read(step.output_blob, step.output))
    output = blocks(answer.get("blocks", [])) if isinstance(answer, dict) else []
    return PreviewText(
        step,
        _text(fields(_read(step.input_blob, step.input))),
        _text(output) or visible(shorten(step.error, MAX_SHOWN_CHARACTERS)),
    )


def _read(blob: Blob | None, text: str) -> str:
    if blob is None:
        return text
    if blob.size_bytes > MAX_BLOB_BYTES:
        return f"{blob.size_bytes / 1024:,.0f} KB, shown in the replay"
    return blob.text


def _shortened(parts: Sequence[Part]) -> list[Part]:
    """Return the first parts, with MAX_SHOWN_CHARACTERS of all of them together and names instead
    of images."""
    beginning, room = [], MAX_SHOWN_CHARACTERS
    for part in parts:
        text = shorten(_text_of(part), room)
        beginning.append(Part("text" if part.kind == "image" else part.kind, text, part.label))
        room -= len(text)
        if room <= 0:
            break
    return beginning


def _text(parts: Sequence[Part]) -> str:
    """Return the texts of the parts, cut; HTML if they are terminal output."""
    text = shorten("\n".join(_text_of(part) for part in parts).strip(), MAX_SHOWN_CHARACTERS)
    return ansi(text) if "\x1b" in text else visible(text)


def _text_of(part: Part) -> str:
    """Return the text of a part. An image becomes its media type in brackets."""
    return f"[{part.text[5:].partition(';')[0]}]" if part.kind == "image" else part.text
