"""The clock of one play. In a study it stands still while the player is away, and may run out.

`live_play.py` drives it and sets the timers.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

MIN_PAUSE_SECONDS = 5.0
"""A shorter absence is no pause: the page is opened or loaded again, or a lost connection comes
back."""


@dataclass(frozen=True, slots=True)
class PlayTimes:
    """What a study allows for each task."""

    pause_seconds: float
    """How long the clock may stand still in all, and the session is kept, while the player is
    away."""
    limit_seconds: float | None
    """Time to play, without pauses; None: no limit."""


class PlayClock:
    """The time that somebody has played and paused. Outside of studies it never stands still and
    never runs out."""

    def __init__(self, times: PlayTimes | None) -> None:
        self._times = times
        self._started: float | None = None  # time.monotonic() when the environment was ready
        self._left: float | None = None  # time.monotonic() when the player left
        self._over = 0.0  # seconds of the pauses that are over

    @property
    def can_pause(self) -> bool:
        return self._times is not None

    @property
    def limit_seconds(self) -> float | None:
        return None if self._times is None else self._times.limit_seconds

    @property
    def limit_words(self) -> str:
        minutes = (self.limit_seconds or 0) / 60
        return f"{minutes:g} minute{'' if minutes == 1 else 's'}"

    def start(self) -> None:
        """Start the clock: the environment is ready. Until then nothing counts as a pause."""
        self._started = time.monotonic()
        if self._left is not None:
            self._left = self._started

    def pause(self) -> None:
        """Note that nobody is there, if that is new."""
        if self._left is None:
            self._left = time.monotonic()

    def resume(self) -> None:
        """Note that somebody is there."""
        self._over, self._left = self.paused, None

    @property
    def paused(self) -> float:
        """Seconds for which the clock has stood still, at most what the study allows."""
        if self._times is None or self._started is None:
            return 0.0
        away = 0.0 if self._left is None else time.monotonic() - self._left
        away = away if away >= MIN_PAUSE_SECONDS else 0.0
        return min(self._over + away, self._times.pause_seconds)

    @property
    def pause_left(self) -> float:
        """Seconds for which the clock may still stand still."""
        return 0.0 if self._times is None else self._times.pause_seconds - self.paused

    @property
    def time_left(self) -> float | None:
        """Seconds that are left to play; None without a limit and before the start."""
        if self.limit_seconds is None or self._started is None:
            return None
        return max(0.0, self.limit_seconds - (time.monotonic() - self._started - self.paused))
