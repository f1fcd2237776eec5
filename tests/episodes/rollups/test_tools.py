"""Use of tools by day: calls, refusals, failures and durations."""

from __future__ import annotations

import json

import pytest

from episodes.attempts.durations import MAX_ERROR, from_text, quantile_ms
from episodes.models import ToolUse
from episodes.rollups.follower import catch_up
from tests.episodes.recorded import record
from tests.factories import NOON, episode_ended, episode_started, step_taken

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("no_follower")]


def test_it_counts_calls_by_what_became_of_them() -> None:
    steps = (
        step_taken(1, 0, reward=1.0, duration_ms=3.0),
        step_taken(1, 1, reward=0.0, duration_ms=5.0),
        step_taken(1, 2, status="refused", reason="input_validation", reward=None, duration_ms=1.0),
        step_taken(1, 3, status="failed", reason="ValueError", reward=None, duration_ms=8.0),
    )
    record((episode_started(), *steps, episode_ended()))
    catch_up()
    use = ToolUse.objects.get(tool="echo")
    assert (use.ok, use.refused, use.failed, use.rewarded, use.duration_ms) == (2, 1, 1, 1, 16.0)


@pytest.mark.parametrize("duration_ms", [0.125, 0.9, 1.0, 1.0193, 8.0, 250.0, 2.0**22, 1e12])
def test_quantiles_are_off_by_two_percent_at_most(duration_ms: float) -> None:
    record((episode_started(), step_taken(duration_ms=duration_ms), episode_ended()))
    catch_up()
    durations = from_text(ToolUse.objects.get().durations)
    assert durations.total() == 1
    assert quantile_ms(durations, 0.95) == pytest.approx(duration_ms, rel=MAX_ERROR)


def test_a_duration_near_zero_is_off_by_a_tenth_of_a_millisecond() -> None:
    record((episode_started(), step_taken(duration_ms=0.0), episode_ended()))
    catch_up()
    assert quantile_ms(from_text(ToolUse.objects.get().durations), 0.5) == 0.1


def test_sketches_without_bins_are_still_read() -> None:
    """As versions before bins stored them: one number per place."""
    before = from_text(json.dumps([0, 0, 0, 0, 10] + [0] * 21))
    assert before.total() == 10 and quantile_ms(before, 0.5) == pytest.approx(2**0.5, rel=0.02)


def test_later_episodes_of_the_day_are_added() -> None:
    for number in (1, 2):
        record((episode_started(number), step_taken(number), episode_ended(number)))
        catch_up()
    use = ToolUse.objects.get()
    assert (use.ok, from_text(use.durations).total(), use.duration_ms) == (2, 2, 500.0)


def test_each_day_and_environment_has_its_own() -> None:
    starts = [
        episode_started(n, environment=name) for n, name in enumerate(("echo", "echo", "math"), 1)
    ]
    ends = [episode_ended(n, ended=NOON + days * 86400) for n, days in enumerate((0, 1, 0), 1)]
    record((*starts, *(step_taken(n) for n in (1, 2, 3)), *ends))
    catch_up()
    assert ToolUse.objects.count() == 3


def test_tools_that_do_not_exist_count_together() -> None:
    calls = (
        step_taken(1, n, tool=f"made up {n}", status="refused", reason="not_found")
        for n in range(5)
    )
    record((episode_started(), *calls, episode_ended()))
    catch_up()
    assert list(ToolUse.objects.values_list("tool", "refused")) == [("", 5)]


def test_an_episode_without_a_call_adds_nothing() -> None:
    record((episode_started(), episode_ended(cause="abandoned", steps=0)))
    catch_up()
    assert not ToolUse.objects.exists()
