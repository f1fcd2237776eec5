"""Asking: what addresses of several pages have in common: a definition of the return, a number."""

from __future__ import annotations

from django.http import HttpRequest

from environments.models import Environment
from episodes.analytics.definition import RETURNS, Definition, definition_of
from episodes.words import BadFilter

BIGGEST = 2**63 - 1


def definition_asked(request: HttpRequest, environment: Environment) -> Definition:
    """The environment's, unless `return` or `threshold` say otherwise. Raises: BadFilter."""
    asked, text = request.GET.get("return", ""), request.GET.get("threshold", "")
    chosen = next((one for one in RETURNS if one == asked), None)
    if asked and chosen is None:
        raise BadFilter("return", asked, f"use {', '.join(RETURNS)}, or leave it out")
    try:
        threshold = float(text) if text else None
    except ValueError:
        threshold = float("nan")
    if threshold is not None and not abs(threshold) < float("inf"):
        raise BadFilter("threshold", text, "give the number that a success has to exceed, such as 0.9")
    return definition_of(environment, chosen, threshold)


def whole_asked(request: HttpRequest, name: str) -> int | None:
    """None: not given. Raises: BadFilter."""
    text = request.GET.get(name, "").strip()
    if not text:
        return None
    if not text.removeprefix("-").isdecimal() or len(text) > 19 or abs(int(text)) > BIGGEST:
        raise BadFilter(name, text, "give a whole number")
    return int(text)
