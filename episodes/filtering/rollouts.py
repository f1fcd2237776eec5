"""Filters of the list of uploaded rollouts: from an address to one page of them, newest first.

Pages and the API share this. Filters are combined; each is exact, however many rollouts there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlencode

from django.db.models import Q, QuerySet

from environments.models import Viewer
from episodes.filtering.parameters import chosen, given, unknown_name, whole, words
from episodes.models import Rollout
from episodes.models.rollouts import HAS_EPISODE, HAS_NO_EPISODE, IS_GUESS, environment_name_of
from episodes.search.rollouts import rollouts_matching

JOINED = ("yes", "guess", "no")
"""With an episode, with one that is a guess, and without one."""
NAMES = ("environment", "run", "model", "joined", "episode", "text")


@dataclass(frozen=True)
class RolloutFilter:
    """Which rollouts to list. None and empty: all."""

    environment: str = ""
    run: str = ""
    model: str = ""
    joined: str = ""
    """One of JOINED."""
    episode: int | None = None
    """Id of the episode that they belong to."""
    text: str = ""
    """Terms that their messages, or their episode's transcript, contain."""
    viewer: Viewer = field(kw_only=True)
    """Who asks. Not part of an address."""

    @classmethod
    def parse(
        cls, query: Mapping[str, str], viewer: Viewer, *, also: Iterable[str] = ()
    ) -> RolloutFilter:
        """Return the filter in an address. `also` are parameters that belong to the page. Raises:
        BadFilter."""
        allowed = (*NAMES, *also)
        for name, value in query.items():
            if name not in allowed:
                raise unknown_name(name, value, allowed)
        return cls(
            **{
                name: given(query, name, words) or ""
                for name in ("environment", "run", "model", "text")
            },
            joined=given(query, "joined", chosen(JOINED)) or "",
            episode=given(query, "episode", whole),
            viewer=viewer,
        )

    def values(self) -> dict[str, str]:
        """Return the parameters of the address."""
        found = {name: getattr(self, name) for name in NAMES}
        return {name: str(value) for name, value in found.items() if value not in ("", None)}

    def to_query(self, **changes: str | int | None) -> str:
        return urlencode(
            {
                name: value
                for name, value in {**self.values(), **changes}.items()
                if value not in ("", None)
            }
        )

    @property
    def is_empty(self) -> bool:
        return not self.values()

    def rollouts(self) -> QuerySet[Rollout]:
        """Return the rollouts, newest first."""
        found = Rollout.objects.seen_by(self.viewer).order_by("-id")
        exact: dict[str, str | int | None] = {
            "environment_name": environment_name_of(self.environment),
            "model": self.model,
        }
        exact |= {"run__name": self.run, "episode": self.episode}
        found = found.filter(
            **{name: value for name, value in exact.items() if value not in ("", None)}
        )
        if self.joined:
            found = found.filter(_joined(self.joined))
        return found.filter(rollouts_matching(self.text)) if self.text else found


def _joined(choice: str) -> Q:
    if choice == "no":
        return HAS_NO_EPISODE
    return HAS_EPISODE & (IS_GUESS if choice == "guess" else ~IS_GUESS)


@dataclass(frozen=True)
class RolloutPage:
    """One page of rollouts."""

    rollouts: list[Rollout]
    next: int | None
    """Cursor of the following page: the id of the last rollout; None if there is none."""


def rollouts_page(found: QuerySet[Rollout], after: int | None, size: int) -> RolloutPage:
    """Return a page of `found`, which is in order of falling ids, after the rollout with the id
    `after`."""
    rows = found.select_related("run", "episode__environment", "episode__split")
    rows = rows.defer("event", "info", "episode__labels")
    shown = list((rows if after is None else rows.filter(pk__lt=after))[: size + 1])
    return RolloutPage(shown[:size], shown[size - 1].pk if len(shown) > size else None)
