"""A gap between the success on train splits and on test splits."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from environments.scoring.task_buckets import interval
from episodes.analytics.curve import curve
from episodes.doctor.findings import DoctorVerdict, check, fine, problem, too_little
from episodes.doctor.scope import DoctorScope

MAX_SPLITS = 20
"""Splits whose episodes are counted, the first ones."""


class _SplitSuccess(NamedTuple):
    split: str
    attempts: int
    successes: int


def _by_type(scope: DoctorScope) -> dict[str, list[_SplitSuccess]]:
    """Return the successes on each split: of a run among its newest attempts, otherwise among
    all."""
    found: dict[str, list[_SplitSuccess]] = defaultdict(list)
    splits = scope.environment.splits.filter(type__in=("train", "test"), is_curated=False)
    for split in splits.order_by("position", "name")[:MAX_SPLITS]:
        if scope.run:
            wins = [
                attempt.is_success(scope.definition)
                for attempt in scope.attempts
                if attempt.split == split.pk
            ]
            counted = len(wins), sum(wins)
        else:
            points = curve(scope.part(split=split.name), scope.definition, points=1).points
            counted = sum(point.n for point in points), sum(point.successes for point in points)
        if counted[0]:
            found[split.type].append(_SplitSuccess(split.name, *counted))
    return found


@check("Gap between train and test", "gap", "attempts")
def train_test_gap(scope: DoctorScope) -> DoctorVerdict:
    if scope.split is not None:
        return too_little("The gap is between splits; choose the whole environment.")
    found, needed = _by_type(scope), scope.thresholds.attempts
    train, test = (
        (sum(one.attempts for one in found[kind]), sum(one.successes for one in found[kind]))
        for kind in ("train", "test")
    )
    if min(train[0], test[0]) < needed:
        counts = f"{train[0]:,} on train splits and {test[0]:,} on test splits"
        return too_little(f"This needs {needed:,} attempts on each and has {counts}.")
    rates = train[1] / train[0], test[1] / test[0]
    on_train, on_test = f"{rates[0]:.0%} of {train[0]:,} attempts", f"{rates[1]:.0%} of {test[0]:,}"
    sentence = f"{on_train} on train splits and {on_test} on test splits succeed."
    lows, highs = zip(*(interval(wins, count) for count, wins in (train, test)), strict=True)
    if abs(rates[0] - rates[1]) < scope.thresholds.gap or max(lows) <= min(highs):
        return fine(sentence)
    names = [one.split for kind in ("train", "test") for one in found[kind]]
    return problem(sentence, *(scope.listed(f"Attempts on {name}", split=name) for name in names))
