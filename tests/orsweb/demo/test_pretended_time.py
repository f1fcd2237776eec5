"""The pretended time of the demo."""

from __future__ import annotations

from orsweb.demo.pretended_time import Clock

NOW = 1_000_000.0


def test_it_tells_the_pretended_moment_of_a_real_one() -> None:
    clock = Clock(lambda: NOW)
    clock.start(NOW - 500)
    assert clock.pretended(NOW + 3) == NOW - 497


def test_moments_before_a_change_stay_as_they_were() -> None:
    times = iter([NOW, NOW + 10, NOW + 10])
    clock = Clock(lambda: next(times))
    clock.start(NOW - 500)
    clock.pass_time(60)
    assert [clock.pretended(NOW + 9), clock.pretended(NOW + 11)] == [NOW - 491, NOW - 429]


def test_it_never_goes_beyond_now() -> None:
    clock = Clock(lambda: NOW)
    clock.start(NOW - 5)
    clock.pass_time(60)
    assert clock.moment == NOW
