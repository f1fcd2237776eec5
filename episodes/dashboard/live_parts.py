"""Parts of pages that are made once for all who see the same.

An announcement makes every open page fetch its parts, and while agents play there is always another
one. What was made since the last announcement holds all that it told, so it also answers all that
fetch until the next. Making a part takes a bounded share of a core away from the agents: one that
takes long is made again after a longer pause, which the response tells the page. Only fetches by
`static/orsweb/live.js` are answered so; what a person asks for is always made for that request.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string

from episodes.recording.live import announcement

MAX_AGE_SECONDS = 1.0
"""Age of a part that is still given. Not all that changes a page is announced."""
MAX_SHARE = 0.01
"""Share of one core that making a part again and again may take."""
MAX_PAUSE_SECONDS = 5.0
"""Longest pause between two makings of a part, however long they take, while the process is not
busy."""
BUSY_SHARE = 0.5
"""Share of one core from which on the process has better things to do: pauses are then twice as
long."""
LOAD_SECONDS = 1.0
"""Time over which it is measured, at least."""
MAX_PARTS = 100
"""Parts that are remembered; when there are more, all are forgotten."""
HEADER = "X-Refetch"
PAUSE_HEADER = "X-Refetch-Pause"
"""Seconds after which the part may be made again; before that, fetching it is of no use."""
AGAIN_HEADER = "X-Refetch-Again"
"""Present if more may have happened than the part holds: the page fetches it again after the
pause."""


@dataclass(slots=True)
class _SharedPart:
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Held while the part is made, for which others wait."""
    announcement: int = -1
    made_at: float = 0.0
    pause: float = 0.0
    """Seconds from `made_at` in which it is not made again."""
    content: str = ""


@dataclass(slots=True)
class _Load:
    """How busy the process was lately."""

    at: float = field(default_factory=time.monotonic)
    cpu_seconds: float = field(default_factory=time.process_time)
    was_busy: bool = False

    def is_busy(self) -> bool:
        """Return whether the process was busy in the last second, or since the last time that this
        was asked."""
        now, cpu_seconds = time.monotonic(), time.process_time()
        if now - self.at >= LOAD_SECONDS:
            self.was_busy = cpu_seconds - self.cpu_seconds > BUSY_SHARE * (now - self.at)
            self.at, self.cpu_seconds = now, cpu_seconds
        return self.was_busy


_parts: dict[Hashable, _SharedPart] = {}
_load = _Load()


def shared_part(
    request: HttpRequest, template: str, sees: Hashable, context: Callable[[], Mapping[str, Any]]
) -> HttpResponse:
    """Return the rendered part of a page, which may have been made for another person.

    `sees`: all that the part depends on besides the address, such as what is hidden from the
    person.
    """
    if HEADER not in request.headers:
        return render(request, template, context())
    if len(_parts) > MAX_PARTS:
        _parts.clear()
    part = _parts.setdefault((request.get_full_path(), sees), _SharedPart())
    with part.lock:
        last, now = announcement(), time.monotonic()
        is_current = part.announcement == last and now <= part.made_at + MAX_AGE_SECONDS
        if not is_current and now >= part.made_at + part.pause:
            start = time.thread_time()
            part.content = render_to_string(template, dict(context()), request)
            part.announcement, part.made_at, is_current = last, now, True
            part.pause = min((time.thread_time() - start) / MAX_SHARE, MAX_PAUSE_SECONDS) * (
                1 + _load.is_busy()
            )
        response = HttpResponse(part.content)
        response[PAUSE_HEADER] = f"{max(part.made_at + part.pause - now, 0.0):.3f}"
        if not is_current:
            response[AGAIN_HEADER] = "1"
        return response
