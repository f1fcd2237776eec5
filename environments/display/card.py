"""Card: what an author wrote about an environment, as Markdown, and as HTML that a page may hold.

The card is `<module>.md` beside the class's module, else `README.md` in the same directory (never this server's own
README). Without either the class's docstring stands in. The author may be anyone: HTML in the text is shown as text,
links lead out without a referrer, and images from elsewhere become links, so that opening a page tells nobody.
"""

from __future__ import annotations

import sys
from pathlib import Path

from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.token import Token

MAX_BYTES = 200_000
_OWN_DIRECTORY = Path(__file__).resolve().parents[2]
_HEADINGS = {f"h{level}": f"h{min(6, level + 2)}" for level in range(1, 7)}
"""A page's own headings are h1 and h2."""


def card_of(cls: type) -> str:
    """The Markdown beside `cls`; empty where there is none."""
    file = getattr(sys.modules.get(cls.__module__), "__file__", None)
    if not file:
        return ""
    module = Path(file).resolve()
    own = module.with_suffix(".md") if module.stem != "__init__" else module.parent / f"{module.parent.name}.md"
    candidates = [own, module.parent / "README.md"] if module.parent != _OWN_DIRECTORY else [own]
    return next((text for path in candidates if (text := _read(path))), "")


def rendered(markdown: str, title: str = "") -> SafeString:
    """`markdown` as HTML without anything active and without anything that another host would serve.

    `title`: what the page is called; a heading of that name at the top is left out.
    """
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    tokens = parser.parse(markdown)
    if (
        title
        and len(tokens) > 2
        and tokens[0].type == "heading_open"
        and tokens[1].content.casefold() == title.casefold()
    ):
        tokens = tokens[3:]
    for token in tokens:
        token.tag = _HEADINGS.get(token.tag, token.tag)
        if token.children:
            token.children = [made for child in token.children for made in _harmless(child)]
    html: SafeString = mark_safe(parser.renderer.render(tokens, parser.options, {}))  # the parser escapes all text
    return html


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES).decode("utf-8", "replace").replace("\0", "").strip()
    except OSError:
        return ""


def _harmless(token: Token) -> list[Token]:
    """`token`, or what stands for it: a link into the author's files leads nowhere, an image elsewhere is a link."""
    if token.type == "link_open":
        return [_link(str(token.attrs.get("href", "")))]
    if token.type != "image" or str(token.attrs.get("src", "")).startswith("data:image/"):
        return [token]
    source = str(token.attrs.get("src", ""))
    return [_link(source), Token("text", "", 0, content=token.content or source), Token("link_close", "a", -1)]


def _link(target: str) -> Token:
    link = Token("link_open", "a", 1)
    if target.startswith(("https://", "http://", "mailto:")):
        link.attrs = {"href": target, "rel": "noopener noreferrer nofollow"}
    return link
