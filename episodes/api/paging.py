"""Paging: `limit` and `after` of the address, and the links to the pages beside one."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request

from episodes.api.base import whole

PAGE = 50
MOST = 500


def limit_of(request: Request) -> int:
    """Raises: BadFilter."""
    return whole(request, "limit", PAGE, least=1, most=MOST) or PAGE


def link(request: Request, after: object) -> str | None:
    """The request's address from the cursor `after` on; None when there is none."""
    if after is None or after == "":
        return None
    query = request.GET.copy()
    query["after"] = str(after)
    return str(request.build_absolute_uri(f"{request.path}?{query.urlencode()}"))


def page(request: Request, results: Any, after: object, before: object = None, **further: Any) -> dict[str, Any]:
    """`after` and `before`: cursors of the pages beside this one, None or empty where there is none."""
    return {"next": link(request, after), "previous": link(request, before), **further, "results": results}
