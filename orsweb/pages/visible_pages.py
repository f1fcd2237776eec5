"""Middleware that shows the invisible characters of a page as marks, whichever template wrote them.

Names of runs, models, people and files come from clients.
"""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from environments.display.visible import visible_html


class VisiblePagesMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        is_page = response.headers.get("Content-Type", "").startswith("text/html")
        if is_page and not response.streaming:
            page = response.content.decode(response.charset)
            if (visible_page := visible_html(page)) != page:
                response.content = visible_page
        return response
