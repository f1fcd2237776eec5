"""States of groups: what is known of the rollouts at one task in one training step of a run, as
they end one by one.

A group is *flat* if all returns that count are equal, so that a group-relative update learns
nothing from it. Which rollouts count depends on the convention, so a state keeps the range and the
moments of the returns by kind of ending. Its *signature* has all that decides between flat and not
flat by any definition of return and any convention, and only a few different ones occur. Rollups
therefore count signatures (StepSpan.groups), and add up the standard deviations within groups by
those parts of a convention that matter to them (StepSpan.deviations). Readers apply a definition.

Nothing here reads the database.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple, Self

from environments.scoring.convention import CONVENTION_PARTS, NUMBERLESS_KINDS
from environments.scoring.definition import Definition
from environments.scoring.returns import RETURNS
from episodes.attempts.endings import bounded
from episodes.attempts.rule import OWN_KINDS

MAX_FLAT_RANGE = 2e-8
"""Difference between the highest and the lowest return up to which a group is flat, because sums of
floats are rounded. The standard deviation of such returns is at most 1e-8. Source: TRL's
GRPOTrainer, which compares with `torch.isclose(std, 0)`.
"""
_KINDS = tuple(CONVENTION_PARTS)
_LETTERS = [[treatment[0] for treatment in treatments] for treatments in CONVENTION_PARTS.values()]
_EXPIRED = _KINDS.index("expired")


class _Returns(NamedTuple):
    """Returns of one kind within a group."""

    n: int = 0
    low: float = 0.0
    high: float = 0.0
    mean: float = 0.0
    deviation: float = 0.0
    """Standard deviation of the population."""

    def with_value(self, value: float) -> _Returns:
        low, high = (min(self.low, value), max(self.high, value)) if self.n else (value, value)
        return _Returns(self.n, low, high, *self[3:]).with_others(1, bounded(value))

    def with_others(self, n: int, mean: float, deviation: float = 0.0) -> _Returns:
        """Return the moments of these and of `n` others; the range stays."""
        if not n:
            return self
        if not self.n:
            return _Returns(n, self.low, self.high, mean, deviation)
        total, apart = self.n + n, mean - self.mean
        within = self.deviation * math.sqrt(self.n / total), deviation * math.sqrt(n / total)
        between = apart * (math.sqrt(self.n * n) / total)
        # squares may overflow
        return _Returns(
            total,
            self.low,
            self.high,
            self.mean + apart * (n / total),
            math.hypot(*within, between),
        )


_NO_RETURNS = _Returns()


class GroupCount(NamedTuple):
    groups: int
    """Groups with two returns that count, or more."""
    flat: int
    """Those groups in which all returns are equal."""
    deviations: float = 0.0
    """Sum of the standard deviations of the returns within these groups."""

    @property
    def deviation(self) -> float | None:
        """Return the mean of the standard deviations within groups; None without groups."""
        return self.deviations / self.groups if self.groups else None

    @property
    def flat_share(self) -> float | None:
        """Return the share of the groups that are flat, 0 to 1; None without groups."""
        return self.flat / self.groups if self.groups else None


def counts_together(counts: Iterable[GroupCount]) -> GroupCount:
    parts = list(counts)
    sums = (sum(part.groups for part in parts), sum(part.flat for part in parts))
    return GroupCount(*sums, math.fsum(part.deviations for part in parts))


@dataclass(slots=True)
class GroupTally:
    """Groups counted together, so that any definition can still be applied."""

    signatures: dict[str, int] = field(default_factory=dict)
    """Number of groups by signature."""
    deviations: dict[str, list[float]] = field(default_factory=dict)
    """Sums of standard deviations by definition of return, by code: see `GroupState.deviations`."""

    def add(self, other: GroupTally, times: int = 1) -> None:
        """Add another tally; `times` -1 takes it away."""
        for signature, count in other.signatures.items():
            self.signatures[signature] = self.signatures.get(signature, 0) + times * count
            if not self.signatures[signature]:
                del self.signatures[signature]
        for code, values in other.deviations.items():
            sums = self.deviations.get(code) or [0.0] * len(RETURNS)
            self.deviations[code] = [
                total + times * value for total, value in zip(sums, values, strict=True)
            ]

    @property
    def texts(self) -> tuple[str, str]:
        """The numbers by signature and the sums of deviations as a database stores them; empty
        without any."""
        sums = {
            code: [round(value, _DIGITS) for value in values]
            for code, values in self.deviations.items()
        }
        sums = (
            {code: values for code, values in sums.items() if any(values)}
            if self.signatures
            else {}
        )
        return _compact_json(self.signatures), _compact_json(sums)

    @classmethod
    def from_texts(cls, signatures: str, deviations: str) -> Self:
        return cls(json.loads(signatures or "{}"), json.loads(deviations or "{}"))


_DIGITS = 12
"""Decimals of sums of deviations: what is less is left over from additions and subtractions."""


def _compact_json(value: object) -> str:
    return json.dumps(value, separators=(",", ":")) if value else ""


@dataclass(slots=True)
class GroupState:
    counts: list[int] = field(default_factory=lambda: [0] * len(_KINDS))
    """Rollouts by part of the convention."""
    own: list[_Returns] = field(default_factory=lambda: [_NO_RETURNS] * len(RETURNS))
    """Returns of rollouts that finished or were abandoned, by definition of return."""
    expired: list[_Returns] = field(default_factory=lambda: [_NO_RETURNS] * len(RETURNS))

    def add(self, kind: str, returns: Iterable[float | None]) -> None:
        """Add a rollout. `returns`: in the order of RETURNS."""
        if kind in OWN_KINDS:
            self.own = _with(self.own, returns)
            return
        cause = NUMBERLESS_KINDS.get(kind, kind)
        self.counts[_KINDS.index("env_error" if cause == "setup_failed" else cause)] += 1
        if cause == "expired":
            self.expired = _with(self.expired, returns)

    @property
    def text(self) -> str:
        """The state as a database stores it: without counts that are all 0, and equal ranges
        once."""
        counts = self.counts if any(self.counts) else []
        ranges = [_short(self.own), _short(self.expired) if self.counts[_EXPIRED] else 0]
        return json.dumps([counts, *ranges], separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> GroupState:
        counts, own_returns, expired_returns = json.loads(text)
        state = cls()
        state.counts, state.own = counts or state.counts, _long(own_returns)
        if expired_returns:
            state.expired = _long(expired_returns)
        return state

    @property
    def signature(self) -> str:
        """Return the numbers of rollouts by kind (0, 1, or 2 for more), then four letters per
        definition of return.

        These are the number of own returns and what they are (- none, 0 all 0, c all equal, m not),
        and the same for expired rollouts, where = stands for those that all equal the own returns.
        """
        parts = [str(min(count, 2)) for count in self.counts]
        for own_returns, expired_returns in zip(self.own, self.expired, strict=True):
            parts += [_letters(own_returns), _letters(expired_returns, own_returns)]
        return "".join(parts)

    @property
    def deviations(self) -> dict[str, list[float]]:
        """Return the standard deviation of the returns that count, by definition of return, for
        each convention.

        The keys are codes of conventions (`Convention.code`) with - for the parts of which there is
        no rollout, so most groups have a single key. Keys whose deviations are all 0 are left out.
        """
        choices = [
            letters if count else ["-"]
            for letters, count in zip(_LETTERS, self.counts, strict=True)
        ]
        deviations = {"".join(letters): self._deviations(letters) for letters in product(*choices)}
        return {code: values for code, values in deviations.items() if any(values)}

    def _deviations(self, letters: Sequence[str]) -> list[float]:
        zeros = sum(
            count for letter, count in zip(letters, self.counts, strict=True) if letter == "z"
        )
        late = self.expired if letters[_EXPIRED] == "k" else [_NO_RETURNS] * len(RETURNS)
        both = (
            own.with_others(other.n, other.mean, other.deviation)
            for own, other in zip(self.own, late, strict=True)
        )
        return [other.with_others(zeros, 0.0).deviation for other in both]

    @property
    def tally(self) -> GroupTally:
        return GroupTally({self.signature: 1}, self.deviations)


def _short(rows: list[_Returns]) -> list[_Returns]:
    return rows[:1] if all(row == rows[0] for row in rows) else rows


def _long(rows: list[list[float]]) -> list[_Returns]:
    returns = [_Returns(int(n), *values) for n, *values in rows]
    return returns * len(RETURNS) if len(returns) == 1 else returns


def _with(rows: Sequence[_Returns], values: Iterable[float | None]) -> list[_Returns]:
    """Return the returns by definition of one rollout more, which may lack some."""
    return [
        returns if value is None else returns.with_value(value)
        for returns, value in zip(rows, values, strict=True)
    ]


def _letters(returns: _Returns, own: _Returns = _NO_RETURNS) -> str:
    count, low, high, *_ = returns
    if not count:
        return "0-"
    if high - low > MAX_FLAT_RANGE:
        return f"{min(count, 2)}m"
    if own.n and max(high, own.high) - min(low, own.low) <= MAX_FLAT_RANGE:
        return f"{min(count, 2)}="
    return f"{min(count, 2)}{'0' if max(abs(low), abs(high)) <= MAX_FLAT_RANGE else 'c'}"


class GroupCounter:
    """Counts groups by one definition. Remembers what each signature and each code of a convention
    means, because points share nearly all of them.
    """

    def __init__(self, definition: Definition) -> None:
        self._definition = definition
        self._code, self._place = definition.convention.code, RETURNS.index(definition.return_)
        self._judged: dict[str, tuple[bool, bool]] = {}
        self._fits: dict[str, bool] = {}

    def count(self, *tallies: GroupTally) -> GroupCount:
        """Return the number of groups, of flat ones among them, and the sum of their deviations."""
        groups = flat = 0
        deviations = list[float]()
        for tally in tallies:
            for signature, many in tally.signatures.items():
                if signature not in self._judged:
                    returns, is_flat = _judged(signature, self._definition)
                    self._judged[signature] = returns > 1, returns > 1 and is_flat
                is_group, is_flat = self._judged[signature]
                groups += many * is_group
                flat += many * is_flat
            deviations += [
                values[self._place]
                for code, values in tally.deviations.items()
                if self._is_fitting(code)
            ]
        return GroupCount(groups, flat, max(0.0, math.fsum(deviations)))

    def _is_fitting(self, code: str) -> bool:
        """Return whether the convention applies to a group in the way of this code (see
        `GroupState.deviations`)."""
        if code not in self._fits:
            self._fits[code] = all(
                letter in ("-", own) for letter, own in zip(code, self._code, strict=True)
            )
        return self._fits[code]


def _judged(signature: str, definition: Definition) -> tuple[int, bool]:
    """Return the number of returns that count (0, 1, or any larger number for more), and whether
    all are equal."""
    convention, place = definition.convention, len(_KINDS) + 4 * RETURNS.index(definition.return_)
    own_count, own_returns, expired_count, expired_returns = (
        signature[at] for at in range(place, place + 4)
    )
    zeros = sum(
        int(signature[at]) for at, part in enumerate(_KINDS) if getattr(convention, part) == "zero"
    )
    values, count = [own_returns], int(own_count) + zeros
    if convention.expired == "keep":
        count += int(expired_count)
        values.append(own_returns if expired_returns == "=" else expired_returns)
    if zeros:
        values.append("0")
    present = {value for value in values if value != "-"}
    # two constants are equal only where the signature says so
    is_equal = len(present) < 2 and (
        expired_returns in "-=0" or own_returns == "-" or convention.expired != "keep"
    )
    return count, is_equal and "m" not in present
