"""Tests trl_grpo.md: a model learns, and the server's curve shows what the trainer logs of every
step.

One training of a tiny model serves all tests. It takes five CPU minutes, and in its middle the
server is reloaded, which no figure may show.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any
from urllib.error import HTTPError

import pytest
import torch
from conftest import HERE, Server, run
from tiny_grpo import GROUP_SIZE, GROUPS, MAX_STEPS
from transformers import AutoModelForCausalLM
from trl.trainer.utils import nanstd

RUN = "tiny-grpo"
PARAMETERS = 2_000_000
FLAT_DEVIATION = 1e-8
"""Deviation up to which the server calls a group flat."""


@dataclass(frozen=True)
class Training:
    """A finished training, and the server that has its episodes."""

    server: Server
    output: Path
    reloaded_after: int
    """Training step of the run when the server was reloaded."""

    @property
    def log(self) -> dict[int, dict[str, float]]:
        """What the trainer logged, by step."""
        state = json.loads((self.output / "grpo/trainer_state.json").read_text(encoding="utf-8"))
        return {line["step"]: line for line in state["log_history"] if "reward" in line}

    def curve(self, **parameters: object) -> dict[str, Any]:
        """Return the curve over training steps, which has all rollouts of the run."""
        return self.server.curve(MAX_STEPS * GROUPS * GROUP_SIZE, run=RUN, x="step", **parameters)

    def groups(self) -> dict[int, list[list[float]]]:
        """Return the returns of each group, by training step."""
        found: dict[int, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
        for step in range(1, MAX_STEPS + 1):
            for row in self.server.api("episodes", run=RUN, step=step, limit=100)["results"]:
                assert row["status"] == "ended"
                found[step][row["task"]["id"]].append(row["returns"]["sum"])
        return {step: list(groups.values()) for step, groups in found.items()}


@pytest.fixture(scope="module")
def training(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Training:
    output = tmp_path_factory.mktemp("training")
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(
            run, sys.executable, HERE / "tiny_grpo.py", server.url, "--run", RUN, "--output", output
        )
        while (step := step_of_run(server)) < MAX_STEPS // 2 and not ended.done():
            time.sleep(0.1)
        server.reload()
        ended.result()
    return Training(server, output, step)


def step_of_run(server: Server) -> int:
    """Return the run's current training step, 0 while there is no such run."""
    try:
        return server.run(RUN)["step"] or 0
    except HTTPError:
        return 0


def test_a_reload_in_the_middle_fails_no_rollout(training: Training) -> None:
    """The other tests say that each rollout counts, with the reward that the trainer has."""
    assert 0 < training.reloaded_after < MAX_STEPS
    for ending in ("interrupted", "env_error", "expired"):
        assert training.server.api("episodes", run=RUN, ending=ending)["results"] == []


def test_the_model_is_tiny(training: Training) -> None:
    for name in ("model", "grpo"):
        assert (
            AutoModelForCausalLM.from_pretrained(training.output / name).num_parameters()
            <= PARAMETERS
        )


def test_the_return_grows_on_the_servers_curve(training: Training) -> None:
    """The mean of the last fifth of the steps exceeds that of the first by 3 standard errors."""
    points = training.curve()["points"]
    fifth = len(points) // 5
    first, last = points[:fifth], points[-fifth:]
    gain = fmean(point["mean"] for point in last) - fmean(point["mean"] for point in first)
    error = math.sqrt(sum(point["error"] ** 2 for point in first + last)) / fifth
    print(f"gain {gain:.3f}, {gain / error:.1f} standard errors")
    assert gain > 3 * error


def test_the_curve_has_every_rollout_of_every_step(training: Training) -> None:
    curve = training.curve()
    assert [point["x"] for point in curve["points"]] == list(range(1, MAX_STEPS + 1))
    assert all(point["n"] == GROUPS * GROUP_SIZE for point in curve["points"])
    assert all(point["groups"] == GROUPS for point in curve["points"])
    everything = training.server.api("curves", run=RUN)
    assert everything["total"]["episodes"] == curve["total"]["episodes"]  # none is without a step


def test_the_mean_is_the_reward_of_the_log(training: Training) -> None:
    log = training.log
    assert sorted(log) == list(range(1, MAX_STEPS + 1))
    for point in training.curve()["points"]:
        assert point["mean"] == pytest.approx(log[point["x"]]["reward"], abs=1e-6)


def test_rollouts_without_a_call_count_as_zero(training: Training) -> None:
    counted, left_out = training.curve()["total"], training.curve(no_call="out")["total"]
    no_calls = counted["rollouts"]["zero"]["no_call"]
    assert no_calls == left_out["rollouts"]["out"]["no_call"] > 0
    assert left_out["n"] == counted["n"] - no_calls
    assert left_out["mean"] * left_out["n"] == pytest.approx(counted["mean"] * counted["n"])


def test_flat_groups_are_those_of_the_log(training: Training) -> None:
    """The trainer's share is that of the server's groups by the trainer's arithmetic, with 32
    bits."""
    log, groups = training.log, training.groups()
    for point in training.curve()["points"]:
        step = point["x"]
        assert point["flat_share"] == fmean(
            pstdev(group) <= FLAT_DEVIATION for group in groups[step]
        )
        deviations = nanstd(torch.tensor(groups[step], dtype=torch.float32), dim=1)
        flat = torch.isclose(deviations, torch.zeros_like(deviations)).float().mean().item()
        assert log[step]["frac_reward_zero_std"] == pytest.approx(flat, abs=1e-6)


def test_most_steps_have_the_same_share_in_both(training: Training) -> None:
    log, points = training.log, training.curve()["points"]
    same = [
        abs(point["flat_share"] - log[point["x"]]["frac_reward_zero_std"]) <= 1e-6
        for point in points
    ]
    assert fmean(same) > 0.9


def test_the_run_describes_itself_and_has_ended(training: Training) -> None:
    found = training.server.run(RUN)
    assert (found["state"], found["step"]) == ("ended", MAX_STEPS)
    assert found["config"]["num_generations"] == GROUP_SIZE
