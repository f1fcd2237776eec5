"""Which kind suits a text, and that no kind lets anything through."""

from __future__ import annotations

import re
import time

import pytest
from django.utils.html import escape

from episodes.rendering.kinds import KINDS, MAX_PARSED, Kind, kind_of, rendered
from tests.rows import each

HOSTILE = (
    "<script>alert(1)</script>",
    "</pre></div><img src=x onerror=alert(1)>",
    '<a href="javascript:alert(1)">x</a>',
    "[x](javascript:alert(1)) [y](vbscript:a) [z](data:text/html,<script>1</script>) "
    "<javascript:alert(1)>",
    "![x](https://evil.example/pixel.png) ![y](javascript:alert(1)) "
    "![z](data:text/html;base64,PHNjcmlwdD4=)",
    "```html\n<script>alert(1)</script>\n```\n\n    <script>indented</script>",
    "$\\text{<script>alert(1)</script>}$ $\\href{javascript:alert(1)}{x}$ "
    "$\\style{background:url(//evil.example)}{x}$",
    "\\[ \\text{<img src=x onerror=alert(1)>} \\] $$\\class{x}{y} \\unicode{<}$$",
    "\x1b[31m<script>alert(1)</script>\x1b[0m \x1b]8;;javascript:alert(1)\x07x\x1b]8;;\x07",
    '[a]: <https://evil.example/?"onmouseover=\'alert(1)\'> "title"\n\n[a]',
    '{"<script>": "</script><img src=x onerror=alert(1)>"}',
    "&lt;script&gt; &#60;script&#62; \ud800 \x00",
)
TAGS = re.compile(r"<(/?[a-zA-Z][^\s/>]*)([^>]*)>")
PROSE = {
    *(
        "p",
        "a",
        "em",
        "strong",
        "code",
        "pre",
        "ul",
        "ol",
        "li",
        "blockquote",
        "hr",
        "br",
        "s",
        "span",
    )
}
PROSE |= {*("h1", "h2", "h3", "h4", "h5", "h6", "table", "thead", "tbody", "tr", "th", "td")}
MATH = {
    *(
        "math",
        "mrow",
        "mi",
        "mn",
        "mo",
        "mtext",
        "mstyle",
        "msup",
        "msub",
        "mfrac",
        "mspace",
        "msqrt",
    )
}


@each("kind", KINDS)
@each("text", HOSTILE)
def test_no_kind_makes_markup_of_what_was_said(kind: Kind, text: str) -> None:
    html = rendered(text, kind)
    tags = TAGS.findall(html)
    assert {name.strip("/").lower() for name, _ in tags} <= PROSE | MATH
    assert not [
        attributes
        for _, attributes in tags
        if re.search(r"\b(?:on\w+|style|src|srcdoc)\s*=", attributes)
    ]
    assert not [
        attributes
        for _, attributes in tags
        if re.search(r'href="\s*(?!https?:)', attributes, re.IGNORECASE)
    ]


@each(
    ("text", "kind"),
    [
        ("All is well.", "text"),
        ("costs $5 or $6", "text"),
        ("a * b * c, under_score_d", "text"),
        ("\x1b[31mred", "ansi"),
        ('{"a": [1]}', "code"),
        ("Traceback (most recent call last):\n  File", "code"),
        ("--- a/x\n+++ b/x\n@@ -1 +1 @@", "code"),
        ("# Title\n\nSome **bold** words", "markdown"),
        ("see\n```\ncode\n```", "markdown"),
        ("| a | b |\n|---|---|\n| 1 | 2 |", "markdown"),
        ("the area is $\\pi r^2$", "latex"),
        ("Write a function:\n\n```python\nimport os\ndef f(x):\n    ...\n```", "markdown"),
        ("| a | b |\n|---|---|\n| 1 | 2 |\n\nimport os", "markdown"),
        ('import os\n\n\ndef f():\n    ...\n\n\nDOC = """\n```\nf()\n```\n"""', "code"),
        ('"""How to call it.\n\n```\nf()\n```\n"""\n\nimport os', "code"),
        ("# The title\ndef f():\n    return `x` # **no**", "code"),
        ("--- a/README.md\n+++ b/README.md\n@@ -1 +1 @@\n```\n+x\n```", "code"),
        ("", "text"),
        ("You are here:\n\n#########\n#..@...E#\n#########", "code"),
        ("X . O\n. X .\nO . X", "code"),
        ("one two\nsix ten\ntwo six", "text"),
    ],
)
def test_it_knows_what_suits_a_text(text: str, kind: Kind) -> None:
    assert kind_of(text) == kind


@each(
    ("text", "kind"),
    [
        ("`total_10` adds the discount (`ledgers/total.py`). Mend it.", "markdown"),
        ("All is well.", "text"),
        ("Call `move`:\n\n#########\n#..@...E#\n#########", "code"),
    ],
)
def test_a_prompt_with_a_sign_of_markdown_is_markdown(text: str, kind: Kind) -> None:
    assert kind_of(text, is_prompt=True) == kind


