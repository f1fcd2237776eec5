"""Tokens that clients reported, along the points of a curve that was drawn.

A point's value is the mean over the attempts whose tokens are known. The newest MAX_EPISODES
episodes of a scope are read. Only rollouts that belong to their episode for certain count, and of
several of one episode the newest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, NamedTuple

from django.db.models import Q

from episodes.analytics.components import MAX_EPISODES, PointPlaces, newest_episodes_of
from episodes.analytics.curve import Curve
from episodes.attempts.conventions import ConventionsInForce
from episodes.attempts.endings import rows_of
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
            f"rollout{'' if self.attempts == 1 else 's'}"
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
    place_of = PointPlaces(curve)
    tokens_by_point: list[list[_Tokens]] = [[] for _ in curve.points]
    episodes_read = set[int]()
    for pk, end, step, *tokens in _rows(attempts):
        if pk not in episodes_read and (place := place_of(end, step)) is not None:
            tokens_by_point[place].append((tokens[0], tokens[1]))
        episodes_read.add(pk)
    counts = [point.n for point in curve.points]
    if floor:
        counts = [0] * len(counts)
        for end, step in rows_of(attempts.order_by().values_list("end_number", "run_step")):
            if (place := place_of(end, step)) is not None:
                counts[place] += 1
    points = [_point(*each) for each in zip(counts, tokens_by_point, strict=True)]
    note = (
        f"Tokens are those of the newest {MAX_EPISODES:,} episodes."
        if floor and episodes_read
        else ""
    )
    return TokenCurve(
        _point(sum(counts), [one for part in tokens_by_point for one in part]), points, note
    )


def _rows(attempts: Any) -> list[tuple[Any, ...]]:
    """Return id, `end_number`, training step, input and output tokens of the attempts with a
    rollout, newest first."""
    has_tokens = Q(rollouts__input_tokens__isnull=False) | Q(rollouts__output_tokens__isnull=False)
    found = attempts.filter(has_tokens, rollouts__joined_by__in=CERTAIN).order_by(
        "-pk", "-rollouts__pk"
    )
    columns = ("pk", "end_number", "run_step", "rollouts__input_tokens", "rollouts__output_tokens")
    return rows_of(found.values_list(*columns)[:MAX_ROLLOUTS])


def _point(attempts: int, values: Sequence[_Tokens]) -> TokenPoint:
    return TokenPoint(
        attempts, len(values), *(_mean([one[place] for one in values]) for place in (0, 1))
    )


def _mean(values: Sequence[int | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
