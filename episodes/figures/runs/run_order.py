"""The orders of the list of runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from django.db.models import QuerySet

from environments.filtering.parameters import LEGAL, BadFilter
from environments.models import Environment, Split, Viewer
from environments.scoring.definition import Definitions
from episodes.attempts.endings import Epoch, rows_of
from episodes.figures.curves.figure_menu import SCALAR
from episodes.figures.run_splits import SplitChoice
from episodes.figures.runs.run_columns import CONFIG, column_values
from episodes.figures.runs.run_states import last_activity, states_of
from episodes.figures.runs.stored_totals import (
    RunSums,
    StoredTotal,
    latest_by_run,
    played_places,
    stored_totals,
    totals_by_run,
    totals_in,
)
from episodes.models import Run
from episodes.models.privacy import own_records
from episodes.runs.config_values import place_of_value

Over = Literal["latest", "all"]
"""What return and success of a run are over: its latest training steps, or all of its episodes."""
_FIGURES: dict[str, Callable[[RunSums], float | None]] = {
    "return": lambda totals: totals.mean,
    "success": lambda totals: totals.success,
    "attempts": lambda totals: totals.attempts,
    "steps": lambda totals: totals.length_mean,
}
_TEXTS = ("name", "model")
_OF_TOTALS = (*_FIGURES, "environment", "split", "last")
SORTS = (*_TEXTS, *_OF_TOTALS, "created")


@dataclass(frozen=True, slots=True)
class RunOrder:
    """An order of runs. Those that are running come first unless they are silent, those without a
    value last."""

    name: str
    """One of SORTS, or of those of columns (`order_by_column`)."""
    is_descending: bool

    @classmethod
    def parse(cls, parameter: str, text: str) -> RunOrder:
        """Return the order in a parameter of an address. Raises: BadFilter."""
        name = text.removeprefix("-")
        has_column = name.startswith((CONFIG, SCALAR)) and not name.endswith(".")
        if name not in SORTS and not has_column:
            names = f"{', '.join(SORTS)}, {CONFIG}NAME and {SCALAR}NAME"
            raise BadFilter(parameter, text, f"{LEGAL}{names}, each also with - in front")
        return cls(name, text.startswith("-"))

    def __str__(self) -> str:
        return f"{'-' if self.is_descending else ''}{self.name}"

    @property
    def _column(self) -> str:
        """The column by whose values it sorts; empty if it sorts by something else."""
        return self.name.removeprefix(CONFIG) if self.name.startswith((CONFIG, SCALAR)) else ""

    @property
    def is_newest(self) -> bool:
        """Whether it is the order of ids, in which a list has no end."""
        return self == RunOrder("created", is_descending=True)

    @property
    def is_within_places(self) -> bool:
        """Whether runs are sorted within each environment and split alone, because values of
        different ones say nothing about the runs."""
        return self.name in ("return", "success")

    def check(self, viewer: Viewer) -> None:
        """Refuse an order by what others recorded in the runs of a key. Raises: BadFilter."""
        if self.name in _OF_TOTALS and own_records(viewer):
            names = f"{', '.join(_TEXTS)}, created, {CONFIG}NAME and {SCALAR}NAME"
            raise BadFilter("sort", str(self), f"a key can sort by {names}")

    def ids(
        self,
        runs: QuerySet[Run],
        definitions: Definitions,
        choice: SplitChoice,
        viewer: Viewer,
        over: Over = "all",
    ) -> list[int]:
        """Return the ids of the runs in this order; equal ones newest first."""
        columns: list[Any] = ["pk", Epoch("created"), Epoch("updated")]
        columns += [self.name] if self.name in _TEXTS else []
        rows: list[tuple[Any, ...]] = rows_of(runs.order_by("-pk").values_list(*columns))
        ids = [row[0] for row in rows]
        if column := self._column:
            values = column_values(runs, [column])
            rows = [(*row, place_of_value(values.get(row[0], {}).get(column))) for row in rows]
        rows_by_run = dict[int, list[StoredTotal]]()
        if self.name in _OF_TOTALS:
            needs_content = self.name in _FIGURES
            rows_by_run = stored_totals(ids, definitions, needs_content=needs_content)
        if self.name in (*_FIGURES, "environment", "split"):
            rows_by_run = totals_in(choice, rows_by_run, viewer)
        if self.name in _FIGURES:
            totals_of = (
                latest_by_run if self.is_within_places and over == "latest" else totals_by_run
            )
            key = self._by_figure(totals_of(rows_by_run, definitions))
        else:
            key = self._by_row(rows_by_run)
        keys = {row[0]: key(row) for row in rows}
        result = [pk for pk, value in keys.items() if value is not None]
        result.sort(key=keys.__getitem__, reverse=self.is_descending)
        if self.is_within_places:
            result.sort(key=played_places(rows_by_run, viewer).__getitem__)
        result += [pk for pk, value in keys.items() if value is None]
        states = states_of(ids)
        return sorted(result, key=lambda pk: states.get(pk) != "running")

    def _by_figure(self, totals: Mapping[int, RunSums]) -> Callable[[tuple[Any, ...]], Any]:
        figure = _FIGURES[self.name]
        return lambda row: figure(totals[row[0]]) if row[0] in totals else None

    def _by_row(
        self, rows_by_run: Mapping[int, Sequence[StoredTotal]]
    ) -> Callable[[tuple[Any, ...]], Any]:
        """Return the function that returns the key of a row, or None."""
        if self.name == "created":
            return lambda row: row[0]
        if self.name in _TEXTS:
            return lambda row: row[3].casefold() or None
        if self.name == "last":
            return lambda row: last_activity(row[1], row[2], rows_by_run.get(row[0], ()))
        if self.name in ("environment", "split"):
            model: Any = Environment if self.name == "environment" else Split
            names: dict[int, str] = dict(model.objects.values_list("pk", "name"))
            return lambda row: min(
                [
                    names[pk]
                    for total in rows_by_run.get(row[0], ())
                    if (pk := getattr(total, self.name)) in names
                ],
                default=None,
            )
        return lambda row: row[3]
