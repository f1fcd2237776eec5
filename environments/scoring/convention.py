"""The convention: how figures count rollouts that did not end by the agent's own play.

A *rollout* is an ended episode that is neither a probe nor a continuation. One that finished or was
abandoned counts with its return. For each of the other kinds the convention says how it counts:
`keep` with its own return, `zero` with a return of 0, `out` not at all. A class declares its
convention, and an address can ask for another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Literal, Self

Treatment = Literal["keep", "zero", "out"]
CONVENTION_PARTS: Mapping[str, tuple[Treatment, ...]] = {
    "no_call": ("zero", "out"),
    "expired": ("keep", "zero", "out"),
    "interrupted": ("out", "zero"),
    "env_error": ("out", "zero"),
}
"""Allowed values of each part of a convention, the default first. `env_error` covers failed setups
too."""
NUMBERLESS = "numberless"
"""Name of a count beside those of kinds of endings: rollouts that count with their own return,
which lacks a reward that was not a number."""
COUNTED_PARTS = (*CONVENTION_PARTS, NUMBERLESS)
"""Names of what is counted of the attempts at a task, besides the attempts."""
NUMBERLESS_KINDS: Mapping[str, str] = {
    f"{kind}_nan": kind for kind in ("", "finished", "abandoned", "expired")
}
"""Kinds of endings of rollouts with a reward that was not a number -> the kinds of other such
endings."""
ENVIRONMENT_FAILURES = ("env_error", "setup_failed")
"""Kinds of endings by a failure of the environment."""
FAILURE_KINDS = ("interrupted", *ENVIRONMENT_FAILURES)
_NO_ROLLOUTS = ("probe", "continued")
_LETTERS: Mapping[str, Treatment] = {"k": "keep", "z": "zero", "o": "out"}
_WORDS = {
    "no_call": "no call",
    "expired": "expired",
    "interrupted": "interrupted",
    "env_error": "environment error",
    "setup_failed": "setup failed",
}


@dataclass(frozen=True, slots=True)
class Convention:
    """How rollouts of each kind of ending count in figures."""

    no_call: Treatment = "zero"
    expired: Treatment = "keep"
    interrupted: Treatment = "out"
    env_error: Treatment = "out"

    @property
    def code(self) -> str:
        """One letter for each part, in the order of CONVENTION_PARTS: k(eep), z(ero) or o(ut)."""
        return "".join(getattr(self, field.name)[0] for field in fields(self))

    @classmethod
    def from_code(cls, code: str) -> Self:
        """Return the convention with this code, as `Environment.convention` stores it."""
        return cls(*(_LETTERS[letter] for letter in code))

    @property
    def treatments(self) -> Mapping[str, Treatment]:
        """How each kind of ending counts (`episodes.attempts.rule.KIND`); probes and continuations
        are `out`."""
        return _treatments(self)

    def parameters(self, own: Convention) -> dict[str, str]:
        """Return the parts that differ from the convention `own`, as parameters of an address for
        which `own` is in force."""
        return {
            name: value
            for name in CONVENTION_PARTS
            if (value := getattr(self, name)) != getattr(own, name)
        }

    def __str__(self) -> str:
        """Return the parts that differ from the default; empty for the default convention."""
        return ", ".join(f"{name}={value}" for name, value in self.parameters(Convention()).items())


STANDARD = Convention()
"""The convention that holds unless a class or an address says otherwise."""


def convention_declared(parts: object) -> Convention:
    """Return the convention that a class declares, a mapping from parts to values.

    Raises: ValueError with a sentence that says what is allowed.
    """
    if not isinstance(parts, Mapping):
        raise ValueError(
            f"convention is {parts!r}; it must be a mapping such as {{'no_call': 'out'}}."
        )
    for part, value in parts.items():
        if part not in CONVENTION_PARTS:
            raise ValueError(
                f"convention has the part {part!r}; there are {', '.join(CONVENTION_PARTS)}."
            )
        if value not in CONVENTION_PARTS[part]:
            values = " or ".join(map(repr, CONVENTION_PARTS[part]))
            raise ValueError(f"convention says {part!r}: {value!r}; use {values}.")
    return Convention(**parts)


@cache
def _treatments(convention: Convention) -> Mapping[str, Treatment]:
    return {
        **dict.fromkeys(("", "_nan"), "keep"),
        **dict.fromkeys(("finished", "finished_nan"), "keep"),
        **dict.fromkeys(("abandoned", "abandoned_nan"), "keep"),
        "no_call": convention.no_call,
        **dict.fromkeys(("expired", "expired_nan"), convention.expired),
        "interrupted": convention.interrupted,
        "env_error": convention.env_error,
        "setup_failed": convention.env_error,
        "probe": "out",
        "continued": "out",
    }


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many rollouts a figure counts, and in what way."""

    rollouts: int
    """Ended episodes without probes and continuations."""
    own: int
    """Rollouts that count with their own return."""
    zero: Mapping[str, int]
    """Rollouts that count as a return of 0, by kind of ending."""
    out: Mapping[str, int]
    """Rollouts that are left out, by kind of ending."""
    others: Mapping[str, int]
    """Endings that are no rollouts: "probe" and "continued"."""
    numberless: int = 0
    """Rollouts that count with their own return, which lacks a reward that was not a number."""

    @property
    def counted(self) -> int:
        return self.own + sum(self.zero.values())

    @property
    def failures(self) -> int:
        """Rollouts that ended by a failure of the environment, failed setups included."""
        return sum(
            kinds.get(kind, 0) for kinds in (self.zero, self.out) for kind in ENVIRONMENT_FAILURES
        )

    def without(self, other: Coverage) -> Coverage:
        """Return the coverage of these rollouts except the `other` ones. No number falls below
        0."""
        return Coverage(
            max(0, self.rollouts - other.rollouts),
            max(0, self.own - other.own),
            _less(self.zero, other.zero),
            _less(self.out, other.out),
            _less(self.others, other.others),
            max(0, self.numberless - other.numberless),
        )

    @property
    def parts(self) -> list[CoveragePart]:
        """Rollouts that do not count with their own return. Infrastructure failures are one part if
        all count alike.

        Otherwise each kind of failure is a part of its own, because the filter `failure` would find
        all of them.
        """
        parts = list[CoveragePart]()
        are_alike = not (
            set(FAILURE_KINDS) & self.zero.keys() and set(FAILURE_KINDS) & self.out.keys()
        )
        for is_zero, kinds in ((True, self.zero), (False, self.out)):
            failures = sum(kinds.get(kind, 0) for kind in FAILURE_KINDS)
            for kind, count in kinds.items():
                if kind not in FAILURE_KINDS or not are_alike:
                    parts.append(CoveragePart(kind, count, _WORDS.get(kind, kind), is_zero=is_zero))
            if failures and are_alike:
                words = "infrastructure failure" if failures == 1 else "infrastructure failures"
                parts.append(CoveragePart("failure", failures, words, is_zero=is_zero))
        return parts

    @property
    def text(self) -> str:
        """A sentence without a full stop: "30 attempts; 6 no call scored 0, 2 infrastructure failures
        excluded"."""
        head = f"{self.counted:,} attempt{'' if self.counted == 1 else 's'}"
        texts = [part.text for part in self.parts]
        texts += [self.numberless_text] if self.numberless else []
        return f"{head}; {', '.join(texts)}" if texts else head

    @property
    def brief(self) -> str:
        """What a table says beside the number of attempts, such as "8 excluded": what matters most of
        the rollouts and other endings that do not count with their own return; empty if all do."""
        out, zero, others = (sum(part.values()) for part in (self.out, self.zero, self.others))
        texts = [f"{out:,} excluded"] if out else []
        texts += [f"{self.numberless:,} not a number"] if self.numberless else []
        texts = texts or ([f"{zero:,} scored 0"] if zero else [])
        return " · ".join(texts or ([f"{others:,} not counted"] if others else []))

    @property
    def numberless_text(self) -> str:
        return f"{self.numberless:,} with a reward that was not a number"

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class CoveragePart:
    """Rollouts of one kind that do not count with their own return."""

    ending: str
    """Value of the filter `ending` that finds them."""
    count: int
    words: str
    is_zero: bool
    """Whether they count as 0; otherwise they are left out."""

    @property
    def text(self) -> str:
        return f"{self.count:,} {self.words} {'scored 0' if self.is_zero else 'excluded'}"


