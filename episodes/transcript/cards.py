"""Cards: steps and prompts as replay, preview and player show them, every text rendered by the kind that suits it.

A text keeps its place (`input-0`, `output-2`, `prompt-0`), by which a page asks for it again as another kind.

Pictures: images of prompts and outputs as browsers may be given them. For the replay and the player.
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

from environments.display.parts import Part
from environments.errors import shorten
from episodes.models import Step
from episodes.rendering.code import code, language_of
from episodes.rendering.kinds import KINDS, Kind, kind_of, rendered
from episodes.rendering.visible import visible
from episodes.transcript.steps import StepLine

MAX_TOOL = 200
"""Characters of a tool's name."""
LONG_LINES = 16
LONG_CHARACTERS = 1_600
"""What is longer is folded to that."""

_CODE = {
    **{"command": "bash", "cmd": "bash", "bash": "bash", "shell": "bash", "commands": "bash"},
    **{"sql": "sql", "patch": "diff", "diff": "diff", "code": "", "script": "", "source": "", "program": "python"},
}
"""Names of input fields that hold code; "" where its language has to be guessed."""


class UnknownKind(ValueError):
    """A text cannot be read like that; the message says how it can."""


class NoSuchPart(LookupError):
    """There is no text at that place; the message says which places there are."""


@dataclass(frozen=True, slots=True)
class MessageCard:
    """One thing that was said, as HTML."""

    place: str
    label: str
    kind: Kind | Literal["image"]
    html: SafeString
    """For an image empty: pages load it by its place."""
    kinds: tuple[Kind, ...]
    """Ways in which it can be read; empty: only this one."""
    omitted: int
    """Characters that were cut off the end."""
    is_short: bool
    """Whether it fits on the line of its label."""
    is_long: bool
    number: int
    """Its place among the others of its step and side, from 0."""
    uri: str = ""
    """An image's data: address, for pages that have nothing else to load it from."""

    @property
    def options(self) -> SafeString:
        """Of a list of the ways, the present one chosen."""
        return _options(self.kinds, self.kind)


@dataclass(frozen=True, slots=True)
class Card:
    """One step. Its facts are the row's."""

    step: Step
    tool: str
    error: str
    running: float | None
    input: list[MessageCard]
    output: list[MessageCard]
    components: list[tuple[str, float]]
    metadata: SafeString
    raw: SafeString
    is_whole: bool

    @property
    def widest(self) -> float:
        """The component that is furthest from nothing; the others are drawn beside it."""
        return max((abs(value) for _, value in self.components), default=0.0) or 1.0


@cache
def _options(kinds: tuple[Kind, ...], chosen: str) -> SafeString:
    """Few, and each is part of every step: a template takes longer for it than for the rest of a short text."""
    chosen_ones = ((" selected" if kind == chosen else "", kind) for kind in kinds)
    return format_html_join("", "<option{}>{}</option>", chosen_ones)


def cards_of(lines: Iterable[StepLine]) -> list[Card]:
    return [card_of(line) for line in lines]


def card_of(line: StepLine) -> Card:
    return Card(
        step=line.step,
        tool=shorten(visible(line.step.tool), MAX_TOOL),
        error=visible(line.step.error),
        running=line.running,
        input=said(line.input, "input"),
        output=said(line.output, "output"),
        components=[(visible(name), value) for name, value in line.components],
        metadata=code(line.metadata, "json"),
        raw=code(line.raw),
        is_whole=line.is_whole,
    )


def said(parts: Sequence[Part], side: str) -> list[MessageCard]:
    """Each of `parts`; `side` is "input", "output" or "prompt"."""
    return [said_as(part, side, number) for number, part in enumerate(parts)]


def said_as(part: Part, side: str, number: int, kind: Kind | None = None) -> MessageCard:
    """One part, as `kind` or as what suits it."""
    language = _language(part, side)
    chosen = kind or _kind(part, language)
    text = part.text
    is_image = part.kind == "image"
    return MessageCard(
        place=f"{side}-{number}",
        label="" if is_image and side != "prompt" else visible(part.label),
        kind="image" if is_image else chosen,
        html=SafeString() if is_image else rendered(text, chosen, language or ""),
        kinds=_kinds(part),
        omitted=part.omitted,
        is_short=part.is_short and chosen in ("text", "code") and bool(part.label),
        is_long=not is_image and (text.count("\n") >= LONG_LINES or len(text) > LONG_CHARACTERS),
        number=number,
        uri=text if is_image else "",
    )


def said_at(sides: Mapping[str, Sequence[Part]], place: str, kind: str) -> MessageCard:
    """The part at `place`, as `kind` or (empty) as what suits it. Raises: UnknownKind, NoSuchPart."""
    side, _, rest = place.partition("-")
    number = int(rest) if rest.isdecimal() and len(rest) < 6 else -1
    if kind and kind not in KINDS:
        raise UnknownKind(f"as={kind[:100]!r} is no way to read a text; use {', '.join(KINDS)}.")
    if not 0 <= number < len(sides.get(side, ())):
        raise NoSuchPart(f"part={place[:100]!r} is not there; use input-0, output-0 and so on.")
    return said_as(sides[side][number], side, number, kind or None)


def _language(part: Part, side: str) -> str | None:
    """None: it is no code. The name of an input field tells more than its text."""
    if part.kind == "json":
        return "json"
    if side == "input" and part.label.lower() in _CODE:
        return _CODE[part.label.lower()] or language_of(part.text) or "python"
    return None


def _kind(part: Part, language: str | None) -> Kind:
    if language is not None:
        return "code"
    return "text" if part.is_short and "\x1b" not in part.text and part.label else kind_of(part.text)


def _kinds(part: Part) -> tuple[Kind, ...]:
    if part.kind == "image":
        return ()
    return ("code", "text", "raw") if part.kind == "json" else ("text", "markdown", "code", "ansi", "latex", "raw")


def picture_answer(found: Sequence[Part], number: int) -> HttpResponse:
    """The image at place `number`. Raises: Http404."""
    part = found[number] if number < len(found) else None
    if part is None or part.kind != "image":
        raise Http404(f"There is no image at place {number}.")
    head, _, data = part.text.partition(";base64,")
    return HttpResponse(base64.b64decode(data), content_type=head.removeprefix("data:"))
