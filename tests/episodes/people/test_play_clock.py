"""The clock of a play: pauses, their limit, and the time that is left."""

from __future__ import annotations

import time

import pytest

from episodes.people.play_clock import MIN_PAUSE_SECONDS, PlayClock, PlayTimes


class Hand:
    """The hand of a clock that the test moves."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def hand(monkeypatch: pytest.MonkeyPatch) -> Hand:
    made = Hand()
    monkeypatch.setattr(time, "monotonic", made)
    return made


def test_a_pause_stops_the_time_until_pauses_are_used_up(hand: Hand) -> None:
    clock = PlayClock(PlayTimes(pause_seconds=30, limit_seconds=60))
    clock.start()
    hand.now += 10
    clock.pause()
    hand.now += 20
    assert (clock.time_left, clock.paused, clock.pause_left) == (50, 20, 10)
    clock.resume()
    hand.now += 5
    clock.pause()
    hand.now += 25
    clock.resume()
    assert (clock.time_left, clock.paused, clock.pause_left) == (30, 30, 0)
    hand.now += 100
    assert clock.time_left == 0


def test_the_time_starts_when_the_environment_is_ready(hand: Hand) -> None:
    clock = PlayClock(PlayTimes(pause_seconds=30, limit_seconds=60))
    clock.pause()
    hand.now += 50
    assert (clock.time_left, clock.pause_left) == (None, 30)
    clock.start()
    hand.now += 10
    assert (clock.time_left, clock.paused) == (60, 10)


def test_opening_the_page_and_loading_it_again_are_no_pauses(hand: Hand) -> None:
    clock = PlayClock(PlayTimes(pause_seconds=30, limit_seconds=60))
    clock.pause()
    clock.start()
    for _ in range(9):
        hand.now += MIN_PAUSE_SECONDS - 0.1
        clock.resume()
        clock.pause()
    assert (clock.time_left, clock.paused, clock.pause_left) == (pytest.approx(60 - 9 * 4.9), 0, 30)


def test_other_plays_have_neither_pauses_nor_a_limit(hand: Hand) -> None:
    clock = PlayClock(None)
    clock.start()
    clock.pause()
    hand.now += 50
    assert (clock.time_left, clock.paused, clock.pause_left, clock.can_pause) == (None, 0, 0, False)
