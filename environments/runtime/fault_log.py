"""Log entries for exceptions of an author's code, with the session in which they happened and without its secrets.

All such exceptions are logged here and nowhere else.
"""

from __future__ import annotations

from typing import Any

import structlog

from environments.errors import EnvironmentFault
from environments.runtime.live_episode import LiveEpisode

log = structlog.get_logger(__name__)


def log_fault(event: str, episode: LiveEpisode, fault: EnvironmentFault) -> None:
    """Log an exception of the author's code; `event` says which part of `episode` failed."""
    log_failure(event, episode, str(fault), fault.trace)


def log_failure(event: str, episode: LiveEpisode, error: str, trace: str, **about: Any) -> None:
    """Log a failure of `episode` given as text; `about` holds further fields, which must be free of secrets."""
    log.warning(
        event,
        session=episode.masked_sid,
        episode=episode.number,
        environment=episode.environment,
        error=episode.mask_text(error),
        trace=episode.mask_text(trace) or None,
        **about,
    )


def log_class_fault(event: str, environment: str, split: str, fault: EnvironmentFault) -> None:
    """Log an exception of a class method, which belongs to no session; `event` says what was requested."""
    log.warning(event, environment=environment, split=split, error=str(fault), trace=fault.trace or None)
