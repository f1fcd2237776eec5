"""What a comparison of runs says in plain sentences, so that a higher return is not taken for a
better run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from environments.display.formats import percent
from environments.display.numbers import signed
from episodes.figures.comparison.run_comparison import Pairing, RunFigure
from episodes.models import Run


@dataclass(frozen=True, slots=True)
class Conclusion:
    run: Run
    """The one that the sentence is about."""
    text: str
    is_warning: bool
    """Whether the run may exploit its reward."""


def conclusions_of(pairing: Pairing) -> list[Conclusion]:
    """Return a conclusion for each run but the baseline; none below two shared tasks."""
    by_name = {runs.measure.name: runs for runs in pairing.measures}
    if "success" not in by_name:
        return []
    success, return_ = by_name["success"], by_name.get("return")
    return [
        _conclusion(
            success.runs[pairing.baseline],
            figure,
            (return_.runs[pairing.baseline], return_.runs[place]) if return_ else (),
        )
        for place, figure in enumerate(success.runs)
        if figure.evidence is not None
    ]


def _conclusion(first: RunFigure, other: RunFigure, returns: Sequence[RunFigure]) -> Conclusion:
    """Return what success says about the `other` run. `returns`: the returns of both; may be
    empty."""
    if other.evidence is None or not other.evidence.is_significant:
        rates = f"{first.run} {percent(first.mean)}%, {other.run} {percent(other.mean)}%"
        return Conclusion(other.run, f"No significant difference in success: {rates}.", False)
    worse, better = sorted((first, other), key=lambda figure: figure.mean)
    rates = f"{percent(worse.mean)}% against {percent(better.mean)}%"
    if returns:
        mean_by_run = {figure.run: figure.mean for figure in returns}
        if mean_by_run[worse.run] > mean_by_run[better.run]:
            means = f"{signed(mean_by_run[worse.run])} against {signed(mean_by_run[better.run])}"
            text = f"{worse.run} succeeds less often ({rates}) although its return is higher"
            return Conclusion(worse.run, f"{text} ({means}): check for reward hacking.", True)
    return Conclusion(
        other.run,
        f"{other.run} succeeds {'less' if worse is other else 'more'} often than {first.run}: "
        f"{percent(other.mean)}% against {percent(first.mean)}%.",
        False,
    )