def test_formulas_are_drawn_in_markdown_and_alone() -> None:
    assert "<mfrac>" in rendered("# A\n\n**b** \\(\\frac12\\)", "markdown")
    assert rendered("\\frac{a}{b}", "latex").startswith('<math display="block">')


def test_money_is_no_formula() -> None:
    assert "<math" not in rendered("from $5 to $10, or 5$", "latex")


def test_a_formula_that_is_none_stays_readable() -> None:
    assert '<code class="formula">\\frac{</code>' in rendered("so $\\frac{$ it is", "latex")


@pytest.mark.parametrize(
    "source", ["\\text{<b>x</b>}", "\\text{</mtext></math><p>x}", "\\text{<!-- x -->}"]
)
def test_a_formula_with_markup_in_it_is_shown_as_its_source(source: str) -> None:
    assert rendered(f"${source}$", "latex") == f'<code class="formula">{escape(source)}</code>'


def test_a_formula_with_an_ampersand_in_words_is_drawn() -> None:
    assert "<mtext>a&nbsp;&amp;&nbsp;b</mtext>" in rendered("$\\text{a & b}$", "latex")


def test_a_link_without_a_host_leads_nowhere() -> None:
    assert (
        rendered("[x](/admin/logout)", "markdown")
        == '<p><a rel="noopener noreferrer nofollow">x</a></p>\n'
    )


def test_a_table_is_aligned_by_classes() -> None:
    shown = rendered("| a | b | c | d |\n|--:|:-:|:--|---|\n| 1 | 2 | 3 | 4 |", "markdown")
    assert '<th class="right">a</th>\n<th class="center">b</th>\n<th>c</th>\n<th>d</th>' in shown
    assert '<td class="right">1</td>\n<td class="center">2</td>\n<td>3</td>\n<td>4</td>' in shown


def test_json_is_laid_out_with_numbers_as_they_were_written() -> None:
    lines = re.sub("<[^>]+>", "", rendered('{"b":1e20,"a":[-0.0,"\\u00e9"],"c":{}}', "code"))
    assert lines == '{\n  "b": 1e20,\n  "a": [\n    -0.0,\n    "é"\n  ],\n  "c": {}\n}'


def test_raw_shows_every_character_by_its_escape() -> None:
    assert rendered("a\n\u202e\x1b", "raw") == "a\\n\\u202e\\u001b"


@each("text", ["x" * 200_000, "[" * 100_000, "<" * 50_000, "{" * 50_000, "$(" * 20_000])
def test_a_huge_line_is_shown(text: str) -> None:
    assert len(rendered(text, kind_of(text))) >= len(text)


@pytest.mark.parametrize("kind", ["markdown", "latex"])
def test_what_would_take_too_long_to_parse_is_shown_as_it_is(kind: Kind) -> None:
    text = "[" * (MAX_PARSED + 1)
    assert rendered(text, kind) == text


# --- time -----------------------------------------------------------------------------------------

PIECES = (
    *("\\(", "\\[", "\\\\(", "$", "$$", "$a", "$(((", "\\a$"),
    *(
        "[",
        "![",
        "[a](",
        "[a]: ",
        "*a ",
        "`a",
        "<",
        "|",
        "| |\n",
        "> ",
        "- a\n",
        "\x1b[",
        "\x1b]",
        "\r",
    ),
)
"""What texts are made of that take a long time where each piece is looked for the end of."""
ORDINARY: dict[Kind, str] = {
    "markdown": "# Title\n\nSome **bold** words, a [link](https://x.example) and `code`.\n\n* "
    "one\n* two\n\n| a | b |\n"
    "|---|---|\n| 1 | 2 |\n\n",
    "latex": "The area of a circle is $\\pi r^2$, and its circumference \\(2 \\pi r\\), as "
    "everybody knows.\n",
    "code": "def double(number: int) -> int:\n    return 2 * number  # not more\n\n\n",
    "ansi": "\x1b[32mok\x1b[0m the test has passed in 0.1 s\n",
}
MAX_TIMES = 20
MIN_SECONDS = 0.005
"""Less is no reason for a failure: it takes 2 µs to write out a control character."""


@each("kind", KINDS)
def test_no_text_takes_much_longer_than_an_ordinary_one_of_its_length(kind: Kind) -> None:
    ordinary = min(seconds_for(ORDINARY.get(kind, "Some words.\n"), kind) for _ in range(3))
    taken = {piece: min(seconds_for(piece, kind), seconds_for(piece, kind)) for piece in PIECES}
    assert {
        piece: seconds
        for piece, seconds in taken.items()
        if seconds > MAX_TIMES * max(ordinary, MIN_SECONDS)
    } == {}


def seconds_for(piece: str, kind: Kind) -> float:
    """Return the CPU time in which the longest text of `piece` that is parsed gets its kind and is
    rendered."""
    text = (piece * MAX_PARSED)[:MAX_PARSED]
    began = time.process_time()
    kind_of(text)
    rendered(text, kind)
    return time.process_time() - began


def test_a_line_break_within_a_formula_is_no_formula() -> None:
    assert "<mtable" in rendered("\\[ \\begin{matrix} a \\\\[2pt] b \\end{matrix} \\]", "latex")
