"""LaTeX formulas within a text, as MathML, which browsers draw by themselves.

What the converter writes is not taken as it is: it leaves markup within `\\text{…}` as markup, and turns `\\href` and
`\\style` into attributes. It is read again, and only elements and attributes of a formula are written out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from django.utils.html import escape, format_html, format_html_join
from django.utils.safestring import SafeString
from latex2mathml.converter import convert

from environments.display.sanitizer import clean_math
from episodes.rendering.visible import visible

LONGEST = 1_000
"""Characters of one formula; a longer one is shown as it was written."""
MAX_FORMULAS = 60
"""Formulas of one text that are drawn."""
_FORMULA = re.compile(
    r"\$\$(?P<d1>[^$]{1,1000}?)\$\$|\\\[(?P<d2>.{1,1000}?)\\\]|\\\((?P<i1>.{1,1000}?)\\\)"
    # a dollar is a sum of money where a blank or a word is on its wrong side
    r"|(?<![\w$\\])\$(?!\d[\d.,]*\s[^$\\^_=]*\$)(?P<i2>[^\s$](?:[^$\n]{0,1000}[^\s$\\])?)\$(?![\w$])",
    re.DOTALL,
)
_COMMAND = re.compile(r"\\[a-zA-Z]|[\^_]")


def latex(text: str) -> SafeString:
    """`text` with the formulas between `$`, `$$`, `\\(` or `\\[` drawn. A text that has none is a formula when it has a
    command, a power or an index."""
    pieces = list(_pieces(text))
    if len(pieces) == 1 and _COMMAND.search(text):
        return formula(text.strip(), is_display=True)
    return format_html_join("", "{}", ((_drawn(*piece, n // 2 < MAX_FORMULAS),) for n, piece in enumerate(pieces)))


def formula(source: str, *, is_display: bool) -> SafeString:
    """One formula; where it cannot be drawn, its source as code."""
    if len(source) <= LONGEST and (drawn := _math(source, is_display=is_display)):
        return drawn
    return format_html('<code class="formula">{}</code>', visible(source))


def formula_at(text: str, place: int) -> re.Match[str] | None:
    """A formula that begins at `place`, for those who read texts themselves."""
    return _FORMULA.match(text, place)


def source_of(found: re.Match[str]) -> tuple[str, bool]:
    """What it says, and whether it stands on lines of its own."""
    name = found.lastgroup or ""
    return found[name].strip(), name.startswith("d")


def _pieces(text: str) -> Iterator[tuple[str, str, bool]]:
    """Text, formula (may be empty) and whether it is displayed, by turns."""
    start = 0
    for found in _FORMULA.finditer(text):
        yield text[start : found.start()], *source_of(found)
        start = found.end()
    yield text[start:], "", False


def _drawn(before: str, source: str, is_display: bool, is_drawn: bool) -> SafeString:
    if not source:
        return escape(visible(before))
    drawn = formula(source, is_display=is_display) if is_drawn else format_html("<code>{}</code>", visible(source))
    return format_html("{}{}", visible(before), drawn)


def _math(source: str, *, is_display: bool) -> SafeString | None:
    """Return `source` as MathML, or None where the converter fails or its output holds more than a formula."""
    try:
        return clean_math(convert(visible(source), display="block" if is_display else "inline"))
    # a third-party parser on untrusted text: it raises its own exceptions, IndexError, KeyError, RecursionError and more
    except Exception:
        return None
