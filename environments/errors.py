"""The exceptions of this server, independent of HTTP.

The registry, the catalogue and the runtime raise them; `agents/http/errors.py` alone maps them to
statuses. A message carries the refused value and the allowed ones, never a secret and never a
task's content.
"""

from __future__ import annotations

import difflib
import math
import re
import traceback
from collections.abc import Iterable
from pathlib import Path

MAX_QUOTED_CHARACTERS = 200
"""Longest part of a refused name that a message repeats."""


_FRAME = re.compile(r'^  File "(.+)", line (\d+)', re.MULTILINE)
OF_A_LIBRARY = re.compile(
    rf"/lib/python3[^/]*/|^<|^{re.escape(str(Path(__file__).parent))}/(authoring|checking|hosts|runtime)/"
)
"""Matches files of Python, of installed packages, and of this server where it calls the code of
authors."""


class OrsError(Exception):
    """Base of all exceptions that this server raises on purpose."""


class Unhostable(OrsError):
    """An environment class cannot be served; the message is one sentence that says what to
    change."""


class BrokenOff(Exception):
    """The body of a response has no end, and a log says why. The connection of its client is
    closed."""


class ToolError(OrsError):
    """Raised by an author's tool for a failure the agent may recover from: answered with
    `"ok": false` and its text."""


# --- keys -----------------------------------------------------------------------------------------


class KeyRefused(OrsError):
    """A request has no API key, or one that is not in force.

    `wait_seconds`: when its sender may try another one, after too many unknown keys; else 0.
    """

    def __init__(self, text: str, wait_seconds: int = 0) -> None:
        super().__init__(text)
        self.wait_seconds = wait_seconds


class Forbidden(OrsError):
    """The API key of a request is in force, but may not do this."""


# --- discovery ------------------------------------------------------------------------------------


class UnknownEnvironment(OrsError):
    def __init__(self, name: str, hosted_names: Iterable[str]) -> None:
        names = list(hosted_names)
        hint = nearest(name, names).replace(" Did", "; did")
        super().__init__(
            f"unknown environment {shorten(name, MAX_QUOTED_CHARACTERS)!r}; this server hosts "
            f"{_listing(names)}{hint}"
        )


class Unavailable(OrsError):
    """The environment is hosted, but cannot be played now; `reason` is a sentence that says why."""

    def __init__(self, environment: str, reason: str) -> None:
        super().__init__(f"Environment {environment!r} is unavailable. {reason}")


class InvalidSplit(OrsError):
    def __init__(self, split: str, environment: str, splits: Iterable[str]) -> None:
        super().__init__(
            f"Invalid split {shorten(split, MAX_QUOTED_CHARACTERS)!r}: {environment!r} has "
            f"{_listing(list(splits))}"
        )


class InvalidIndex(OrsError):
    def __init__(self, index: int, split: str, count: int | None = None) -> None:
        legal = (
            ""
            if count is None
            else f": split {split!r} has {count} tasks, so {-count} to {count - 1} are valid"
        )
        legal = f": split {split!r} has no tasks" if count == 0 else legal
        super().__init__(f"Invalid index {shorten(str(index), 40)}{legal}")


class InvalidIndexRange(OrsError):
    def __init__(self, start: int | None, stop: int | None, split: str) -> None:
        super().__init__(f"Invalid index range {start} to {stop} in split {split!r}")


class ListingUnsupported(OrsError):
    def __init__(self) -> None:
        super().__init__(
            "list_tasks is not supported for this environment. Use the index-based API (num_tasks "
            "+ get_task) instead."
        )


# --- sessions -------------------------------------------------------------------------------------


class InvalidRequest(OrsError):
    """A header or a combination of fields that no session could satisfy."""


class SessionNotFound(OrsError):
    """`interruption` says why the server ended the session; empty if it was not interrupted."""

    def __init__(self, interruption: str = "") -> None:
        why = f": the episode was interrupted. {interruption}" if interruption else ""
        super().__init__(f"Active environment not found{why}")


class SessionExists(OrsError):
    def __init__(self) -> None:
        super().__init__("Session already exists")


class SessionDeleted(OrsError):
    """`interruption` says why the server ends the session; empty if it is not interrupted."""

    def __init__(self, interruption: str = "") -> None:
        why = f": the episode was interrupted. {interruption}" if interruption else ""
        super().__init__(f"Session deleted{why}")


class SessionStarting(OrsError):
    def __init__(self) -> None:
        super().__init__("Environment still starting.")


class TooManySessions(OrsError):
    """As many sessions are live as the server, or the environment, bears."""


