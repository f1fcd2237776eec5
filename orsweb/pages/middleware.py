"""Ahead: what every request for a page or a file meets first. Named in settings.MIDDLEWARE, before static files.

Static files are read on the event loop, and so what stands before them is called there. Django would go to a thread and
back for each of these twice a request, though they ask nobody; the six ways cost a third of a short page.
"""

from __future__ import annotations

from typing import Any

from csp.middleware import CSPMiddleware
from django.middleware.common import CommonMiddleware
from django.middleware.security import SecurityMiddleware


class _OnTheLoop:
    get_response: Any

    async def __acall__(self, request: Any) -> Any:
        answered = self.process_request(request) if hasattr(self, "process_request") else None
        response = answered or await self.get_response(request)
        return self.process_response(request, response)  # type: ignore[attr-defined]  # each of them has it


class Security(_OnTheLoop, SecurityMiddleware):
    pass


class ContentPolicy(_OnTheLoop, CSPMiddleware):
    pass


class Common(_OnTheLoop, CommonMiddleware):
    """Refuses foreign Hosts, for static files too."""
