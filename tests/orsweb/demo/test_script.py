"""The script of the demo: determined by its seed, with episodes of every kind."""

from __future__ import annotations

from collections import Counter

import pytest

from orsweb.demo.script import GROUP_ATTEMPTS, ScriptPart, script

NAMES = ["math", "guess", "maze"]
COUNTS = {(name, split): 50 for name in NAMES for split in ("train", "test")}


def parts(episodes: int = 300, seed: int = 0) -> list[ScriptPart]:
    return script(NAMES, COUNTS, episodes, seed)


@pytest.mark.parametrize("episodes", [60, 300, 1000])
def test_it_has_as_many_episodes_as_were_asked_for(episodes: int) -> None:
    assert len(parts(episodes)) == episodes


def test_the_same_seed_plays_the_same() -> None:
    assert parts(seed=3) == parts(seed=3) != parts(seed=4)


def test_training_attempts_each_task_eight_times_in_one_step() -> None:
    groups = Counter(
        (part.run, part.step, part.environment, part.index)
        for part in parts()
        if part.step is not None
    )
    assert set(groups.values()) == {GROUP_ATTEMPTS}


def test_a_training_run_grows_more_skilled() -> None:
    run = [part for part in parts() if part.run == "demo-train-fast"]
    assert [part.skill for part in run] == sorted(part.skill for part in run)
    assert run[0].skill < 0.2 < 0.9 < run[-1].skill


def test_it_goes_through_the_past_in_order() -> None:
    starts = [-part.days_ago for part in parts()]
    assert starts == sorted(starts)


def test_three_models_are_evaluated_at_the_same_tasks() -> None:
    tests = {
        model: {
            (part.environment, part.index)
            for part in parts()
            if part.split == "test" and part.model == model
        }
        for model in ("scripted-novice", "scripted-expert")
    }
    # the last ones may stay without a turn
    assert len(tests["scripted-novice"] ^ tests["scripted-expert"]) <= 1
