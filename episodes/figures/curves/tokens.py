"""Tokens that clients reported, along the points of a curve that was drawn.

A point's value is the mean over the attempts whose tokens are known. The newest MAX_EPISODES
episodes of a scope are read. Only rollouts that belong to their episode for certain count, and of
several of one episode the newest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import fmean
from typing import NamedTuple

from django.db.models import Q

from episodes.attempts.conventions import ConventionsInForce
from episodes.attempts.endings import rows_of
from episodes.figures.curves.components import MAX_EPISODES, newest_episodes_of, places_of
from episodes.figures.curves.curve_points import Curve
from episodes.uploads.matching import CERTAIN

MAX_ROLLOUTS = 2 * MAX_EPISODES
"""Maximum number of rollouts that are read."""
_Tokens = tuple[int | None, int | None]
"""Input and output tokens of one rollout; None where the client reported none."""


class TokenPoint(NamedTuple):
    attempts: int
    """Number of attempts that were read."""
    known: int
    """Number of those whose tokens are known."""
    input_tokens: float | None
    """Mean of the attempts whose input tokens are known; None without any."""
    output_tokens: float | None
    """Mean of the attempts whose output tokens, which include those of reasoning, are known; None
    without any."""

    @property
    def text(self) -> str:
        return (
            f"tokens known for {self.known:,} of {self.attempts:,} "
            f"attempt{'' if self.attempts == 1 else 's'}"
        )


@dataclass(frozen=True, slots=True)
class TokenCurve:
    total: TokenPoint
    points: Sequence[TokenPoint]
    """One for each point of the curve, in order."""
    note: str
    """A sentence to show next to the curve; may be empty."""


def token_curve(curve: Curve) -> TokenCurve:
    """Return the tokens along the points of `curve`. Three queries at most."""
    episodes, floor = newest_episodes_of(curve)
    attempts = episodes.filter(ConventionsInForce.of_definitions(curve.definition).attempts)
    place_of = places_of(curve)
    tokens_by_point: list[list[_Tokens]] = [[] for _ in curve.points]
    episodes_read = set[int]()
    columns = ("pk", "end_number", "run_step", "rollouts__input_tokens", "rollouts__output_tokens")
    reports = attempts.filter(
        Q(rollouts__input_tokens__isnull=False) | Q(rollouts__output_tokens__isnull=False),
        rollouts__joined_by__in=CERTAIN,
    ).order_by("-pk", "-rollouts__pk")  # of several rollouts of an episode the newest counts
    for pk, end, step, *tokens in rows_of(reports.values_list(*columns)[:MAX_ROLLOUTS]):
        if pk not in episodes_read and (place := place_of(end, step)) is not None:
            tokens_by_point[place].append((tokens[0], tokens[1]))
        episodes_read.add(pk)
    counts = [point.n for point in curve.points]
    if floor:
        counts = [0] * len(counts)
        for end, step in rows_of(attempts.order_by().values_list("end_number", "run_step")):
            if (place := place_of(end, step)) is not None:
                counts[place] += 1
    points = [_point(count, tokens) for count, tokens in zip(counts, tokens_by_point, strict=True)]
    note = ""
    if floor and episodes_read:
        note = f"Tokens are those of the newest {MAX_EPISODES:,} episodes."
    return TokenCurve(_point(sum(counts), list(chain(*tokens_by_point))), points, note)


def _point(attempts: int, tokens: Sequence[_Tokens]) -> TokenPoint:
    inputs = [number for number, _ in tokens if number is not None]
    outputs = [number for _, number in tokens if number is not None]
    return TokenPoint(
        attempts,
        len(tokens),
        fmean(inputs) if inputs else None,
        fmean(outputs) if outputs else None,
    )
