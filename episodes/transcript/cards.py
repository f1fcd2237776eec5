"""Steps and prompts as cards: facts and rendered texts, for replay, comparison, player and their
templates.

Every text is rendered as the kind that its content suggests: text, code, Markdown and so on. It
keeps its place (`input-0`, `output-2`, `prompt-0`), by which a page can request the text as another
kind or load an image.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from django.http import Http404, HttpResponse
from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from environments.display.images import image_size
from environments.display.parts import Part
from environments.display.visible import visible
from environments.errors import shorten
from episodes.models import Step
from episodes.rendering.code import code, language_of
from episodes.rendering.kinds import KINDS, Kind, kind_of, rendered
from episodes.transcript.steps import StepLine

MAX_TOOL_CHARACTERS = 200
"""Maximum number of characters of a tool's name that are shown."""
MAX_IMAGE_WIDTH, MAX_IMAGE_HEIGHT = 560, 420
"""Pixels at which `static/episodes/step.css` shows an image at most."""
MAX_UNFOLDED_LINES = 16
MAX_UNFOLDED_CHARACTERS = 1_600
"""Maximum number of characters of a text that is shown unfolded; a longer one is folded to that
size."""

_CODE = {
    "command": "bash",
    "commands": "bash",
    "cmd": "bash",
    "bash": "bash",
    "shell": "bash",
    "sql": "sql",
    "patch": "diff",
    "diff": "diff",
    "code": "",
    "script": "",
    "source": "",
    "program": "python",
}
"""Name of an input field that holds code -> its language; "" where the language has to be
guessed."""


JSON_KINDS: tuple[Kind, ...] = ("code", "text", "raw")
TEXT_KINDS: tuple[Kind, ...] = ("text", "markdown", "code", "ansi", "latex", "raw")


class UnknownKind(ValueError):
    """A text cannot be shown as that kind; the message lists the kinds."""


class NoSuchPart(LookupError):
    """There is no text at that place; the message says what places look like."""


@dataclass(frozen=True, slots=True)
class MessageCard:
    """A text or image of a step or prompt, as HTML."""

    place: str
    label: str
    kind: Kind | Literal["image"]
    html: SafeString
    """Text of the message; empty for an image, which pages load by its place."""
    kinds: tuple[Kind, ...]
    """Kinds as which the text can be shown; empty if there is no choice."""
    omitted: int
    """Number of characters that were cut off the end."""
    is_short: bool
    """Whether the text fits on the line of its label."""
    is_long: bool
    number: int
    """Index among the texts and images of the same side, from 0."""
    uri: str = ""
    """An image's data: address, for pages that have no other address for it."""
    size: tuple[int, int] | None = None
    """Width and height at which an image is shown, if they are known before it is loaded."""

    @property
    def options(self) -> SafeString:
        """`<option>` elements of the kinds, the current kind selected."""
        return _options(self.kinds, self.kind)


@dataclass(frozen=True, slots=True)
class Card:
    """A step with rendered texts. Its row has its other facts."""

    step: Step
    tool: str
    error: str
    running: float | None
    """The return up to and including this step."""
    input: list[MessageCard]
    output: list[MessageCard]
    components: list[tuple[str, float]]
    """Name and value of each part of the reward."""
    metadata: SafeString
    is_whole: bool
    """False when input or output is too large for the page."""

    @property
    def widest(self) -> float:
        """The largest absolute value of a component, which scales the bars of all of them; 1
        without components."""
        return max((abs(value) for _, value in self.components), default=0.0) or 1.0


@cache
def _options(kinds: tuple[Kind, ...], current: str) -> SafeString:
    """Return the `<option>` elements of the kinds.

    They are cached, because there are few combinations and rendering them takes longer than the
    rest of a short text.
    """
    options = ((" selected" if kind == current else "", kind) for kind in kinds)
    return format_html_join("", "<option{}>{}</option>", options)


