"""RunListQuery: one page of the list of runs, as parameters ask for it. The Runs page and the API
share it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar, get_args

from django.db.models import Q, QuerySet
from django.http import QueryDict

from environments.database.folding import holding
from environments.database.json_rows import among
from environments.filtering.parameters import (
    BadFilter,
    any_text,
    chosen,
    count_in,
    definition_in,
    flag,
    given,
    trimmed,
)
from environments.models import Split, Viewer
from environments.models.viewer import visible_environments
from environments.scoring.definition import (
    DEFINITION_PARAMETERS,
    DefinitionOverrides,
    definitions_in_force,
)
from episodes.figures.run_splits import SplitChoice, played_split
from episodes.figures.runs.config_groups import ConfigGroup, GroupedRuns, config_groups
from episodes.figures.runs.run_lines import RunLine, lines_of
from episodes.figures.runs.run_order import Over, RunOrder
from episodes.figures.runs.run_states import states_of
from episodes.figures.runs.stored_totals import (
    MAX_SORTED,
    latest_by_run,
    played_places,
    stored_totals,
    totals_by_run,
    totals_in,
)
from episodes.models import Run, RunTag
from episodes.runs.config_values import CONFIGS_AT_ONCE, ConfigCondition, named_values
from episodes.runs.description import STATES

RUNS_PER_PAGE = 20
COLUMNS = (
    "model",
    "environment",
    "split",
    "curve",
    "return",
    "success",
    "attempts",
    "steps",
    "last",
)
"""Columns that the list has unless they are hidden."""
FORMATS = ("csv",)
MAX_COLUMNS = 8
MAX_WORDS = 8
"""Words of a search, each of which reads texts of all runs that are searched."""
MAX_SEARCHED = 2_000
"""Runs whose configuration is read for one page of the list of the newest with conditions."""
NEWEST = RunOrder("created", is_descending=True)
LAST_ACTIVE = RunOrder("last", is_descending=True)


@dataclass(frozen=True, slots=True)
class RunList:
    """One page of runs with their figures."""

    runs: Sequence[Run]
    lines: Sequence[RunLine]
    """A line for each of the runs."""
    next: int | None
    """Id after which the next page starts; None on the last one."""
    is_bounded: bool
    """Whether older runs were not searched."""
    ids: Sequence[int] = ()
    """Ids of all runs of the list in its order; empty in the order of ids, which reads a page."""
    places: Collection[str] = ()
    """Where all runs of the list played, if it is sorted within each of these places."""


@dataclass(frozen=True, slots=True)
class RunListQuery:
    viewer: Viewer
    name: str
    """Name of the only run, or title of several; empty for any."""
    text: str
    """Words, each of which a run has in its name, model, tags, notes or configuration; or empty."""
    states: Sequence[str]
    """A run has one of them; empty for any."""
    has_failed: bool
    """Whether runs are listed that failed."""
    tags: Sequence[str]
    """A run has one of them or more; empty for any."""
    conditions: Sequence[ConfigCondition]
    """Conditions on the configuration, of which a run meets all."""
    columns: Sequence[str]
    """Values of the configuration that the list shows, first the pinned ones."""
    pin: Sequence[str]
    """Those of the columns that stay in view while the table scrolls."""
    hide: Sequence[str]
    """Those of COLUMNS that the list leaves out."""
    group: Sequence[str]
    """Names of the values of the configuration by which the runs are grouped; empty: they are
    not."""
    order: RunOrder
    after: int
    """Id of the last run of the previous page; 0 for the first page."""
    splits: SplitChoice
    """Which splits the figures count; a run has played the one that is named."""
    definition: DefinitionOverrides
    format: str
    """One of FORMATS; empty for a page."""
    size: int
    over: Over
    """What the list shows, and sorts by, as return and success of a run."""

    FILTER: ClassVar = ("state", "tag", "config")
    SEVERAL: ClassVar = (*FILTER, "columns", "pin", "hide", "group")
    """Parameters that an address may have several times."""
    PARAMETERS: ClassVar = (
        *SEVERAL,
        "text",
        "failed",
        "sort",
        "after",
        "format",
        "over",
        *SplitChoice.PARAMETERS,
        *DEFINITION_PARAMETERS,
    )

    @classmethod
    def parse(
        cls, query: QueryDict, viewer: Viewer, size: int, usual: RunOrder, over: Over = "all"
    ) -> RunListQuery:
        """Return the query in an address. Raises: BadFilter.

        `usual` and `over`: those of an address that names none. A parameter of columns or groups
        may also hold several names separated by commas, as in the list of episodes.
        """
        values = {
            name: [text for text in map(trimmed, query.getlist(name)) if text]
            for name in cls.FILTER
        }
        pin = _names(query, "pin")
        columns = tuple(dict.fromkeys([*pin, *_names(query, "columns")]))
        if len(columns) > MAX_COLUMNS:
            raise BadFilter("columns", len(columns), f"at most {MAX_COLUMNS} are shown")
        text = given(query, "text", any_text) or ""
        if len(set(text.split())) > MAX_WORDS:
            raise BadFilter("text", text, f"at most {MAX_WORDS} words are searched")
        order = given(query, "sort", RunOrder.parse, usual)
        order.check(viewer)
        return cls(
            viewer,
            name=given(query, "name", any_text) or "",
            text=text,
            group=_names(query, "group"),
            order=order,
            states=[chosen(STATES)("state", text) for text in values["state"]],
            has_failed=given(query, "failed", flag, True),
            tags=[any_text("tag", text) for text in values["tag"]],
            conditions=[ConfigCondition.parse("config", text) for text in values["config"]],
            columns=columns,
            pin=pin,
            hide=[chosen(COLUMNS)("hide", name) for name in _names(query, "hide")],
            after=given(query, "after", count_in) or 0,
            splits=SplitChoice.parse(query),
            definition=definition_in(query),
            format=given(query, "format", chosen(FORMATS)) or "",
            size=size,
            over=given(query, "over", chosen(get_args(Over)), over),
        )

    @property
    def is_empty(self) -> bool:
        is_filtered = self.text or self.states or self.tags or self.conditions or self.splits.split
        return self.has_failed and not is_filtered

    def result(self, environments: Collection[str] | None = None) -> RunList:
        """Return the page. Raises: BadFilter for a split that no environment has.

        `environments`: names of those to which the key of the viewer is limited; None: no limit.
        """
        oldest = None if self.order.is_newest and not self.text else _oldest()
        rows = self._matches(environments, oldest)
        ids: Sequence[int] = ()
        if self.order.is_newest:
            runs, following, is_bounded = self._newest(rows.order_by("-pk"))
        else:
            ids = self._ids(rows)
            runs, following = self._part(ids)
            is_bounded = bool(oldest) and Run.objects.filter(pk__lt=oldest).exists()
        lines = lines_of(runs, self.viewer, self.definition, self.splits)
        places = set[str]()
        if self.order.is_within_places:
            rows_by_run = stored_totals(
                ids, definitions_in_force(self.definition), needs_content=False
            )
            rows_by_run = totals_in(self.splits, rows_by_run, self.viewer)
            places.update(played_places(rows_by_run, self.viewer).values())
        return RunList(runs, lines, following, is_bounded, ids, places)

    def ids(self) -> list[int]:
        """Return the ids of all runs of the list in its order, among the newest MAX_SORTED. Raises:
        BadFilter for a split that no environment has."""
        return self._ids(self._matches(None, _oldest()))

    def groups(self) -> list[ConfigGroup]:
        """Return the groups of the runs that meet the conditions, among the newest MAX_SORTED.
        Raises: BadFilter for a split that no environment has."""
        rows = self._matches(None, _oldest()).order_by("-pk")
        values = {
            pk: list(map(named_values(config, self.group).get, self.group))
            for pk, config in rows.values_list("pk", "config").iterator(CONFIGS_AT_ONCE)
            if not self.conditions or self._is_met(config)
        }
        definitions = definitions_in_force(self.definition)
        rows_by_run = totals_in(self.splits, stored_totals(values, definitions), self.viewer)
        totals_of = latest_by_run if self.over == "latest" else totals_by_run
        figures = GroupedRuns(
            totals_by_run(rows_by_run, definitions),
            totals_of(rows_by_run, definitions),
            played_places(rows_by_run, self.viewer),
            states_of(values),
        )
        return config_groups(values, figures, self.order)

    def _matches(self, environments: Collection[str] | None, oldest: int | None) -> QuerySet[Run]:
        """Return the runs that meet all conditions but those on configurations.

        `oldest`: id of the oldest run that is searched; None: all are.
        """
        rows = Run.objects.seen_by(self.viewer)
        if oldest is not None:  # the order of ids reads no more runs than a page has
            rows = rows.filter(pk__gte=oldest).listed()
        if self.name:
            rows = rows.named(self.name)
        if self.states:
            rows = rows.filter(state__in=self.states)
        if not self.has_failed:
            rows = rows.exclude(state="failed")
        if self.tags:
            rows = rows.filter(pk__in=Run.objects.filter(tags__name__in=self.tags).values("pk"))
        if self.splits.split:
            splits = Split.objects.filter(visible_environments(self.viewer, "environment"))
            if environments is not None:
                splits = splits.filter(environment__name__in=environments)
            rows = rows.filter(played_split(self.splits.split, splits, self.viewer))
        for word in dict.fromkeys(self.text.split()):
            tags = RunTag.objects.filter(run__gte=oldest or 0)
            with_tag = tags.filter(holding(tags, word, ["name"])).values("run")
            columns = ("name", "model", "notes")
            rows = rows.filter(holding(rows, word, columns, ["config"]) | Q(pk__in=with_tag))
        return rows

    def _ids(self, rows: QuerySet[Run]) -> list[int]:
        """Return the ids of those of the runs that meet the conditions, in order."""
        if self.conditions:
            configs = rows.order_by().values_list("pk", "config").iterator(CONFIGS_AT_ONCE)
            rows = Run.objects.filter(
                among("pk", [pk for pk, config in configs if self._is_met(config)])
            )
        definitions = definitions_in_force(self.definition)
        return self.order.ids(rows, definitions, self.splits, self.viewer, self.over)

    def _part(self, ids: Sequence[int]) -> tuple[list[Run], int | None]:
        """Return the runs of the page, and the id after which the next one starts. Raises:
        BadFilter."""
        if self.after and self.after not in ids:
            raise BadFilter("after", self.after, "the list has no such run now; begin without it")
        start = ids.index(self.after) + 1 if self.after else 0
        part = ids[start : start + self.size]
        runs = Run.objects.prefetch_related("tags").defer("notes").in_bulk(part)
        has_more = start + self.size < len(ids)
        return [runs[pk] for pk in part if pk in runs], part[-1] if has_more else None

    def _is_met(self, config: str) -> bool:
        values = named_values(config, [condition.name for condition in self.conditions])
        return bool(config) and all(condition.is_met(values) for condition in self.conditions)

    def _newest(self, rows: QuerySet[Run]) -> tuple[list[Run], int | None, bool]:
        """Return the runs of the page, the id after which the next one starts, and whether the
        search stopped before the last run."""
        if self.after:
            rows = rows.filter(pk__lt=self.after)
        rows_with_tags = rows.prefetch_related("tags").defer("notes")
        if not self.conditions:
            runs = list(rows_with_tags[: self.size + 1])
            has_more = len(runs) > self.size
            runs = runs[: self.size]
            return runs, runs[-1].pk if has_more else None, False
        # Configurations are JSON texts, which no index serves.
        ids, last, count = list[int](), 0, 0
        configs = rows.values_list("pk", "config")[:MAX_SEARCHED]
        for last, config in configs.iterator(CONFIGS_AT_ONCE):
            count += 1
            if self._is_met(config):
                ids.append(last)
            if len(ids) == self.size:
                break
        has_more = last > 0 and rows.filter(pk__lt=last).exists()
        runs = list(rows_with_tags.filter(pk__in=ids))
        return runs, last if has_more else None, count == MAX_SEARCHED and has_more


def _names(query: QueryDict, parameter: str) -> tuple[str, ...]:
    """Return the names in a parameter, each once. Raises: BadFilter."""
    names = [trimmed(name) for text in query.getlist(parameter) for name in text.split(",")]
    return tuple(dict.fromkeys(any_text(parameter, name) for name in names if name))


def _oldest() -> int:
    """Return the id of the oldest of the newest MAX_SORTED runs; 0 if there are fewer."""
    newest = Run.objects.order_by("-pk").values_list("pk", flat=True)
    return newest[MAX_SORTED - 1 : MAX_SORTED].first() or 0
