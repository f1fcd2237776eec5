"""RunListFilter: the parameters of the list of runs, and the page of runs that they find. Used by
`runs.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from django.http import QueryDict

from environments.models import Split, Viewer
from environments.models.viewer import visible_environments
from episodes.analytics.run_splits import SplitChoice, played_split
from episodes.filtering.parameters import BadFilter, chosen, count_in, given, trimmed, words
from episodes.models import Run
from episodes.runs.config_values import ConfigCondition, config_values
from episodes.runs.description import STATES

PARAMETERS = ("state", "tag", "config", "columns", "after", *SplitChoice.PARAMETERS)
RUNS_PER_PAGE = 20
MAX_COLUMNS = 8
MAX_SEARCHED = 2_000
"""Runs whose configuration is read for one page of a list with conditions."""


class RunPage(NamedTuple):
    runs: Sequence[Run]
    next: int | None
    """Id after which the next page starts; None on the last one."""
    is_bounded: bool
    """Whether the search stopped after MAX_SEARCHED runs."""


class RunChip(NamedTuple):
    """A value of a filter that is in force."""

    label: str
    value: str
    query: str
    """Query string of the list without it."""


@dataclass(frozen=True, slots=True)
class RunListFilter:
    states: Sequence[str]
    """A run has one of them; empty for any."""
    tags: Sequence[str]
    """A run has one of them or more; empty for any."""
    conditions: Sequence[ConfigCondition]
    """Conditions on the configuration, of which a run meets all."""
    columns: Sequence[str]
    """Values of the configuration that the list shows."""
    after: int
    """Id of the last run of the previous page; 0 for the first page."""
    splits: SplitChoice
    """Which splits the figures count; a run has played the one that is named."""

    @classmethod
    def parse(cls, query: QueryDict) -> RunListFilter:
        """Return the parameters of an address. All but `after` may be given several times. Raises:
        BadFilter.

        `columns` may also hold several names separated by commas, as in the list of episodes.
        """
        names = [
            name
            for one in _given(query, "columns")
            for name in map(trimmed, one.split(","))
            if name
        ]
        columns = tuple(dict.fromkeys(words("columns", name) for name in names))
        if len(columns) > MAX_COLUMNS:
            raise BadFilter("columns", len(columns), f"at most {MAX_COLUMNS} are shown")
        return cls(
            states=[chosen(STATES)("state", one) for one in _given(query, "state")],
            tags=[words("tag", one) for one in _given(query, "tag")],
            conditions=[ConfigCondition.parse("config", one) for one in _given(query, "config")],
            columns=columns,
            after=given(query, "after", count_in) or 0,
            splits=SplitChoice.parse(query),
        )

    @property
    def is_empty(self) -> bool:
        return not (self.states or self.tags or self.conditions or self.splits.split)

    def page(self, viewer: Viewer) -> RunPage:
        """Return a page of the runs, newest first. Raises: BadFilter."""
        rows = Run.objects.seen_by(viewer)
        rows = rows.filter(pk__lt=self.after) if self.after else rows
        rows = rows.filter(state__in=self.states) if self.states else rows
        rows = (
            rows.filter(pk__in=Run.objects.filter(tags__name__in=self.tags).values("pk"))
            if self.tags
            else rows
        )
        if self.splits.split:
            rows = rows.filter(
                played_split(
                    self.splits.split,
                    Split.objects.filter(visible_environments(viewer, "environment")),
                )
            )
        rows = rows.order_by("-pk")
        shown = rows.prefetch_related("tags").defer("notes")
        if not self.conditions:
            found = list(shown[: RUNS_PER_PAGE + 1])
            runs = found[:RUNS_PER_PAGE]
            return RunPage(
                runs, runs[-1].pk if len(found) > RUNS_PER_PAGE else None, is_bounded=False
            )
        ids, last, read = list[int](), 0, 0
        for last, config in rows.values_list("pk", "config")[:MAX_SEARCHED].iterator():
            read += 1
            if config and self._holds(config):
                ids.append(last)
            if len(ids) == RUNS_PER_PAGE:
                break
        has_more = last > 0 and rows.filter(pk__lt=last).exists()
        runs = list(shown.filter(pk__in=ids))
        return RunPage(
            runs, last if has_more else None, is_bounded=read == MAX_SEARCHED and has_more
        )

    def _holds(self, config: str) -> bool:
        values = config_values(config)
        return all(condition.is_met(values) for condition in self.conditions)

    def chips(self, query: QueryDict) -> list[RunChip]:
        """Return the tags and conditions in force, each with the address `query` without it."""
        pairs = [("tag", tag) for tag in self.tags] + [
            ("config", str(condition)) for condition in self.conditions
        ]
        return [RunChip(name, value, _without(query, name, value)) for name, value in pairs]


def _given(query: QueryDict, name: str) -> list[str]:
    return [text for text in map(trimmed, query.getlist(name)) if text]


def _without(query: QueryDict, name: str, value: str) -> str:
    found = query.copy()
    kept = [
        one for one in query.getlist(name) if trimmed(one) != value and _normal(name, one) != value
    ]
    found.setlist(name, kept)
    found.pop("after", None)
    return found.urlencode()


def _normal(name: str, text: str) -> str:
    return str(ConfigCondition.parse(name, text)) if name == "config" and text.strip() else text
