"""What an exception of an author's code becomes: an EnvironmentFault, which holds text only."""

from __future__ import annotations

import traceback

from pydantic import ValidationError

from environments.errors import EnvironmentFault

MAX_PROBLEMS = 100
"""Longest list of pydantic's problems that is formatted; a longer one would block the event
loop."""
MAX_LISTED_PROBLEMS = 3
"""Problems that a message lists; of the others it gives the number."""

ADVICE = (
    '. Sessions have a main thread with isolation = "session" and own_thread = True on the class, '
    "or served as 'module:Class?isolation=\"session\"&own_thread=true'"
)
"""What the error says of code that needs the main thread, as signals do."""


def fault_of(error: BaseException) -> EnvironmentFault:
    """Return the fault with type, message and traceback of `error`, from the first frame of the
    author's code on."""
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if "/environments/runtime/" not in frame.filename] or frames
    trace = "".join(["Traceback (most recent call last):\n", *traceback.format_list(theirs)])
    text = text_of(error) + (ADVICE if _needs_main_thread(error) else "")
    if isinstance(error, ValidationError):
        trace += f"{type(error).__name__}: {text}"
    else:
        trace += "".join(traceback.format_exception_only(error))
    return EnvironmentFault(type(error).__name__, text, trace)


def _needs_main_thread(error: BaseException) -> bool:
    """Return whether Python refused signals outside of the main thread, also as a cause."""
    causes = (error, error.__cause__, error.__context__)
    return any(
        isinstance(cause, ValueError) and "only works in main thread" in str(cause)
        for cause in causes
    )


def text_of(error: BaseException) -> str:
    """Return the message of `error`, which for a ValidationError omits the input values.

    pydantic truncates those, and the mask does not find a truncated secret.
    """
    if not isinstance(error, ValidationError):
        return str(error)
    count = error.error_count()
    if count > MAX_PROBLEMS:
        return f"{count} problems"
    problems = error.errors(include_url=False, include_input=False)
    texts = [
        f"{'.'.join(map(str, problem['loc'])) or error.title}: {problem['msg']}"
        for problem in problems[:MAX_LISTED_PROBLEMS]
    ]
    if count > MAX_LISTED_PROBLEMS:
        texts.append(f"{count - MAX_LISTED_PROBLEMS} more")
    return "; ".join(texts)
