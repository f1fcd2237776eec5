"""The description that an author wrote about an environment ("card"), as Markdown and as HTML for a page.

The card is `<module>.md` next to the module of the environment's class, otherwise `README.md` in the same directory
(but never this server's own README). Pages show the class's docstring when there is neither. Anyone may be the author:
HTML in the text is shown as text, links do not send a referrer, and images from elsewhere become links, so that opening
a page tells no other host about it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from django.utils.safestring import SafeString
from markdown_it import MarkdownIt
from markdown_it.token import Token

from environments.display.sanitizer import cell_attributes, clean_prose_with_pictures

MAX_BYTES = 200_000
_OWN_DIRECTORY = Path(__file__).resolve().parents[2]
_HEADINGS = {f"h{level}": f"h{min(6, level + 2)}" for level in range(1, 7)}
"""Element of a heading on the page by that in the card; two levels lower, because h1 and h2 are the page's own."""


def card_of(cls: type) -> str:
    """Return the Markdown file that belongs to `cls`, or an empty text when there is none."""
    file = getattr(sys.modules.get(cls.__module__), "__file__", None)
    if not file:
        return ""
    module = Path(file).resolve()
    own = module.with_suffix(".md") if module.stem != "__init__" else module.parent / f"{module.parent.name}.md"
    candidates = [own, module.parent / "README.md"] if module.parent != _OWN_DIRECTORY else [own]
    return next((text for path in candidates if (text := _read(path))), "")


def rendered(markdown: str, title: str = "") -> SafeString:
    """Return `markdown` as HTML without active content and without anything that is loaded from another host.

    `title` is the heading of the page; a first heading with the same text is left out.
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
        if token.type in ("th_open", "td_open"):
            token.attrs = cell_attributes(token.attrs)
        if token.children:
            token.children = [made for child in token.children for made in _without_remote_image(child)]
    return clean_prose_with_pictures(parser.renderer.render(tokens, parser.options, {}))


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES).decode("utf-8", "replace").replace("\0", "").strip()
    except OSError:
        return ""


def _without_remote_image(token: Token) -> list[Token]:
    """Return `token` alone, or a link to the image if the image's data is not in the text."""
    source = str(token.attrs.get("src", ""))
    if token.type != "image" or source.startswith("data:image/"):
        return [token]
    link = Token("link_open", "a", 1, attrs={"href": source})
    return [link, Token("text", "", 0, content=token.content or source), Token("link_close", "a", -1)]
