"""The description that an author wrote about an environment ("card"), as HTML for a page.

`environments/authoring/declarations.py` finds the card of a class; pages show the class's docstring
when there is none. Anyone may be the author: HTML in the text is shown as text, links do not send a
referrer, and images from elsewhere become links, so that opening a page tells no other host about
it.
"""

from __future__ import annotations

from functools import lru_cache

from django.utils.safestring import SafeString
from markdown_it import MarkdownIt
from markdown_it.token import Token

from environments.display.sanitizer import cell_attributes, clean_prose_with_pictures

_HEADINGS = {f"h{level}": f"h{min(6, level + 2)}" for level in range(1, 7)}
"""Element of a heading on the page by that in the card; two levels lower, because h1 and h2 are the
page's own."""


def rendered(markdown: str, title: str = "") -> SafeString:
    """Return `markdown` as HTML without active content and without anything that is loaded from
    another host.

    `title` is the heading of the page; a first heading with the same text is left out.
    """
    parser = _parser()
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
            token.children = [
                part for child in token.children for part in _without_remote_image(child)
            ]
    return clean_prose_with_pictures(parser.renderer.render(tokens, parser.options, {}))


@lru_cache(maxsize=256)
def plain(markdown: str) -> str:
    """Return the words of the first paragraph of `markdown` in one line, without its marks, as
    lists show them; of the first heading if there is nothing else."""
    heading, before = "", ""
    for token in _parser().parse(markdown):
        words = token.content
        if token.children is not None:  # no block of code
            words = "".join(
                " " if child.type.endswith("break") else child.content for child in token.children
            )
        if words and before != "heading_open":
            return " ".join(words.split())
        heading, before = heading or words, token.type
    return " ".join(heading.split())


def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


def _without_remote_image(token: Token) -> list[Token]:
    """Return `token` alone, or a link to the image if the image's data is not in the text."""
    source = str(token.attrs.get("src", ""))
    if token.type != "image" or source.startswith("data:image/"):
        return [token]
    link = Token("link_open", "a", 1, attrs={"href": source})
    return [
        link,
        Token("text", "", 0, content=token.content or source),
        Token("link_close", "a", -1),
    ]
