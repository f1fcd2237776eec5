"""A gap between the success on train splits and on test splits, of the same agents."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from environments.scoring.success_interval import interval
from episodes.doctor.checks import check
from episodes.doctor.findings import DoctorFinding, no_problem, problem, too_little
from episodes.doctor.scope import DoctorScope, SampledAttempt
from episodes.models import Run

MAX_SPLITS = 20
"""Splits whose episodes are counted, the first ones."""


class Gap(NamedTuple):
    """Attempts and successes of a run, or of a model without one, on train and on test splits."""

    run: Run | None
    model: str
    train: tuple[int, int]
    """Successes and attempts."""
    test: tuple[int, int]

    @property
    def attempts(self) -> int:
        """Attempts on the side that has fewer."""
        return min(self.train[1], self.test[1])

    @property
    def size(self) -> float:
        """Difference of the success rates; 0.0 where their intervals overlap."""
        lows, highs = zip(interval(*self.train), interval(*self.test), strict=True)
        rates = [successes / attempts for successes, attempts in (self.train, self.test)]
        return abs(rates[0] - rates[1]) if max(lows) > min(highs) else 0.0

    @property
    def sentence(self) -> str:
        rates = [
            f"{successes / attempts:.0%} of {attempts:,} attempts on {kind} splits"
            for kind, (successes, attempts) in (("train", self.train), ("test", self.test))
        ]
        return f"{' and '.join(rates)} succeed."


@check("Gap between train and test", "gap", "attempts")
def train_test_gap(scope: DoctorScope) -> DoctorFinding:
    if scope.split is not None:
        return too_little("The gap is between splits; choose the whole environment.")
    splits = scope.environment.splits.filter(type__in=("train", "test"), is_curated=False)
    types = dict(splits.order_by("position", "name").values_list("pk", "type")[:MAX_SPLITS])
    gaps = []
    for run, attempts in scope.attempts_by_run.items():
        by_model = defaultdict[str, list[SampledAttempt]](list)
        for attempt in attempts:
            by_model["" if run else attempt.model].append(attempt)
        for model, some in by_model.items():
            train, test = (_successes(scope, some, types, kind) for kind in ("train", "test"))
            gaps.append(Gap(run, model, train, test))
    minimum = scope.thresholds["attempts"]
    largest = max(gaps, key=lambda gap: gap.attempts, default=Gap(None, "", (0, 0), (0, 0)))
    if largest.attempts < minimum:
        by_whom = "" if scope.run else " by the same run or model"
        return too_little(
            f"Needs {minimum:,} attempts on each side{by_whom}: train "
            f"{largest.train[1]:,}, test {largest.test[1]:,}. Runs are not joined, such as a "
            "training and its evaluation: the name of a model does not say which checkpoint played."
        )
    gap = max((gap for gap in gaps if gap.attempts >= minimum), key=lambda gap: gap.size)
    name = gap.run.name if gap.run else gap.model
    sentence = gap.sentence if scope.run or not name else f"{name}: {gap.sentence}"
    if gap.size < scope.thresholds["gap"] or not gap.size:
        return no_problem(sentence)
    whose = {"run": name} if gap.run else {"model": name} if name else {}
    names = splits.filter(pk__in=types).order_by("-type", "position", "name")
    return problem(
        sentence,
        *(
            scope.link_to(f"Attempts on {split}", split=split, **whose)
            for split in names.values_list("name", flat=True)
        ),
    )


def _successes(
    scope: DoctorScope, attempts: Sequence[SampledAttempt], types: dict[int, str], kind: str
) -> tuple[int, int]:
    """Return the successes and the number of the attempts on splits of this type."""
    successes = [
        attempt.is_success(scope.definition)
        for attempt in attempts
        if attempt.split is not None and types.get(attempt.split) == kind
    ]
    return sum(successes), len(successes)
