"""Removes from rendered HTML what a page must not hold, with nh3: of cards, Markdown and formulas.

The texts are written by authors and agents, so nothing that a renderer returns is trusted: only the
elements and attributes listed here are left. A link says nothing about the page that it is on
(`rel`), and has an address only if that leads to another host or to a mailbox: a path would lead
into this server's own pages.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import nh3
from django.utils.safestring import SafeString, mark_safe

LINK_REL = "noopener noreferrer nofollow"
_SCHEMES = {"http", "https", "mailto"}
_IGNORED = re.compile(r"^[\0-\x20]+|[\t\n\r]")
"""What browsers leave out of an address before they read its scheme. Source: URL Standard, 4.4
(basic URL parser)."""
_PROSE = frozenset(
    (
        "p", "a", "em", "strong", "s", "code", "pre", "span", "ul", "ol", "li", "blockquote", "hr", "br",
        "h1", "h2", "h3", "h4", "h5", "h6", "table", "thead", "tbody", "tr", "th", "td",
    )
)  # fmt: skip
_PROSE_ATTRIBUTES = {
    "a": {"href", "title"},
    "ol": {"start"},
    "pre": {"class"},
    "code": {"class"},
    "span": {"class"},
}
_CELL_CLASSES = {"th": {"right", "center"}, "td": {"right", "center"}}
_MATH = frozenset(
    (
        "math", "mrow", "mi", "mn", "mo", "ms", "mtext", "mspace", "mfrac", "msqrt", "mroot", "msub", "msup", "msubsup",
        "munder", "mover", "munderover", "mtable", "mtr", "mtd", "mstyle", "mpadded", "mphantom", "menclose",
        "mmultiscripts", "mprescripts", "none", "merror",
    )
)  # fmt: skip
_MATH_ATTRIBUTES = frozenset(
    (
        "display", "displaystyle", "scriptlevel", "mathvariant", "stretchy", "fence", "separator", "form", "lspace",
        "rspace", "largeop", "movablelimits", "accent", "accentunder", "linethickness", "columnalign", "rowspacing",
        "columnspacing", "width", "height", "depth", "minsize", "maxsize", "symmetric", "notation",
    )
)  # fmt: skip


def _allowed_address(element: str, attribute: str, value: str) -> str | None:
    """Return `value` unless it is an image from elsewhere or a link to data, however its scheme is
    written."""
    is_data = _IGNORED.sub("", value)[:5].lower() == "data:"
    is_refused = (attribute == "src" and not is_data) or (attribute == "href" and is_data)
    return None if is_refused else value


_prose = nh3.Cleaner(
    tags={*_PROSE, *_MATH},
    attributes={**_PROSE_ATTRIBUTES, **{name: set(_MATH_ATTRIBUTES) for name in _MATH}},
    allowed_classes=_CELL_CLASSES,
    link_rel=LINK_REL,
    url_schemes=_SCHEMES,
    url_relative="deny",
)
_prose_with_pictures = nh3.Cleaner(
    tags={*_PROSE, "img"},
    attributes={**_PROSE_ATTRIBUTES, "img": {"src", "alt", "title"}},
    allowed_classes=_CELL_CLASSES,
    attribute_filter=_allowed_address,
    link_rel=LINK_REL,
    url_schemes={*_SCHEMES, "data"},
    url_relative="deny",
)
_math = nh3.Cleaner(
    tags=set(_MATH), attributes={"*": set(_MATH_ATTRIBUTES)}, link_rel=None, url_schemes=set()
)


def cell_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of a cell that a Markdown table aligns: a class, because pages allow no
    `style`."""
    side = str(attributes.get("style", "")).removeprefix("text-align:")
    return {"class": side} if side in ("right", "center") else {}


def clean_prose(html: str) -> SafeString:
    """Return `html` with the elements of Markdown and of formulas only; images are removed."""
    return mark_safe(_prose.clean(html))  # nosec B308 # cleaned by nh3


def clean_prose_with_pictures(html: str) -> SafeString:
    """Return `html` with the elements of Markdown only, and with images whose data is in the
    text."""
    return mark_safe(_prose_with_pictures.clean(html))  # nosec B308 # cleaned by nh3


def clean_math(mathml: str) -> SafeString:
    """Return `mathml` with the elements of a formula only.

    Raises: ValueError when an element had to be removed, because a formula without it would say
    something else.
    """
    markup = _math.clean(mathml)
    if _count_elements(markup) != _count_elements(mathml):
        raise ValueError("the markup holds more than a formula")
    return mark_safe(markup)  # nosec B308 # cleaned by nh3


def _count_elements(markup: str) -> int:
    return markup.count("<") - markup.count("</")
