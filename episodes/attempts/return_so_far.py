"""The return of an episode while it grows step by step, as pages show it next to every step.

Nothing here reads the database.
"""

from __future__ import annotations

from copy import copy

from environments.database.storable import finite


class ReturnSoFar:
    """The return of the rewards that were added so far.

    A sum that overflows stays the largest finite number, as in the recorder.
    """

    def __init__(self, definition: str = "sum") -> None:
        """Start from no reward; `definition` is one of `environments.scoring.returns.RETURNS`."""
        self._definition = definition
        self._sum, self._count = 0.0, 0
        self._last: float | None = None
        self._highest: float | None = None

    def copy(self) -> ReturnSoFar:
        return copy(self)

    def add(self, reward: float | None) -> float | None:
        """Add `reward` and return the new return; None changes nothing."""
        if reward is not None:
            self._sum = finite(self._sum + reward) or 0.0
            self._count += 1
            self._last = reward
            self._highest = reward if self._highest is None else max(self._highest, reward)
        return self.value

    @property
    def value(self) -> float | None:
        if self._definition == "sum":
            return self._sum
        if self._definition == "mean":
            return None if self._highest is None else min(self._sum / self._count, self._highest)
        return self._last if self._definition == "last" else self._highest
