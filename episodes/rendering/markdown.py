"""Markdown as HTML: CommonMark with tables, formulas and highlighted code. HTML in the text is
shown as text.

An image is shown as a link to its address, because a picture from another host would tell that host
who reads the page.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from django.utils.html import escape, format_html
from django.utils.safestring import SafeString
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from environments.display.sanitizer import cell_attributes, clean_prose
from environments.display.visible import visible
from episodes.rendering.code import code
from episodes.rendering.formulas import formula, formula_at, source_of

MAX_NESTED = 20


def markdown(text: str) -> SafeString:
    """Return `text` as HTML that is safe to show."""
    return clean_prose(_parser().render(visible(text)))


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "linkify": False, "maxNesting": MAX_NESTED})
    parser.enable(["table", "strikethrough"])
    parser.inline.ruler.before("escape", "formula", _parse_formula)
    for name, rule in (
        ("fence", _render_code),
        ("code_block", _render_code),
        ("image", _render_image),
        ("formula", _render_formula),
        ("th_open", _render_cell),
        ("td_open", _render_cell),
        ("heading_open", _render_heading),
        ("heading_close", _render_heading),
    ):
        parser.add_render_rule(name, rule)
    return parser


def _parse_formula(state: StateInline, silent: bool) -> bool:
    if state.src[state.pos] not in "$\\" or not (match := formula_at(state.src, state.pos)):
        return False
    if not silent:
        token = state.push("formula", "math", 0)
        token.content, is_display = source_of(match)
        token.block = is_display
    state.pos = match.end()
    return True


def _render_formula(
    self: RendererHTML, tokens: Sequence[Token], index: int, options: Any, env: Any
) -> str:
    number = env["formulas"] = env.get("formulas", -1) + 1
    return formula(tokens[index].content, number, is_display=tokens[index].block)


def _render_heading(
    self: RendererHTML, tokens: Sequence[Token], index: int, options: Any, env: Any
) -> str:
    """Render a heading three levels lower, because h1 to h3 are the page's own headings."""
    tokens[index].tag = f"h{min(6, int(tokens[index].tag[1]) + 3)}"
    return self.renderToken(tokens, index, options, env)


def _render_cell(
    self: RendererHTML, tokens: Sequence[Token], index: int, options: Any, env: Any
) -> str:
    tokens[index].attrs = cell_attributes(tokens[index].attrs)
    return self.renderToken(tokens, index, options, env)


def _render_code(
    self: RendererHTML, tokens: Sequence[Token], index: int, options: Any, env: Any
) -> str:
    token = tokens[index]
    language = token.info.split(maxsplit=1)[0] if token.info.strip() else ""
    return format_html(
        '<pre class="code"><code>{}</code></pre>\n', code(token.content.rstrip("\n"), language)
    )


def _render_image(
    self: RendererHTML, tokens: Sequence[Token], index: int, options: Any, env: Any
) -> str:
    address = str(tokens[index].attrs.get("src", ""))
    label = tokens[index].content or "image"
    if address.startswith("data:"):
        return escape(f"[{label}]")
    return format_html('<a href="{}">[{}]</a>', address, label)