def cards_of(lines: Iterable[StepLine]) -> list[Card]:
    return [card_of(line) for line in lines]


def card_of(line: StepLine) -> Card:
    return Card(
        step=line.step,
        tool=shorten(visible(line.step.tool), MAX_TOOL_CHARACTERS),
        error=visible(line.step.error),
        running=line.running,
        input=message_cards(line.input, "input"),
        output=message_cards(line.output, "output"),
        components=[(visible(name), value) for name, value in line.components],
        metadata=code(line.metadata, "json"),
        is_whole=line.is_whole,
    )


def message_cards(parts: Sequence[Part], side: str) -> list[MessageCard]:
    """Return the cards of `parts`. `side` is "input", "output", "prompt" or "spec"."""
    return [message_card(part, side, number) for number, part in enumerate(parts)]


def message_card(part: Part, side: str, number: int, kind: Kind | None = None) -> MessageCard:
    """Return the card of one part, shown as `kind` or, without it, as the kind that its content
    suggests."""
    text, label, place = part.text, visible(part.label), f"{side}-{number}"
    if part.kind == "image":
        return MessageCard(
            place=place,
            label=label if side == "prompt" else "",
            kind="image",
            html=SafeString(),
            kinds=(),
            omitted=part.omitted,
            is_short=False,
            is_long=False,
            number=number,
            uri=text,
            size=_shown_size(text),
        )
    language = _language(part, side)
    if kind is None:
        if language is not None:
            kind = "code"
        elif part.is_short and part.label and "\x1b" not in text:
            kind = "text"
        else:
            kind = kind_of(text, is_prompt=side == "prompt")
    return MessageCard(
        place=place,
        label=label,
        kind=kind,
        html=rendered(text, kind, language or ""),
        kinds=JSON_KINDS if part.kind == "json" else TEXT_KINDS,
        omitted=part.omitted,
        is_short=part.is_short and kind in ("text", "code") and bool(part.label),
        is_long=text.count("\n") >= MAX_UNFOLDED_LINES or len(text) > MAX_UNFOLDED_CHARACTERS,
        number=number,
    )


def _shown_size(uri: str) -> tuple[int, int] | None:
    size = image_size(uri.partition(",")[2])
    if size is None:
        return None
    scale = min(1.0, MAX_IMAGE_WIDTH / size[0], MAX_IMAGE_HEIGHT / size[1])
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))


def message_card_at(sides: Mapping[str, Sequence[Part]], place: str, kind: str) -> MessageCard:
    """Return the card of the part at `place`, shown as `kind` or, if empty, as the kind that its
    content suggests.

    Raises: UnknownKind, NoSuchPart.
    """
    side, _, rest = place.partition("-")
    number = int(rest) if rest.isdecimal() and len(rest) < 6 else -1
    if kind and kind not in KINDS:
        raise UnknownKind(f"as={kind[:100]!r} is not a kind of text; use {', '.join(KINDS)}.")
    if not 0 <= number < len(sides.get(side, ())):
        raise NoSuchPart(f"There is no part={place[:100]!r}; use input-0, output-0 and so on.")
    return message_card(sides[side][number], side, number, kind or None)


def image_response(parts: Sequence[Part], number: int) -> HttpResponse:
    """Return the response with the image at index `number`. Raises: Http404."""
    part = parts[number] if number < len(parts) else None
    if part is None or part.kind != "image":
        raise Http404(f"There is no image {number}.")
    head, _, data = part.text.partition(";base64,")
    return HttpResponse(base64.b64decode(data), content_type=head.removeprefix("data:"))


def _language(part: Part, side: str) -> str | None:
    """Return the language of a part that holds code, else None. The name of an input field says
    more than its text."""
    if part.kind == "json":
        return "json"
    if side == "input" and part.label.lower() in _CODE:
        return _CODE[part.label.lower()] or language_of(part.text) or "python"
    return None