class OverQuota(OrsError):
    """An API key has used what it may use for now; `retry_seconds` is the time after which it may
    use more."""

    def __init__(self, text: str, retry_seconds: float) -> None:
        super().__init__(text)
        self.retry_seconds = max(1, math.ceil(retry_seconds))


class OtherEnvironment(OrsError):
    def __init__(self, name_in_path: str, name_of_session: str) -> None:
        super().__init__(
            f"This session plays {name_of_session!r}, but the path names {name_in_path!r}; use "
            f"/{name_of_session}/ or a bare path"
        )


class Unsupported(OrsError):
    """The environment class does not implement the requested feature (score_group)."""


class NumbersAway(OrsError):
    """One of several servers has used up its numbers of episodes and did not get others yet."""

    def __init__(self) -> None:
        super().__init__("No number for a new episode could be got from the database; try again.")


class Draining(OrsError):
    def __init__(self) -> None:
        super().__init__("The server is shutting down.")


class NotPlaying(OrsError):
    def __init__(self) -> None:
        super().__init__(
            "This process does not serve environments; try again once the server has started."
        )


class EnvironmentFault(OrsError):
    """The author's code raised. Holds text only, so that raising a stored fault again adds no
    traceback to it.

    `kind` is the exception's type name, `text` its message, `trace` the formatted traceback.
    """

    def __init__(self, kind: str, text: str, trace: str = "") -> None:
        super().__init__(f"{kind}: {text}" if text else kind)
        self.kind, self.text, self.trace = kind, text, trace

    @property
    def place(self) -> str:
        """The line that raised, the author's own rather than a library's: "/srv/shop.py, line 12";
        empty if unknown."""
        return _place_in(self.trace)

    def copy(self) -> EnvironmentFault:
        """Return an equal fault without the frames that this one has passed through, to be stored
        or raised again."""
        return EnvironmentFault(self.kind, self.text, self.trace)


WORKER_LOST = "WorkerLost"
"""Kind of the faults that say that the worker process of a session has ended."""

REMOTE_ERROR = "RemoteError"
"""`kind` of faults of environments that other servers run. Their texts name the URL and what it
answered."""


def shorten(text: str, limit: int) -> str:
    """Return `text`, truncated to `limit` characters and then ending in an ellipsis."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def nearest(name: str, names: Iterable[str], most: int = 1) -> str:
    """Return " Did you mean 'math'?" with at most `most` known names that are much like `name`;
    empty without any."""
    near = nearest_names(name, names, most)
    return f" Did you mean {' or '.join(map(repr, near))}?" if near else ""


def nearest_names(name: str, names: Iterable[str], most: int = 1) -> list[str]:
    """Return at most `most` known names that are much like `name`, the nearest first."""
    by_folded = {candidate.lower(): candidate for candidate in names}
    # shortened, because the time of get_close_matches grows with the square of the length
    text = name[:MAX_QUOTED_CHARACTERS].lower()
    return [by_folded[match] for match in difflib.get_close_matches(text, by_folded, n=most)]


def describe(error: BaseException) -> str:
    """Return the exception's type and message on one line, without a full stop."""
    return ": ".join(filter(None, (type(error).__name__, " ".join(str(error).split()).rstrip("."))))


def explained(error: BaseException) -> str:
    """Return what `describe` does, and the author's line that raised: "KeyError: 'x' (/srv/shop.py,
    line 12)"."""
    place = _place_in(author_traceback(error))
    return f"{describe(error)} ({place})" if place else describe(error)


def author_traceback(error: BaseException | None) -> str:
    """Return the traceback of an exception without the frames of this server and of the import
    system before the author's first; empty if the author has none."""
    if error is None:
        return ""
    if isinstance(error, EnvironmentFault):
        return error.trace.rstrip()
    report = traceback.TracebackException.from_exception(error)
    while report.stack and OF_A_LIBRARY.search(report.stack[0].filename):
        del report.stack[0]
    return (
        "".join(report.format()).rstrip() if report.stack or isinstance(error, SyntaxError) else ""
    )


def _place_in(trace: str) -> str:
    """Return the last line that a traceback names of the author's own code, otherwise of any."""
    frames: list[tuple[str, str]] = _FRAME.findall(trace)
    own = [frame for frame in frames if not OF_A_LIBRARY.search(frame[0])]
    return ", line ".join((own or frames)[-1]) if frames else ""


def _listing(names: list[str]) -> str:
    text = ", ".join(repr(name) for name in names[:20])
    return f"{text} and {len(names) - 20} more" if len(names) > 20 else text or "nothing"
