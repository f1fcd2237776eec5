"""What a replay sends at first of an episode that may be huge: as many steps, texts, tools and
notes as fit.

Everything else is loaded when the reader comes to it, or is behind a link.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString

from environments.display.parts import Part
from episodes.transcript.cards import MessageCard, card_of, message_card
from episodes.transcript.step_html import step_html
from episodes.transcript.steps import StepLine
from episodes.transcript.timeline import HiddenMessages, Item

ItemT = TypeVar("ItemT")

MIN_CHARACTERS = 500
"""Number of characters to which a text that does not fit is shortened at most."""


class PageBudget:
    """The number of bytes of HTML that a page may still send."""

    def __init__(self, size_bytes: int) -> None:
        self.left = size_bytes

    def fitting(
        self, items: Iterable[ItemT], size: Callable[[ItemT], int], most: int
    ) -> tuple[list[ItemT], list[ItemT]]:
        """Return the first items that fit into `most` bytes together, and the others."""
        first, others, room = list[ItemT](), list[ItemT](), min(most, self.left)
        for item in items:
            size_bytes = size(item)
            if others or size_bytes > room:
                others.append(item)
            else:
                first.append(item)
                room -= size_bytes
                self.left -= size_bytes
        return first, others

    def cards(self, parts: Sequence[Part], side: str, most: int) -> tuple[list[MessageCard], int]:
        """Return the first parts that fit into `most` bytes together as cards, and how many others
        there are.

        A part that does not fit is shortened.
        """
        cards, room = list[MessageCard](), min(most, self.left)
        for number, part in enumerate(parts):
            card = message_card(part, side, number)
            while (
                size_of_card(card) > room
                and len(part.text) > MIN_CHARACTERS
                and part.kind != "image"
            ):
                half = len(part.text) // 2
                omitted_count = part.omitted + len(part.text) - half
                part = replace(part, text=part.text[:half], omitted=omitted_count)
                card = message_card(part, side, number)
            size_bytes = size_of_card(card)
            if size_bytes > room:
                break
            cards.append(card)
            room -= size_bytes
            self.left -= size_bytes
        return cards, len(parts) - len(cards)


def size_of(text: str) -> int:
    """Return the number of bytes of HTML: of `text` itself if it is HTML, otherwise of `text` when
    it is escaped."""
    return len((text if isinstance(text, SafeString) else escape(text)).encode())


def size_of_card(card: MessageCard) -> int:
    """Return the number of bytes of a card: about 1,000 with its menu, and those of its text."""
    return 1_000 + size_of(card.html) + size_of(card.label)


# --- a window of steps and messages ---------------------------------------------------------------


def window_html(
    items: Sequence[Item], options: dict[str, Any], most: int | None = None
) -> SafeString:
    """Return steps and the messages between them as HTML. `options`: those of `step_html`.

    Once `most` bytes are full, steps have only their heads, and messages are left out. Both are
    marked by `data-later`; the page loads the window again when the reader comes to them.
    """
    pieces, total = list[str](), 0
    earlier: StepLine | None = None
    for place, item in enumerate(items):
        if isinstance(item, StepLine):
            if earlier is None or not item.repeats(earlier):
                earlier = item
            repeats = str(earlier.step.index) if item is not earlier else ""
            html = item_html(item, {**options, "repeats": repeats})
        else:
            html = item_html(item, options)
        total += size_of(html)
        if most is not None and total > most:
            pieces += _later(items[place:], options)
            break
        pieces.append(html)
    return SafeString("".join(pieces))


def item_html(item: Item, options: dict[str, Any]) -> SafeString:
    if isinstance(item, StepLine):
        return step_html(card_of(item), options)
    if isinstance(item, HiddenMessages):
        context = {"hidden": item, "episode": options["episode"]}
        return render_to_string("episodes/hidden_messages.html", context)
    return render_to_string("episodes/message_card.html", {"view": item})


def _later(items: Sequence[Item], options: dict[str, Any]) -> Iterable[str]:
    """Yield what stands for items that do not fit."""
    address, messages = reverse("episode_conversation", args=[options["episode"].pk]), 0
    for item in [*items, None]:
        if item is not None and not isinstance(item, StepLine):
            messages += item.count if isinstance(item, HiddenMessages) else 1
            continue
        if messages:
            sentence = f"Show {messages:,} message{'' if messages == 1 else 's'}"
            yield format_html(
                '<div class="message more-messages" data-later><a class="button" '
                'href="{}">{}</a></div>',
                address,
                sentence,
            )
            messages = 0
        if item is not None:
            line = replace(
                item, input=[], output=[], metadata="", raw="", components=[], is_whole=False
            )
            card = replace(card_of(line), error="")
            yield step_html(card, {**options, "is_bare": True, "is_later": True})
