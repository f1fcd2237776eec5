"""Tests of the components of rewards that the follower computes for each episode."""

from __future__ import annotations

import json
from typing import Any

import pytest

from episodes.models import Episode, EpisodeComponent, RewardComponent
from episodes.rollups import components as module
from episodes.rollups.follower import catch_up, start_over
from tests.episodes.recorded import record
from tests.factories import episode_ended, episode_started, step_taken

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("no_follower")]


def output_of(text: str = "", **parts: Any) -> str:
    answer = {"blocks": [{"type": "text", "text": text}], "metadata": {"reward_components": parts}}
    return json.dumps({**answer, "reward": 0.5, "finished": False})


def recorded(*outputs: str, episode: int = 1, **changes: Any) -> None:
    steps = [step_taken(episode, index, output_json=output) for index, output in enumerate(outputs)]
    record((episode_started(episode, **changes), *steps, episode_ended(episode, steps=len(steps))))


def values() -> dict[str, tuple[float, ...]]:
    columns = ("component__name", "value_sum", "value_last", "value_max", "value_mean")
    return {name: figures for name, *figures in EpisodeComponent.objects.values_list(*columns)}  # type: ignore[misc]


def test_components_are_summed_as_rewards_are() -> None:
    recorded(output_of(format=1.0), output_of(), output_of(format=0.5, late=-2))
    catch_up()
    assert values() == {"format": [1.5, 0.5, 1.0, 0.75], "late": [-2.0, -2.0, -2.0, -2.0]}


def test_a_large_output_is_read_too() -> None:
    recorded(output_of("x" * 10_000, format=1.0), '{"blocks": [], "metadata": null}' + " " * 9_000)
    catch_up()
    assert values() == {"format": [1.0, 1.0, 1.0, 1.0]}


def test_outputs_are_read_unless_the_recorder_has_seen_that_they_mention_none() -> None:
    recorded(
        '{"blocks": [], "metadata": null}',
        output_of(format=1.0),
        '{"blocks": [], "metadata": null}',
    )
    recorded('{"blocks": [], "metadata": null}', episode=2)
    record((episode_started(3), step_taken(3, 0, output_json=output_of(late=1.0))))
    # after a restart
    record((step_taken(3, 1, output_json='{"blocks": []}'), episode_ended(3, steps=2)))
    assert list(Episode.objects.order_by("pk").values_list("has_components", flat=True)) == [
        True,
        False,
        None,
    ]
    catch_up()
    assert set(values()) == {"format", "late"}
    Episode.objects.update(has_components=False)
    start_over()
    catch_up()
    assert not EpisodeComponent.objects.exists()


def test_an_environment_without_components_has_no_rows() -> None:
    recorded(
        '{"blocks": [{"text": "\\"reward_components\\""}], "metadata": null, "reward": 1, '
        '"finished": true}'
    )
    catch_up()
    assert not EpisodeComponent.objects.exists()


def test_sums_of_huge_components_stay_finite() -> None:
    recorded(output_of(x=1.7e308), output_of(x=1.7e308))
    catch_up()
    assert values()["x"][0] > 1.7e308


def test_names_beyond_the_limit_of_an_environment_are_ignored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_NAMES", 2)
    recorded(output_of(a=1, b=2, c=3))
    recorded(output_of(c=1, b=2), episode=2)
    recorded(output_of(c=1), episode=3, environment="math")
    catch_up()
    assert RewardComponent.objects.count() == 3
    assert list(
        EpisodeComponent.objects.filter(episode=2).values_list("component__name", flat=True)
    ) == ["b"]


def test_a_rebuild_gives_the_same_rows() -> None:
    recorded(output_of(a=1, b=2))
    catch_up()
    before = values()
    start_over()
    catch_up()
    assert values() == before
