"""Filters of the server itself, for whom everything exists."""

from __future__ import annotations

from typing import Any

from environments.curation.selection import Selection
from environments.models import UNRESTRICTED
from episodes.filtering.filters import EpisodeFilter
from episodes.filtering.rollouts import RolloutFilter


def select(*places: int | None, **filters: Any) -> Selection:
    return Selection(*places, **filters, viewer=UNRESTRICTED)


def episode_filter(**filters: Any) -> EpisodeFilter:
    return EpisodeFilter(**filters, viewer=UNRESTRICTED)


def rollout_filter(**filters: Any) -> RolloutFilter:
    return RolloutFilter(**filters, viewer=UNRESTRICTED)