def _less(kinds: Mapping[str, int], others: Mapping[str, int]) -> dict[str, int]:
    rest = {kind: count - others.get(kind, 0) for kind, count in kinds.items()}
    return {kind: count for kind, count in rest.items() if count > 0}


def coverage_of(kinds: Mapping[str, int], convention: Convention) -> Coverage:
    """Return the coverage of endings, given their number by kind (see
    `episodes.attempts.rule.KIND`)."""
    treatments = convention.treatments
    own, zero, out, others = 0, dict[str, int](), dict[str, int](), dict[str, int]()
    numberless = kinds.get(NUMBERLESS, 0)
    for kind, treatment in treatments.items():
        if count := kinds.get(kind):
            base = NUMBERLESS_KINDS.get(kind, kind)
            if kind in _NO_ROLLOUTS:
                others[kind] = count
            elif treatment == "keep":
                own += count
                numberless += count if kind != base else 0
            elif treatment == "zero":
                zero[base] = zero.get(base, 0) + count
            else:
                out[base] = out.get(base, 0) + count
    known_kinds = {*treatments, NUMBERLESS}
    own += sum([count for kind, count in kinds.items() if kind not in known_kinds])
    rollouts = own + sum(zero.values()) + sum(out.values())
    return Coverage(rollouts, own, zero, out, others, numberless)


def coverages_together(coverages: Sequence[Coverage]) -> Coverage:
    """Merge coverages, whose conventions may differ."""
    return Coverage(
        sum(coverage.rollouts for coverage in coverages),
        sum(coverage.own for coverage in coverages),
        counts_added(coverage.zero for coverage in coverages),
        counts_added(coverage.out for coverage in coverages),
        counts_added(coverage.others for coverage in coverages),
        sum(coverage.numberless for coverage in coverages),
    )


def counts_added(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the sums of numbers by kind of ending."""
    rest = iter(parts)
    counts = dict(next(rest, {}))
    for part in rest:
        for kind, count in part.items():
            counts[kind] = counts.get(kind, 0) + count
    return counts


def by_cause(kinds: Mapping[str, int]) -> dict[str, int]:
    """Return the numbers by kind of ending, whatever the rewards were."""
    return counts_added({NUMBERLESS_KINDS.get(kind, kind): count} for kind, count in kinds.items())


def kinds_counted(
    attempts: int, kinds: Mapping[str, int], convention: Convention
) -> dict[str, int]:
    """Return the number of rollouts by kind, "" for those that finished or were abandoned.

    `attempts`: number of rollouts that the convention counts; `kinds`: numbers by name in
    COUNTED_PARTS.
    """
    others = sum(kinds[kind] for kind in CONVENTION_PARTS if convention.treatments[kind] != "out")
    return {"": max(0, attempts - others), **kinds}
