"""Faults: answers of pages that cannot show what was asked for, in the frame, with what to do next."""

from __future__ import annotations

from collections.abc import Sequence

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.functional import Promise

Link = tuple[str, str]
"""Address and label."""


def refused(
    request: HttpRequest, title: str, sentence: str | Promise, links: Sequence[Link] = (), status: int = 400
) -> HttpResponse:
    """A page that says what is wrong with the request (`sentence` names the value and what is legal)."""
    context = {"title": title, "sentence": sentence, "links": links, "status": status}
    return render(request, "orsweb/fault.html", context, status=status)
