"""Middleware that shows the invisible characters of a page as marks, whichever template wrote them.

Names of runs, models, people and files come from clients. Links and the values of form controls keep the characters:
they are what is sent back.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from environments.display.visible import visible

_MARKUP = re.compile(r"<(?:(script|style|textarea)\b.*?</\1\s*>|[a-z/!][^>]*>)", re.DOTALL | re.IGNORECASE)
"""A tag, or an element whose content is no text of the page."""
_SPOKEN = re.compile(r'(?<=\s)(?:title|aria-label|alt)="[^"]*"')
"""Attributes that people read or hear."""


class VisiblePagesMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        is_page = response.headers.get("Content-Type", "").startswith("text/html")
        # the steps that a replay loads are compressed by then, and marked by their cards
        if is_page and not response.streaming and "Content-Encoding" not in response.headers:
            page = response.content.decode(response.charset)
            if (marked := visible_page(page)) != page:
                response.content = marked
        return response


def visible_page(page: str) -> str:
    """Return HTML with marks in its texts."""
    if visible(page) == page:  # nearly always, and a hundredth of the time of what follows
        return page
    pieces, end = [], 0
    for markup in _MARKUP.finditer(page):
        pieces.append(visible(page[end : markup.start()]))
        pieces.append(_SPOKEN.sub(lambda spoken: visible(spoken[0]), markup[0]))
        end = markup.end()
    return "".join([*pieces, visible(page[end:])])
