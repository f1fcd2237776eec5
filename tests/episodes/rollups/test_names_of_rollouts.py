"""An episode whose client names run and model only in what it uploads has them afterwards, and
counts in them."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from environments.models import Environment, TaskStatistics
from environments.runtime.records import RunInfo
from episodes.models import CurveBlock, Episode, Run, RunTotal
from episodes.rollups import blocks
from episodes.rollups.follower import catch_up, start_over
from episodes.rollups.recount import rebuild
from tests.episodes.reported import played, reported
from tests.episodes.rollups.test_rollouts import HI

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("no_follower")]

MODEL = '{"run_info": {"model_name": "m-1"}}'


def report(episode: int, run: Run, **fields: Any) -> None:
    event = MODEL[:-1] + f', "metadata": {{"session_id": "s-{episode}"}}}}'
    reported(f"r-{episode}", [HI], **{"run": run, "model": "m-1", "event": event, **fields})


def figures(client: Client, run: Run) -> dict[str, Any]:
    curve = client.get("/api/curves", {"run": run.name, "points": 3}).json()
    by_name = TaskStatistics.objects.exclude(by="all").order_by("task", "by", "key")
    return {
        "total": {name: curve["total"][name] for name in ("n", "mean", "length_mean")},
        "points": sum(point["n"] for point in curve["points"]),
        "shared": list(RunTotal.objects.values_list("scope_id", "split_id", "episodes", "steps")),
        "tasks": list(by_name.values_list("task", "by", "key", "attempts", "return_total")),
    }


@pytest.mark.parametrize("is_followed", [True, False])
def test_figures_are_those_of_episodes_that_named_it_themselves(
    client: Client, is_followed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "BLOCK_ENDINGS", 4)
    for number in range(1, 24):
        inputs = ('{"text":"hi"}',) * (1 + number % 4)
        played(number, inputs, run=RunInfo("fh-1", model="m-1") if number % 3 else RunInfo())
    run = Run.objects.get()
    if is_followed:
        catch_up()
    for number in range(3, 24, 3):
        report(number, run)
    catch_up()
    assert set(Episode.objects.values_list("run__name", "model")) == {("fh-1", "m-1")}
    kept = figures(client, run)
    assert kept["total"]["n"] == kept["points"] == 23
    for level in (0, 1) if is_followed else ():
        held = CurveBlock.objects.filter(scope="run", level=level).values_list(
            "episodes", flat=True
        )
        assert sum(held) > len(held) * 4 ** (level + 1)
    start_over()
    catch_up()
    rebuild(Environment.objects.get(name="echo"))
    assert figures(client, run) == kept


@pytest.mark.parametrize("said", [RunInfo("own", model="m-7"), RunInfo("", 3, "m-7")])
def test_what_an_episode_says_itself_stays(said: RunInfo) -> None:
    episode = played(run=said)
    report(1, Run.objects.begin("fh-1", 1, created=episode.created)[0])
    catch_up()
    after = Episode.objects.get()
    assert (after.run_id, after.model) == (episode.run_id, "m-7")


def test_a_guess_names_nothing() -> None:
    for number in (1, 2):
        episode = played(number)
    run = Run.objects.begin("fh-1", 1, created=episode.created)[0]
    reported(messages=[HI], run=run, model="m-1", event=MODEL)
    catch_up()
    assert set(Episode.objects.values_list("run", "model")) == {(None, "")}


def test_of_equal_episodes_the_reported_task_decides() -> None:
    for number in (1, 2, 3):
        played(number, spec_json=f'{{"question": {number % 2}, "answer": "hidden"}}')
    run = Run.objects.begin("fh-1", 1, created=Episode.objects.get(pk=1).created)[0]
    reported(messages=[HI], run=run, event='{"task_spec": {"question": 0}}')
    catch_up()
    assert list(Episode.objects.filter(run=run).values_list("pk", flat=True)) == [2]
