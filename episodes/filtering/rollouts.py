"""The filter of uploaded rollouts that the addresses of the page and of the API have in common.

Filters are combined; each is exact, however many rollouts there are.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Q, QuerySet

from environments.filtering.filters import Filters, choice, parameter
from environments.filtering.parameters import any_text, whole
from environments.models import Viewer
from episodes.models import Rollout
from episodes.models.rollouts import HAS_EPISODE, HAS_NO_EPISODE, IS_GUESS, environment_name_of
from episodes.search.rollouts import rollouts_matching

JOINED = ("yes", "guess", "no")
"""With an episode, with one that is a guess, and without one."""


def by_joined(answer: str, viewer: Viewer) -> Q:
    if answer == "no":
        return HAS_NO_EPISODE
    return HAS_EPISODE & (IS_GUESS if answer == "guess" else ~IS_GUESS)


@dataclass(frozen=True)
class RolloutFilter(Filters):
    """Which rollouts to list. None and empty: all."""

    environment: str = parameter(
        any_text,
        default="",
        narrow=lambda name, viewer: Q(environment_name=environment_name_of(name)),
    )
    run: str = parameter(any_text, default="", narrow=lambda name, viewer: Q(run__name=name))
    model: str = parameter(any_text, default="", narrow=lambda name, viewer: Q(model=name))
    joined: str = choice(
        JOINED,
        "With an episode here, with one that is a guess, or without one",
        default="",
        narrow=by_joined,
    )
    episode: int | None = parameter(
        whole,
        "Number of the episode that they belong to",
        kind=int,
        narrow=lambda pk, viewer: Q(episode=pk),
    )
    text: str = parameter(
        any_text,
        'Words, "words in a row" and prefix* in the messages',
        default="",
        narrow=lambda text, viewer: rollouts_matching(text),
    )

    def rollouts(self) -> QuerySet[Rollout]:
        """Return the rollouts, newest first."""
        condition, _ = self.condition_and_unknown_names()
        return Rollout.objects.seen_by(self.viewer).filter(condition).order_by("-id")
