"""Django's first three middleware classes, made to run on the event loop. Named in settings.MIDDLEWARE.

Static files are served on the event loop, so the middleware before them runs there too. None of these classes waits for
anything, but Django would switch to a thread and back for each of them; the six switches cost a third of a short page.
"""

from __future__ import annotations

from typing import Any

from csp.middleware import CSPMiddleware
from django.middleware.common import CommonMiddleware
from django.middleware.security import SecurityMiddleware


class _OnTheLoop:
    get_response: Any

    async def __acall__(self, request: Any) -> Any:
        own_response = self.process_request(request) if hasattr(self, "process_request") else None
        response = own_response or await self.get_response(request)
        return self.process_response(request, response)  # type: ignore[attr-defined]  # all three classes have it


class Security(_OnTheLoop, SecurityMiddleware):
    pass


class ContentPolicy(_OnTheLoop, CSPMiddleware):
    pass


class Common(_OnTheLoop, CommonMiddleware):
    """Refuses foreign Hosts, also for static files."""
