"""How a removal shares the one write lock of SQLite with agents."""

import pytest

from episodes.removal.pace import MAX_EPISODES, MIN_EPISODES, RemovalPace


def test_slow_batches_become_smaller_and_fast_ones_larger() -> None:
    pace = RemovalPace("sqlite")
    for _ in range(10):
        pace.note(1.0)
    assert pace.episodes == MIN_EPISODES
    for _ in range(10):
        pace.note(0.01)
    assert pace.episodes == MAX_EPISODES


@pytest.mark.parametrize("seconds", [0.001, 0.1, 1.0])
def test_a_pause_is_as_long_as_a_batch_and_longer_than_a_waiting_writer_sleeps(
    seconds: float,
) -> None:
    pace = RemovalPace("sqlite")
    pace.note(seconds)
    assert pace.pause_seconds >= seconds and pace.pause_seconds > 0.1


def test_without_one_write_lock_there_are_no_pauses() -> None:
    pace = RemovalPace("postgresql")
    pace.note(1.0)
    assert (pace.pause_seconds, pace.episodes) == (0.0, MAX_EPISODES)
