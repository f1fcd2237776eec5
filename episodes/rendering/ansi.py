"""Terminal output as HTML: colours and styles as classes; every other control sequence has no
effect.

rich reads the sequences that set colours and styles (SGR). All others are removed before, because
rich shows titles and links that end with BEL as text and takes quadratic time for unterminated ones
(20,000 characters: 4.8 s).

Source: ECMA-48 8.3.117 (SGR), 5.4 (CSI); xterm's control sequences (OSC, 256 and direct colours).
"""

from __future__ import annotations

import re
from functools import lru_cache
from html import escape
from typing import TYPE_CHECKING

from django.utils.safestring import SafeString, mark_safe

from environments.display.visible import visible

if TYPE_CHECKING:
    from rich.color import Color
    from rich.style import Style
    from rich.text import Text

_SEQUENCE = re.compile(
    r"\x1b\[([0-9;:]*)m"  # SGR, the only kind with an effect
    r"|\x1b\[[0-?]*[ -/]*[@-~]"  # any other control sequence: cursor, erasing, modes
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"  # strings for the terminal: titles, links
    r"|\x1b[ -/]*[0-Z\\^_`a-~]"  # two-character sequences
)
MAX_SGR_CHARACTERS = 200
_OVERWRITTEN = re.compile(r"^[^\n]*\r(?!\n|$)", re.MULTILINE)
"""Matches the text that a progress bar wrote before it returned to the start of its line."""
_COLOURS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
_STYLES = {
    "bold": "bold",
    "dim": "faint",
    "reverse": "inverse",
    "italic": "italic",
    "strike": "struck",
    "underline": "underline",
}
"""Attribute of rich's `Style` -> name in the class, sorted by name."""


def plain(text: str) -> str:
    """Return what is read of `text` if it is terminal output; a text without control sequences as
    it is."""
    return _SEQUENCE.sub("", _written(text)) if "\x1b" in text else text


def ansi(text: str) -> SafeString:
    """Return `text` as HTML with spans of the classes `ansi-<style>`, `ansi-<colour>` and
    `ansi-on-<colour>`."""
    from rich.ansi import AnsiDecoder  # 25 CPU ms, which a server's start does not need

    decoder = AnsiDecoder()
    pieces = []
    for line in _keep_styles(_written(text)).split("\n"):
        is_plain = "\x1b" not in line and not decoder.style
        pieces.append(escape(line) if is_plain else _line(decoder.decode_line(line)))
    return mark_safe("\n".join(pieces))  # nosec B308 # each piece is escaped


def _written(text: str) -> str:
    """Return `text` without what later text of the same line has overwritten."""
    return _OVERWRITTEN.sub("", text.replace("\r\n", "\n"))


def _keep_styles(text: str) -> str:
    """Return `text` with hidden characters written out and no control sequences other than SGR."""
    pieces: list[str] = []
    start = 0
    for sequence in _SEQUENCE.finditer(text):
        pieces.append(visible(text[start : sequence.start()]))
        start = sequence.end()
        if sequence[1] is not None:
            pieces.append(f"\x1b[{sequence[1][:MAX_SGR_CHARACTERS].replace(':', ';')}m")
    return "".join([*pieces, visible(text[start:])])


def _line(line: Text) -> str:
    plain, end, pieces = line.plain, 0, []
    for span in line.spans:
        piece = escape(plain[span.start : span.end])
        classes = _classes(span.style)
        pieces.append(escape(plain[end : span.start]))
        pieces.append(f'<span class="{classes}">{piece}</span>' if classes else piece)
        end = span.end
    return "".join([*pieces, escape(plain[end:])])


@lru_cache(1000)
def _classes(style: Style | str) -> str:
    # rich names a style that it has not parsed; the decoder has none of these
    if isinstance(style, str):
        return ""
    names = [name for attribute, name in _STYLES.items() if getattr(style, attribute)]
    ink, ground = _colour(style.color), _colour(style.bgcolor)
    names += [ink] if ink else []
    names += [f"on-{ground}"] if ground else []
    return " ".join(f"ansi-{name}" for name in names)


def _colour(colour: Color | None) -> str:
    """Return the nearest of the eight colours; empty for the terminal's default.

    The nearest has the same parts strong: its hue, in a shade that is legible on light and dark
    pages, which the exact colour and rich's own choice of eight (pale colours become white) may not
    be.
    """
    if colour is None or colour.is_default:
        return ""
    if colour.number is not None and colour.number < 16:
        return _COLOURS[colour.number % 8]
    parts = colour.get_truecolor()
    strongest = max(parts)
    if strongest < 64:
        return "black"
    return _COLOURS[sum(1 << n for n, part in enumerate(parts) if part * 3 >= strongest * 2)]
