"""Checks of a live session, which requests make again after every wait."""

from __future__ import annotations

from environments.errors import Draining, OtherEnvironment, SessionDeleted
from environments.runtime.live_episode import LiveEpisode


def check_alive(episode: LiveEpisode) -> None:
    """Raise SessionDeleted if the session is ending, or EnvironmentFault if its construction or setup has failed.

    Raises Draining if it ends here, and the next server goes on with it.
    """
    if episode.state == "closing":
        if episode.is_suspended:
            raise Draining
        raise SessionDeleted(episode.closing_detail if episode.closing_cause == "interrupted" else "")
    if episode.fault is not None:
        raise episode.fault.copy()


def is_closing(episode: LiveEpisode) -> bool:
    """Return whether the session is ending. Check it after every await: another request may have deleted it."""
    return episode.state == "closing"


def check_path(episode: LiveEpisode, path_environment: str | None) -> None:
    """Raise OtherEnvironment if the path names another environment than the session's, which is a client's mistake."""
    if path_environment and episode.environment and path_environment.lower() != episode.environment:
        raise OtherEnvironment(path_environment, episode.environment)
