"""RolloutListQuery: one page of the list of uploaded conversations, as parameters ask for it.
The page and the API share it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from environments.filtering.parameters import count_in, given
from environments.models import Viewer
from environments.models.viewer import visible_environments
from episodes.filtering.rollouts import RolloutFilter
from episodes.models import Rollout
from episodes.models.privacy import own_records, visible_rollouts
from episodes.rollups.search_note import rollout_search_note
from episodes.uploads.rollout_figures import with_current_figures

PAGE_ROLLOUTS = 50


@dataclass(frozen=True, slots=True)
class RolloutList:
    """One page of rollouts, newest first."""

    rollouts: Sequence[Rollout]
    """With their figures so far."""
    note: str
    """What a search for text leaves out, in sentences; empty if that is nothing."""
    next: int | None
    """Id after which the next page starts; None on the last one."""


@dataclass(frozen=True, slots=True)
class RolloutListQuery:
    filter: RolloutFilter
    after: int | None = None
    """Id of the last rollout of the previous page; None for the first page."""
    size: int = PAGE_ROLLOUTS

    @classmethod
    def parse(
        cls,
        parameters: Mapping[str, str],
        viewer: Viewer,
        *,
        also: Collection[str] = (),
        size: int = PAGE_ROLLOUTS,
    ) -> Self:
        """Return the query in an address. Raises: BadFilter.

        `also`: further parameters that it may have.
        """
        filter_ = RolloutFilter.parse(parameters, viewer, also=("after", *also))
        return cls(filter_, given(parameters, "after", count_in), size)

    def result(self, blind: Collection[int]) -> RolloutList:
        """Return the page. `blind`: ids of running episodes whose rollouts are left out."""
        rows, viewer, note = self.filter.rollouts(), self.filter.viewer, ""
        if self.filter.text:
            episodes = own_records(viewer) & visible_environments(viewer)
            note = rollout_search_note(self.filter.text, episodes, visible_rollouts(viewer))
        rows = rows.select_related("run", "episode__environment", "episode__split")
        rows = rows.defer("event", "info", "episode__labels")
        if blind:
            rows = rows.exclude(episode__in=blind)
        if self.after is not None:
            rows = rows.filter(pk__lt=self.after)
        page = list(rows[: self.size + 1])
        rollouts, has_more = with_current_figures(page[: self.size]), len(page) > self.size
        return RolloutList(rollouts, note, rollouts[-1].pk if has_more else None)
