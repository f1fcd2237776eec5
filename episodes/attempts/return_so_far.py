"""ReturnSoFar: the return of an episode as it grows, by each of the four definitions. Pure.

Pages show it beside every step.
"""

from __future__ import annotations

from copy import copy

from environments.database.storable import finite


class ReturnSoFar:
    """What the rewards so far amount to. As the recorder reckons: a sum that runs over stays the largest number."""

    def __init__(self, definition: str = "sum") -> None:
        """`definition` is one of `environments.scoring.returns.RETURNS`."""
        self._definition = definition
        self._sum, self._count = 0.0, 0
        self._last: float | None = None
        self._most: float | None = None

    def copy(self) -> ReturnSoFar:
        return copy(self)

    def add(self, reward: float | None) -> float | None:
        """The return with `reward`; a null one changes nothing."""
        if reward is not None:
            self._sum = finite(self._sum + reward) or 0.0
            self._count += 1
            self._last = reward
            self._most = reward if self._most is None else max(self._most, reward)
        return self.value

    @property
    def value(self) -> float | None:
        if self._definition == "sum":
            return self._sum
        if self._definition == "mean":
            return self._sum / self._count if self._count else None
        return self._last if self._definition == "last" else self._most
