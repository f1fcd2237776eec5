"""Markdown as HTML: CommonMark with tables, formulas and marked code. HTML in it is text; nothing is loaded.

An image is shown as a link to where it lies, for a picture of another host would tell that host who reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from episodes.rendering.code import code
from episodes.rendering.formulas import formula, formula_at, source_of
from episodes.rendering.visible import visible

MAX_NESTED = 20


def markdown(text: str) -> SafeString:
    # markdown-it escapes what it is given with html off; what is added below is escaped here
    markup: str = _parser().render(visible(text))
    return mark_safe(markup)


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "linkify": False, "maxNesting": MAX_NESTED})
    parser.enable(["table", "strikethrough"])
    parser.inline.ruler.before("escape", "formula", _read_formula)
    for name, rule in (
        ("fence", _fence),
        ("code_block", _fence),
        ("image", _image),
        ("link_open", _link),
        ("formula", _formula),
        ("heading_open", _heading),
        ("heading_close", _heading),
    ):
        parser.add_render_rule(name, rule)
    return parser


def _heading(self: RendererHTML, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:
    """Three levels down: above are the page's own."""
    tokens[place].tag = f"h{min(6, int(tokens[place].tag[1]) + 3)}"
    return self.renderToken(tokens, place, options, env)


def _read_formula(state: StateInline, silent: bool) -> bool:
    if state.src[state.pos] not in "$\\" or (found := formula_at(state.src, state.pos)) is None:
        return False
    if not silent:
        token = state.push("formula", "math", 0)
        token.content, is_display = source_of(found)
        token.block = is_display
    state.pos = found.end()
    return True


def _formula(self: RendererHTML, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:
    return formula(tokens[place].content, is_display=tokens[place].block)


def _fence(self: RendererHTML, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:
    token = tokens[place]
    language = token.info.split(maxsplit=1)[0] if token.info.strip() else ""
    return format_html('<pre class="code"><code>{}</code></pre>\n', code(token.content.rstrip("\n"), language))


def _image(self: RendererHTML, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:
    address = str(tokens[place].attrs.get("src", ""))
    words = tokens[place].content or "image"
    if address.startswith("data:"):
        return escape(f"[{words}]")
    return format_html('<a rel="noopener noreferrer nofollow" href="{}">[{}]</a>', address, words)


def _link(self: RendererHTML, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:
    tokens[place].attrSet("rel", "noopener noreferrer nofollow")
    return self.renderToken(tokens, place, options, env)
