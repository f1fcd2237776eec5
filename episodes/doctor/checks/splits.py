"""A gap between the success on train splits and on test splits."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from environments.scoring.task_buckets import interval
from episodes.doctor.checks import check
from episodes.doctor.findings import DoctorFinding, no_problem, problem, too_little
from episodes.doctor.scope import DoctorScope
from episodes.figures.curves.curve import curve

MAX_SPLITS = 20
"""Splits whose episodes are counted, the first ones."""


class SplitSuccess(NamedTuple):
    split: str
    attempts: int
    successes: int


@check("Gap between train and test", "gap", "attempts")
def train_test_gap(scope: DoctorScope) -> DoctorFinding:
    if scope.split is not None:
        return too_little("The gap is between splits; choose the whole environment.")
    splits, minimum = _by_type(scope), scope.thresholds["attempts"]
    train, test = (
        (
            sum(split.successes for split in splits[kind]),
            sum(split.attempts for split in splits[kind]),
        )
        for kind in ("train", "test")
    )
    if min(train[1], test[1]) < minimum:
        counts = f"{train[1]:,} on train splits and {test[1]:,} on test splits"
        return too_little(f"This needs {minimum:,} attempts on each and has {counts}.")
    on_train, on_test = train[0] / train[1], test[0] / test[1]
    sentence = (
        f"{on_train:.0%} of {train[1]:,} attempts on train splits and {on_test:.0%} of "
        f"{test[1]:,} on test splits succeed."
    )
    lows, highs = zip(interval(*train), interval(*test), strict=True)
    if abs(on_train - on_test) < scope.thresholds["gap"] or max(lows) <= min(highs):
        return no_problem(sentence)
    names = [split.split for split in (*splits["train"], *splits["test"])]
    return problem(sentence, *(scope.link_to(f"Attempts on {name}", split=name) for name in names))


def _by_type(scope: DoctorScope) -> dict[str, list[SplitSuccess]]:
    """Return the successes on each split: of a run among its newest attempts, otherwise among
    all."""
    results: dict[str, list[SplitSuccess]] = defaultdict(list)
    splits = scope.environment.splits.filter(type__in=("train", "test"), is_curated=False)
    for split in splits.order_by("position", "name")[:MAX_SPLITS]:
        if scope.run:
            successes = [
                attempt.is_success(scope.definition)
                for attempt in scope.attempts
                if attempt.split == split.pk
            ]
            counts = len(successes), sum(successes)
        else:
            points = curve(scope.part(split=split.name), scope.definition, points=1).points
            counts = sum(point.n for point in points), sum(point.successes for point in points)
        if counts[0]:
            results[split.type].append(SplitSuccess(split.name, *counts))
    return results
