"""Faults in the log: what an author's code raised, with the session it happened in and without that session's secrets.

The one place that logs them. What a class raises when it is asked for tasks belongs to no session.
"""

from __future__ import annotations

from typing import Any

import structlog

from environments.errors import EnvironmentFault
from environments.runtime.live_episode import LiveEpisode

log = structlog.get_logger(__name__)


def log_fault(event: str, episode: LiveEpisode, fault: EnvironmentFault) -> None:
    """Log what an author's code raised; `event` says what of `episode` failed."""
    log_failure(event, episode, str(fault), fault.trace)


def log_failure(event: str, episode: LiveEpisode, error: str, trace: str, **about: Any) -> None:
    """Log a failure of `episode` that is told as text; `about` are further fields, without secrets."""
    log.warning(
        event,
        session=episode.shown_sid,
        episode=episode.number,
        environment=episode.environment,
        error=episode.mask_text(error),
        trace=episode.mask_text(trace) or None,
        **about,
    )


def log_class_fault(event: str, environment: str, split: str, fault: EnvironmentFault) -> None:
    """`event` says what the class was asked for in vain."""
    log.warning(event, environment=environment, split=split, error=str(fault), trace=fault.trace or None)
