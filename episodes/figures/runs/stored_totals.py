"""What is stored of each run: sums over all of its episodes, and over the latest of its training
steps; and from these, where it was played.

Lists of runs are sorted by them, and groups, files and columns of runs show them. They are a little
behind the episodes, by as much as the follower is.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple

from pydantic_core import from_json

from environments.database.json_rows import among
from environments.models import Environment, Split, Viewer
from environments.scoring.definition import Definition, Definitions
from environments.scoring.returns import RETURNS
from environments.scoring.success_interval import interval
from episodes.attempts.endings import Epoch, rows_of
from episodes.attempts.rule import NO_CALL, OWN_KINDS
from episodes.attempts.sketches import above, count_of
from episodes.figures.run_splits import SplitChoice, splits_of
from episodes.models import LatestTotal, RunTotal

MAX_SORTED = 10_000
"""Runs that are searched and sorted, the newest ones."""


class RunSums(NamedTuple):
    """What counts of some episodes of a run, as sums that can be added."""

    attempts: int = 0
    scored: int = 0
    """Attempts that have a return."""
    returns: float = 0.0
    squares: float = 0.0
    """Of the returns."""
    successes: int = 0
    lengths: int = 0
    """Attempts whose steps count."""
    steps: float = 0.0

    @property
    def mean(self) -> float | None:
        return self.returns / self.scored if self.scored else None

    @property
    def error(self) -> float | None:
        """Standard error of the mean; None below two returns, or beyond what squares can hold."""
        if self.scored < 2 or not math.isfinite(self.squares):
            return None
        scatter = max(0.0, self.squares - self.returns / self.scored * self.returns)
        return math.sqrt(scatter / (self.scored - 1) / self.scored)

    @property
    def success(self) -> float | None:
        return self.successes / self.attempts if self.attempts else None

    @property
    def success_low(self) -> float | None:
        """Lower end of the 95 % interval; None without attempts."""
        return interval(self.successes, self.attempts).low if self.attempts else None

    @property
    def success_high(self) -> float | None:
        return interval(self.successes, self.attempts).high if self.attempts else None

    @property
    def length_mean(self) -> float | None:
        return self.steps / self.lengths if self.lengths else None


class StoredTotal(NamedTuple):
    """Columns of RunTotal."""

    environment: int
    split: int
    """0: none."""
    ended: float
    content: tuple[Any, ...]
    """Columns of _CONTENT; empty if they were not read."""


@dataclass(frozen=True, slots=True)
class LatestSteps:
    """The latest tenth of the training steps of a run."""

    low: int
    """The first of these training steps."""
    high: int
    totals: RunSums


MAX_TOTALS_KEPT = 4 * MAX_SORTED
"""Totals of runs in two splits, and of their latest training steps there."""
_totals_kept = dict[tuple[Definition, bytes], RunSums]()
"""What counts of contents, by their digests: 10,000 runs take 0.3 s, and most have ended."""


def _totals_of(content: tuple[Any, ...], definition: Definition) -> RunSums:
    """Return what counts by the definition of the content of a row."""
    key = definition, blake2b(repr(content).encode(), digest_size=16).digest()
    if (totals := _totals_kept.get(key)) is None:
        if len(_totals_kept) >= MAX_TOTALS_KEPT:
            _totals_kept.clear()
        _totals_kept[key] = totals = _count(content, definition)
    return totals


def _content(definitions: Definitions) -> tuple[Any, ...]:
    """Return the columns that `_count` takes: endings by kind, steps, returns, expired episodes and
    scatters."""
    return "causes", "steps", definitions.value(), "expired", "scatter"


def _count(content: tuple[Any, ...], definition: Definition) -> RunSums:
    convention = definition.convention
    treatments = convention.treatments
    causes, own_steps, own_returns, expired_content, own_scatters = content
    returns, steps = list(from_json(own_returns)), float(own_steps)
    scatters = [from_json(own_scatters)] if own_scatters else []
    attempts = zeros = lengths = 0
    for kind, count in from_json(causes).items():
        treatment = treatments.get(kind, "keep")
        attempts += count if treatment != "out" else 0
        zeros += count if treatment == "zero" else 0
        has_length = kind in OWN_KINDS or (kind == NO_CALL and convention.no_call != "out")
        lengths += count if has_length else 0
    if expired_content and convention.expired != "out":
        *sketches, late_lengths, _, _, late_scatters = from_json(expired_content)
        lengths += count_of(late_lengths)
        steps += sum([length * count for length, count in late_lengths])
        if convention.expired == "keep":
            returns += sketches[RETURNS.index(definition.return_)]
            scatters.append(late_scatters)
    returns.append((0.0, zeros))
    total = sum([value * count for value, count in returns])
    squares = sum([value * value * count for value, count in returns])
    rest = [scatter.get(definition.return_, 0.0) for scatter in scatters]
    squares += sum([scatter * scatter for scatter in rest])
    successes = above(returns, definition.bar)
    return RunSums(attempts, count_of(returns), total, squares, successes, lengths, steps)


def stored_totals(
    runs: Collection[int], definitions: Definitions, *, needs_content: bool = True
) -> dict[int, list[StoredTotal]]:
    """Return the totals of each run that has ended episodes. One query."""
    columns: list[Any] = ["scope_id", "environment_id", "split_id", Epoch("ended")]
    columns += _content(definitions) if needs_content else []
    rows = RunTotal.objects.filter(among("scope_id", runs), episodes__gt=0)
    totals = defaultdict[int, list[StoredTotal]](list)
    for run, environment, split, last_end, *content in rows_of(rows.values_list(*columns)):
        totals[run].append(StoredTotal(environment, split, last_end, tuple(content)))
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
    rows_by_run: Mapping[int, Sequence[StoredTotal]], definitions: Definitions
) -> dict[int, RunSums]:
    """Return what counts of each run."""
    return {
        run: _sum([_totals_of(row.content, definitions.of(row.environment)) for row in rows])
        for run, rows in rows_by_run.items()
    }


def _sum(parts: Sequence[RunSums]) -> RunSums:
    return parts[0] if len(parts) == 1 else RunSums(*map(sum, zip(*parts, strict=True)))


def latest_steps(
    splits: Mapping[int, Collection[int]], definitions: Definitions
) -> dict[int, LatestSteps]:
    """Return the latest tenth of the training steps of each run that has some: one of up to ten, two
    of up to twenty. One query.

    `splits`: by run, the one whose episodes count, 0 for none; several or no splits for all. Of more
    than 256 training steps the first one of the tenth may be up to a 128th of them earlier.
    """
    columns = ("scope_id", "environment_id", "split_id", "step_low", "step_high")
    rows = LatestTotal.objects.filter(among("scope_id", splits))
    rows_by_run = defaultdict[int, list[tuple[Any, ...]]](list)
    for run, *row in rows_of(rows.values_list(*columns, *_content(definitions))):
        rows_by_run[run].append(tuple(row))
    latest = dict[int, LatestSteps]()
    for run, some in rows_by_run.items():
        if len(splits[run]) == 1:
            some = [row for row in some if row[1] in splits[run]]
        elif any(row[1] == LatestTotal.ALL_SPLITS for row in some):
            some = [row for row in some if row[1] == LatestTotal.ALL_SPLITS]
        if some:
            low, high = min(row[2] for row in some), max(row[3] for row in some)
            parts = [_totals_of(row[4:], definitions.of(row[0])) for row in some]
            latest[run] = LatestSteps(low, high, _sum(parts))
    return latest


def latest_by_run(
    rows_by_run: Mapping[int, Sequence[StoredTotal]], definitions: Definitions
) -> dict[int, RunSums]:
    """Return what counts of the latest training steps of each run, or of all of its episodes if it
    has no training steps."""
    splits = {run: {row.split for row in rows} for run, rows in rows_by_run.items()}
    latest = latest_steps(splits, definitions)
    others = {run: rows for run, rows in rows_by_run.items() if run not in latest}
    return totals_by_run(others, definitions) | {run: steps.totals for run, steps in latest.items()}


def played_places(
    rows_by_run: Mapping[int, Sequence[StoredTotal]], viewer: Viewer
) -> dict[int, str]:
    """Return where the episodes of each run were played, such as `math train`. Two queries."""
    environments = dict(Environment.objects.seen_by(viewer).values_list("pk", "name"))
    splits = dict(Split.objects.seen_by(viewer).values_list("pk", "name"))
    places, texts = dict[int, str](), dict[frozenset[tuple[int, int]], str]()
    for run, rows in rows_by_run.items():
        ids = frozenset([(row.environment, row.split) for row in rows])
        if (text := texts.get(ids)) is None:
            pairs = {(environments.get(pk, ""), splits.get(split, "")) for pk, split in ids}
            names = [{name for name in names if name} for names in zip(*pairs, strict=True)]
            texts[ids] = text = " ".join(", ".join(sorted(part)) for part in names if part)
        places[run] = text
    return places
