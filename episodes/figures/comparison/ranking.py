"""Many runs that are compared as a ranking: a row for each run, with a point and an interval for each
measure, all on the scale of their measure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from environments.scoring.convention import Coverage
from episodes.figures.comparison.measures import Measure
from episodes.figures.comparison.run_comparison import Pairing, RunFigure
from episodes.models import Run

WIDTH = 84
MARGIN = 6
"""Beside the outermost point or end of an interval."""


@dataclass(frozen=True, slots=True)
class RankedPoint:
    """One run by one measure; places are pixels from the left."""

    figure: RunFigure
    x: float
    low: float
    """Ends of the interval of the difference from the baseline, around its mean; those of the mean
    itself for the baseline."""
    high: float
    baseline: float


@dataclass(frozen=True, slots=True)
class RankedRun:
    run: Run
    rank: int
    """Place by the first measure, from 1."""
    is_baseline: bool
    coverage: Coverage
    settings: Sequence[str | None]
    """What differs between the configurations of the runs; None where it is not reported."""
    points: Sequence[RankedPoint]
    """By measure, in the order of `measures_of`."""


def measures_of(pairing: Pairing) -> list[Measure]:
    """Return the measures of the ranking, the one that ranks first."""
    order = ("success", "return", "length", "tokens")
    measures = [line.measure for line in pairing.measures]
    return sorted(measures, key=lambda measure: order.index(measure.name))


def ranking_of(
    runs: Sequence[Run], pairing: Pairing, settings: Sequence[Sequence[str | None]]
) -> list[RankedRun]:
    """Return the runs: first the baseline, then the others by rank. `settings`: by run."""
    lines = {line.measure: line.runs for line in pairing.measures}
    if not (measures := measures_of(pairing)):
        return []
    points = [_points(lines[measure], pairing.baseline) for measure in measures]
    first = lines[measures[0]]
    ranks = sorted(range(len(runs)), key=lambda place: -first[place].mean)
    rows = [
        RankedRun(
            runs[place],
            rank,
            place == pairing.baseline,
            pairing.coverage[place],
            settings[place],
            [by_run[place] for by_run in points],
        )
        for rank, place in enumerate(ranks, start=1)
    ]
    return sorted(rows, key=lambda row: not row.is_baseline)


def _points(figures: Sequence[RunFigure], baseline: int) -> list[RankedPoint]:
    base = figures[baseline].mean
    spans = list[tuple[float, float, float]]()
    for figure in figures:
        if figure.evidence is None:
            low, high = figure.mean - (figure.reach or 0.0), figure.mean + (figure.reach or 0.0)
        else:
            low, high = base + figure.evidence.low, base + figure.evidence.high
        spans.append((figure.mean, min(low, figure.mean), max(high, figure.mean)))
    least, most = min(low for _, low, _ in spans), max(high for *_, high in spans)

    def place(value: float) -> float:
        # halves cannot overflow
        width = most / 2 - least / 2
        share = (value / 2 - least / 2) / width if width else 0.5
        return round(MARGIN + share * (WIDTH - 2 * MARGIN), 1)

    return [
        RankedPoint(figure, place(mean), place(low), place(high), place(base))
        for figure, (mean, low, high) in zip(figures, spans, strict=True)
    ]
