"""Trials, which play the beginning of a task without an episode."""

from __future__ import annotations

import asyncio
import json
import uuid

import pytest

from environments.errors import UnknownEnvironment
from environments.runtime.task_trial import Trial
from tests.environments.runtime.play import Play, within
from tests.envs_faulty import (
    Counter,
    FailingConstructor,
    FailingPrompt,
    FailingSetup,
    FailingTeardown,
)
from tests.envs_slow import BlockingSetup, SlowSetup, SlowTeardown


async def trial_of(cls: type, within_seconds: float = 10.0, **spec: object) -> Trial:
    async with Play(cls, close_wait_seconds=0.2) as play:
        trial: Trial = await within(
            play.service.try_out(cls.__name__.lower(), spec, within_seconds)
        )
        assert play.record.rows == [] and play.service.live_sessions == 0
    return trial


async def test_it_shows_the_prompt_and_records_nothing() -> None:
    trial = await trial_of(Counter, id="trial")
    assert json.loads(trial.prompt_json)[0]["text"] == "Count." and not trial.failures


async def test_it_constructs_sets_up_asks_and_tears_down_once() -> None:
    name = uuid.uuid4().hex
    await trial_of(Counter, id=name)
    assert Counter.events[name] == ["constructor", "setup", "prompt", "teardown"]


@pytest.mark.parametrize(
    ("cls", "stage"),
    [(FailingConstructor, "construct"), (FailingSetup, "setup"), (FailingPrompt, "prompt")],
)
async def test_a_failure_is_quoted_with_its_stage(cls: type, stage: str) -> None:
    [failure] = (await trial_of(cls)).failures
    assert failure.stage == stage and failure.text.startswith("RuntimeError: the ")
    assert "envs_faulty.py" in failure.trace


async def test_a_failing_teardown_leaves_the_prompt() -> None:
    trial = await trial_of(FailingTeardown)
    assert [failure.stage for failure in trial.failures] == ["teardown"] and trial.prompt_json


@pytest.mark.parametrize("cls", [SlowSetup, BlockingSetup])
async def test_what_takes_too_long_is_given_up(cls: type) -> None:
    [failure] = [
        one for one in (await trial_of(cls, 0.3, seconds=5)).failures if one.stage == "setup"
    ]
    assert failure.text == "it took longer than 0.3 s and was given up"


async def test_a_teardown_that_takes_too_long_is_reported() -> None:
    [failure] = (await trial_of(SlowTeardown, seconds=5)).failures
    assert failure.stage == "teardown" and "took over 0.2 s" in failure.text


async def test_an_unknown_environment_is_refused() -> None:
    async with Play(Counter) as play:
        with pytest.raises(UnknownEnvironment):
            await play.service.try_out("conter", {}, 1.0)


async def test_a_draining_server_gives_it_up() -> None:
    async with Play(SlowSetup) as play:
        trial = asyncio.ensure_future(play.service.try_out("slowsetup", {"seconds": 60}, 60.0))
        await asyncio.sleep(0)
        await within(play.service.drain(0.1))
        with pytest.raises(asyncio.CancelledError):
            await within(trial)
