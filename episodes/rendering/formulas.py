"""LaTeX formulas within a text, as MathML, which browsers draw without a script.

The converter's output is sanitised: it leaves markup within `\\text{…}` as markup, and turns `\\href` and `\\style`
into attributes. Only elements and attributes of a formula are kept (`environments/display/sanitizer.py`).
"""

from __future__ import annotations

import contextlib
import re

from django.utils.html import escape, format_html, format_html_join
from django.utils.safestring import SafeString
from latex2mathml.converter import convert

from environments.display.sanitizer import clean_math
from environments.display.visible import visible

MAX_CHARACTERS = 1_000
"""Length of one formula; a longer one is shown as it was written."""
MAX_FORMULAS = 60
"""Formulas of one text that are drawn; the others are shown as they were written."""
_FORMULA = re.compile(
    r"\$\$(?P<d1>[^$]{1,1000}?)\$\$"
    # No second opening delimiter within, or the search would go on for 1,000 characters from each;
    # `\\\\[2pt]` is none.
    r"|(?<!\\)\\\[(?P<d2>(?:\\\\|(?!\\\[).){1,1000}?)\\\]"
    r"|(?<!\\)\\\((?P<i1>(?:\\\\|(?!\\\().){1,1000}?)\\\)"
    # a dollar means money where a space or a word is on its wrong side
    r"|(?<![\w$\\])\$(?!\d[\d.,]*\s[^$\\^_=]*\$)(?P<i2>[^\s$](?:[^$\n]{0,1000}[^\s$\\])?)\$(?![\w$])",
    re.DOTALL,
)
_COMMAND = re.compile(r"\\[a-zA-Z]|[\^_]")


def latex(text: str) -> SafeString:
    """Return `text` with its formulas, which are between `$`, `$$`, `\\(` or `\\[`, as MathML.

    A text without these delimiters is one formula if it has a command, a superscript or a subscript.
    """
    matches = list(_FORMULA.finditer(text))
    if not matches and _COMMAND.search(text):
        return formula(text.strip(), is_display=True)
    pieces, start = list[SafeString](), 0
    for number, match in enumerate(matches):
        source, is_display = source_of(match)
        pieces.append(escape(visible(text[start : match.start()])))
        pieces.append(formula(source, number, is_display=is_display))
        start = match.end()
    return format_html_join(
        "", "{}", ((piece,) for piece in [*pieces, escape(visible(text[start:]))])
    )


def formula(source: str, number: int = 0, *, is_display: bool) -> SafeString:
    """Return one formula as MathML, or its source as code if it cannot be drawn.

    `number`: how many formulas of the text come before it.
    """
    if number < MAX_FORMULAS and len(source) <= MAX_CHARACTERS:
        display = "block" if is_display else "inline"
        # A third-party parser on untrusted text raises its own exceptions, IndexError, KeyError,
        # RecursionError …; the formula is then shown as it was written.
        with contextlib.suppress(Exception):
            # None if the output holds more than a formula
            if math := clean_math(convert(visible(source), display=display)):
                return math
    return format_html('<code class="formula">{}</code>', visible(source))


def formula_at(text: str, position: int) -> re.Match[str] | None:
    """Return the match of a formula that begins at `position`, for parsers that scan the text
    themselves."""
    return _FORMULA.match(text, position)


def source_of(match: re.Match[str]) -> tuple[str, bool]:
    """Return the LaTeX between the delimiters, and whether the formula is displayed on lines of its
    own."""
    name = match.lastgroup or ""
    return match[name].strip(), name.startswith("d")
