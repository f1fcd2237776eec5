"""The orders of the list of runs, and the totals of runs by which it is sorted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any, NamedTuple

from django.db.models import QuerySet
from django.utils import timezone
from pydantic_core import from_json

from environments.database.json_rows import among
from environments.filtering.parameters import LEGAL, BadFilter
from environments.models import Environment, Split, Viewer
from environments.scoring.definition import Definition, Definitions
from environments.scoring.returns import RETURNS
from episodes.attempts.endings import Epoch, rows_of
from episodes.attempts.rule import NO_CALL, OWN_KINDS
from episodes.attempts.sketches import above, count_of
from episodes.figures.curves.figure_menu import SCALAR
from episodes.figures.run_splits import SplitChoice, splits_of
from episodes.figures.runs.run_columns import CONFIG, column_values
from episodes.models import Run, RunTotal
from episodes.models.privacy import own_records
from episodes.runs.config_values import place_of_value

SILENT_SECONDS = 2 * 3600
"""Without an ended episode and a report of the trainer, after which a run is not called running."""
MAX_SORTED = 10_000
"""Runs that are searched and sorted, the newest ones."""


class RunSums(NamedTuple):
    """What counts of the episodes of a run in the split that the reader chose, or in all splits, as
    sums that can be added."""

    attempts: int = 0
    scored: int = 0
    """Attempts that have a return."""
    returns: float = 0.0
    successes: int = 0
    lengths: int = 0
    """Attempts whose steps count."""
    steps: float = 0.0

    @property
    def mean(self) -> float | None:
        return self.returns / self.scored if self.scored else None

    @property
    def success(self) -> float | None:
        return self.successes / self.attempts if self.attempts else None

    @property
    def length_mean(self) -> float | None:
        return self.steps / self.lengths if self.lengths else None


_FIGURES: dict[str, Callable[[RunSums], float | None]] = {
    "return": lambda totals: totals.mean,
    "success": lambda totals: totals.success,
    "attempts": lambda totals: totals.attempts,
    "steps": lambda totals: totals.length_mean,
}
_TEXTS = ("name", "model")
_OF_TOTALS = (*_FIGURES, "environment", "split", "last")
SORTS = (*_TEXTS, *_OF_TOTALS, "created")


class StoredTotal(NamedTuple):
    """Columns of RunTotal."""

    environment: int
    split: int
    """0: none."""
    ended: float
    content: tuple[Any, ...]
    """Endings by kind, steps, returns and expired episodes; empty if they were not read."""


_totals_kept = dict[tuple[Definition, bytes], RunSums]()
"""What counts of contents, by their digests: 10,000 runs take 0.3 s, and most have ended."""


def _totals_of(content: tuple[Any, ...], definition: Definition) -> RunSums:
    """Return what counts by the definition of the content of a row."""
    key = definition, blake2b(repr(content).encode(), digest_size=16).digest()
    if (totals := _totals_kept.get(key)) is None:
        if len(_totals_kept) >= 2 * MAX_SORTED:
            _totals_kept.clear()
        _totals_kept[key] = totals = _count(content, definition)
    return totals


def _count(content: tuple[Any, ...], definition: Definition) -> RunSums:
    convention = definition.convention
    treatments = convention.treatments
    causes, own_steps, own_returns, expired = content
    returns, steps = list(from_json(own_returns)), float(own_steps)
    attempts = zeros = lengths = 0
    for kind, count in from_json(causes).items():
        treatment = treatments.get(kind, "keep")
        attempts += count if treatment != "out" else 0
        zeros += count if treatment == "zero" else 0
        has_length = kind in OWN_KINDS or (kind == NO_CALL and convention.no_call != "out")
        lengths += count if has_length else 0
    if expired and convention.expired != "out":
        *sketches, late_lengths, _, _, _ = from_json(expired)
        lengths += count_of(late_lengths)
        steps += sum([length * count for length, count in late_lengths])
        if convention.expired == "keep":
            returns += sketches[RETURNS.index(definition.return_)]
    returns.append((0.0, zeros))
    total = sum([value * count for value, count in returns])
    successes = above(returns, definition.bar)
    return RunSums(attempts, count_of(returns), total, successes, lengths, steps)


def stored_totals(
    runs: Sequence[int], definitions: Definitions, *, needs_content: bool = True
) -> dict[int, list[StoredTotal]]:
    """Return the totals of each run that has ended episodes. One query.

    They are a little behind the episodes, by as much as the follower is.
    """
    columns: list[Any] = ["scope_id", "environment_id", "split_id", Epoch("ended")]
    if needs_content:
        columns += ["causes", "steps", definitions.value(), "expired"]
    rows = RunTotal.objects.filter(among("scope_id", runs), episodes__gt=0)
    totals = defaultdict[int, list[StoredTotal]](list)
    for run, environment, split, ended, *content in rows_of(rows.values_list(*columns)):
        totals[run].append(StoredTotal(environment, split, ended, tuple(content)))
    return totals


def totals_in(
    choice: SplitChoice, totals: Mapping[int, Sequence[StoredTotal]], viewer: Viewer
) -> dict[int, list[StoredTotal]]:
    """Return the totals of each run in the split that the choice shows. Two queries at most."""
    several = [run for run, rows in totals.items() if len({row.split for row in rows} - {0}) > 1]
    splits = splits_of(several, viewer)
    splits_by_run = {run: choice.of(splits.get(run, [])) for run in several}
    return {
        run: [row for row in rows if not (split := splits_by_run.get(run)) or row.split == split.pk]
        for run, rows in totals.items()
    }


def totals_by_run(
    stored: Mapping[int, Sequence[StoredTotal]], definitions: Definitions
) -> dict[int, RunSums]:
    """Return what counts of each run."""
    totals = dict[int, RunSums]()
    for run, rows in stored.items():
        parts = [_totals_of(row.content, definitions.of(row.environment)) for row in rows]
        totals[run] = parts[0] if len(parts) == 1 else RunSums(*map(sum, zip(*parts, strict=True)))
    return totals


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

    def check(self, viewer: Viewer) -> None:
        """Refuse an order by what others recorded in the runs of a key. Raises: BadFilter."""
        if self.name in _OF_TOTALS and own_records(viewer):
            names = f"{', '.join(_TEXTS)}, created, {CONFIG}NAME and {SCALAR}NAME"
            raise BadFilter("sort", str(self), f"a key can sort by {names}")

    def ids(
        self, runs: QuerySet[Run], definitions: Definitions, choice: SplitChoice, viewer: Viewer
    ) -> list[int]:
        """Return the ids of the runs in this order; equal ones newest first."""
        columns: list[Any] = ["pk", "state", Epoch("created"), Epoch("updated")]
        columns += [self.name] if self.name in _TEXTS else []
        rows: list[tuple[Any, ...]] = rows_of(runs.order_by("-pk").values_list(*columns))
        if column := self._column:
            values = column_values(runs, [column])
            rows = [(*row, place_of_value(values.get(row[0], {}).get(column))) for row in rows]
        stored = dict[int, list[StoredTotal]]()
        if self.name in _OF_TOTALS:
            runs_listed = [row[0] for row in rows]
            needs_content = self.name in _FIGURES
            stored = stored_totals(runs_listed, definitions, needs_content=needs_content)
        if self.name in (*_FIGURES, "split"):
            stored = totals_in(choice, stored, viewer)
        key = self._key(rows, stored, definitions)
        keys = {row[0]: key(row) for row in rows}
        known = [pk for pk, value in keys.items() if value is not None]
        known.sort(key=keys.__getitem__, reverse=self.is_descending)
        known += [pk for pk, value in keys.items() if value is None]
        running = [row for row in rows if row[1] == "running"]
        totals = stored_totals([row[0] for row in running], definitions, needs_content=False)
        active = {
            pk
            for pk, state, created, updated, *_ in running
            if not is_silent(state, last_activity(created, updated, totals.get(pk, ())))
        }
        return sorted(known, key=lambda pk: pk not in active)

    def _key(
        self,
        rows: Sequence[tuple[Any, ...]],
        stored: Mapping[int, Sequence[StoredTotal]],
        definitions: Definitions,
    ) -> Callable[[tuple[Any, ...]], Any]:
        """Return the function that returns the key of one of the `rows`, or None."""
        if self.name == "created":
            return lambda row: row[0]
        if self.name in _TEXTS:
            return lambda row: row[4].casefold() or None
        if self.name == "last":
            return lambda row: last_activity(row[2], row[3], stored.get(row[0], ()))
        if self.name in _FIGURES:
            figure, totals = _FIGURES[self.name], totals_by_run(stored, definitions)
            return lambda row: figure(totals[row[0]]) if row[0] in totals else None
        if self.name in ("environment", "split"):
            model: Any = Environment if self.name == "environment" else Split
            names: dict[int, str] = dict(model.objects.values_list("pk", "name"))
            return lambda row: min(
                [
                    names[pk]
                    for total in stored.get(row[0], ())
                    if (pk := getattr(total, self.name)) in names
                ],
                default=None,
            )
        return lambda row: row[4]


def last_activity(created: float, updated: float | None, totals: Sequence[StoredTotal]) -> float:
    """Return when an episode of a run ended or its trainer described it, or else it began, in
    seconds since the epoch."""
    return max([created, updated or 0.0, *(total.ended for total in totals)])


def last_activity_of(run: Run, totals: Sequence[StoredTotal]) -> datetime:
    """Return the same as `last_activity` as a time."""
    updated = run.updated.timestamp() if run.updated else None
    return datetime.fromtimestamp(last_activity(run.created.timestamp(), updated, totals), UTC)


def is_silent(state: str, last: float) -> bool:
    """Return whether a run is said to be running although nothing has come for SILENT_SECONDS.

    `last`: its last activity.
    """
    return state == "running" and timezone.now().timestamp() - last > SILENT_SECONDS


def silence_of(state: str, last: datetime) -> str:
    """Return how long ago the last activity of a run was, such as "5 h", if it is silent, otherwise
    an empty text."""
    if not is_silent(state, last.timestamp()):
        return ""
    hours = (timezone.now() - last) // timedelta(hours=1)
    return f"{hours} h" if hours < 48 else f"{hours // 24} d"
