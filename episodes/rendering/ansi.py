"""Terminal output as HTML: colours and weights of SGR sequences as classes; every other sequence has no effect.

Source: ECMA-48 8.3.117 (SGR), 5.4 (CSI); xterm's control sequences (OSC, 256 and direct colours).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from episodes.rendering.visible import visible

_SEQUENCE = re.compile(
    r"\x1b\[([0-9;:]*)m"  # SGR, the one that is followed
    r"|\x1b\[[0-?]*[ -/]*[@-~]"  # any other control sequence: cursor, erasing, modes
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"  # strings for the terminal: titles, links
    r"|\x1b[ -/]*[0-Z\\^_`a-~]"  # two-character sequences
)
_COLOURS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
_STYLES = {1: "bold", 2: "faint", 3: "italic", 4: "underline", 7: "inverse", 9: "struck"}
_ENDS = {22: ("bold", "faint"), 23: ("italic",), 24: ("underline",), 27: ("inverse",), 29: ("struck",)}
_OVERWRITTEN = re.compile(r"^[^\n]*\r(?!\n|$)", re.MULTILINE)
"""What a progress bar wrote before it went back to the beginning of its line."""


@dataclass(frozen=True, slots=True)
class _Look:
    ink: str = ""
    ground: str = ""
    styles: frozenset[str] = frozenset()

    @property
    def classes(self) -> str:
        names = [f"ansi-{name}" for name in sorted(self.styles)]
        return " ".join(
            [*names, *([f"ansi-{self.ink}"] if self.ink else []), *([f"ansi-on-{self.ground}"] if self.ground else [])]
        )


def ansi(text: str) -> SafeString:
    pieces = _pieces(_OVERWRITTEN.sub("", text.replace("\r\n", "\n")))
    return format_html_join("", "{}", ((_span(piece, look),) for piece, look in pieces if piece))


def _span(piece: str, look: _Look) -> SafeString | str:
    shown = visible(piece)
    return format_html('<span class="{}">{}</span>', look.classes, shown) if look.classes else shown


def _pieces(text: str) -> Iterator[tuple[str, _Look]]:
    """Pieces of text between sequences, each with the look it has there."""
    look, start = _Look(), 0
    for sequence in _SEQUENCE.finditer(text):
        yield text[start : sequence.start()], look
        start = sequence.end()
        if sequence[1] is not None:
            look = _after(look, [int(code or 0) for code in re.split("[;:]", sequence[1][:200])])
    yield text[start:], look


def _after(look: _Look, codes: list[int]) -> _Look:
    while codes:
        code = codes.pop(0)
        if code == 0:
            look = _Look()
        elif code in _STYLES:
            look = replace(look, styles=look.styles | {_STYLES[code]})
        elif code in _ENDS:
            look = replace(look, styles=look.styles - set(_ENDS[code]))
        elif code in (38, 48):
            colour = _extended(codes)
            look = replace(look, ink=colour) if code == 38 else replace(look, ground=colour)
        else:
            look = _coloured(look, code)
    return look


def _coloured(look: _Look, code: int) -> _Look:
    kind, number = divmod(code, 10)
    if number == 9 and kind in (3, 4):
        return replace(look, ink="") if kind == 3 else replace(look, ground="")
    if number < 8 and kind in (3, 9):
        return replace(look, ink=_COLOURS[number])
    if number < 8 and kind in (4, 10):
        return replace(look, ground=_COLOURS[number])
    return look


def _extended(codes: list[int]) -> str:
    """The nearest of the eight for `5;n` (256 colours) or `2;r;g;b`, which are taken off `codes`; empty: malformed."""
    kind = codes.pop(0) if codes else 0
    if kind == 5 and codes:
        number = codes.pop(0)
        return _COLOURS[number % 8] if number < 16 else _nearest(*_of_cube(number))
    if kind == 2 and len(codes) >= 3:
        red, green, blue = codes[:3]
        del codes[:3]
        return _nearest(red, green, blue)
    return ""


def _of_cube(number: int) -> tuple[int, int, int]:
    if number >= 232:
        grey = 8 + 10 * (min(number, 255) - 232)
        return grey, grey, grey
    number -= 16
    return number // 36 * 51, number // 6 % 6 * 51, number % 6 * 51


def _nearest(red: int, green: int, blue: int) -> str:
    """By which of the three are strong: legible in light and dark, which the exact colour may not be."""
    strongest = max(red, green, blue)
    if strongest < 64:
        return "black"
    bits = sum(1 << n for n, part in enumerate((red, green, blue)) if part * 3 >= strongest * 2)
    return _COLOURS[bits]
