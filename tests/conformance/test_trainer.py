"""A trainer's own log and this server's figures agree, step by step, also where rollouts make no
tool call.

The reference computes rewards as TRL's GRPOTrainer logs them: `reward`, the mean over all rollouts
of a step, and `frac_reward_zero_std`, the share of groups whose standard deviation is close to 0.
"""

from __future__ import annotations

import math
import re
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from statistics import fmean, stdev
from typing import Any

import httpx
import pytest

from tests.conformance.clients import Client
from tests.conformance.record import Recorded
from tests.server import LiveServer

STEPS, PROMPTS, ROLLOUTS = 3, 2, 8
DEADLINE_SECONDS = 60.0


@dataclass(frozen=True)
class TrainerLog:
    """What a trainer logs of one step."""

    groups: Sequence[Sequence[float]]
    """Rewards of the rollouts of each prompt."""

    @property
    def reward(self) -> float:
        return fmean(reward for group in self.groups for reward in group)

    @property
    def frac_reward_zero_std(self) -> float:
        return fmean(math.isclose(stdev(group), 0.0, abs_tol=1e-8) for group in self.groups)


def roll_out(environment: Any, secrets: Any, index: int, calls: int) -> float:
    """Play one rollout with that many tool calls, and return its reward. Below 0: it only lists the
    tools."""
    rewards = []
    with environment.session(split="train", index=index, secrets=secrets) as session:
        read = session.get_prompt if calls >= 0 else session.list_tools
        read()  # either starts the episode
        for _ in range(calls):
            rewards.append(session.call_tool("echo", {"text": "hi"}).reward)
    return sum(rewards)


def train(client: Client, run: str) -> list[TrainerLog]:
    """Play groups of rollouts for some steps; some groups have the same reward throughout."""
    random, environment, logs = Random(7), client.environment("echo"), []
    for step in range(STEPS):
        groups = []
        for index in range(PROMPTS):
            choices = (
                [-1, 0]
                if (step + index) % 3 == 0
                else [2]
                if (step + index) % 3 == 1
                else [-1, 0, 1, 3]
            )
            secrets = client.secrets({"orsweb_run": run, "orsweb_step": str(step)})
            groups.append(
                [
                    roll_out(environment, secrets, index, random.choice(choices))
                    for _ in range(ROLLOUTS)
                ]
            )
        logs.append(TrainerLog(groups))
    return logs


def curve_of(server: LiveServer, run: str) -> dict[str, Any]:
    """Return the curve of the run by training step, once it has all of its rollouts."""
    until = time.monotonic() + DEADLINE_SECONDS
    while True:
        answer = httpx.get(
            f"{server.url}/api/curves", params={"run": run, "x": "step"}, timeout=30
        ).json()
        if (answer["total"] or {}).get(
            "episodes"
        ) == STEPS * PROMPTS * ROLLOUTS or time.monotonic() > until:
            return answer  # type: ignore[no-any-return]
        time.sleep(0.1)


def test_the_curve_and_the_pages_of_groups_equal_the_trainers_log(
    server: LiveServer, client: Client, record: Recorded
) -> None:
    run = f"grpo-{uuid.uuid4().hex[:8]}"
    logs, found = train(client, run), curve_of(server, run)
    assert [point["x"] for point in found["points"]] == list(range(STEPS))
    for log, point in zip(logs, found["points"], strict=True):
        assert point["mean"] == pytest.approx(log.reward, abs=1e-6)
        assert point["flat_share"] == pytest.approx(log.frac_reward_zero_std, abs=1e-6)
        assert (point["groups"], point["n"]) == (PROMPTS, PROMPTS * ROLLOUTS)
    no_calls = found["total"]["rollouts"]["zero"]["no_call"]
    assert no_calls == record.episodes.filter(run__name=run, cause="no_call").count() > 0
    assert found["total"]["rollouts"]["own"] + no_calls == STEPS * PROMPTS * ROLLOUTS
    check_groups(server, record, run, logs)


def check_groups(
    server: LiveServer, record: Recorded, run: str, logs: Sequence[TrainerLog]
) -> None:
    """Compare the page of each group with the trainer's rewards of its prompt."""
    columns = ("run_id", "run_step", "task_id", "task_index")
    rows = record.episodes.filter(run__name=run).order_by().values_list(*columns).distinct()
    assert len(rows) == STEPS * PROMPTS
    for run_id, step, task, index in rows:
        address = f"{server.url}/tasks/{task}/group/"
        page = httpx.get(address, params={"run": run_id, "step": step}, timeout=30).text
        group = logs[step].groups[index]
        shown = [
            float(value)
            for value in re.findall(
                r'class="reward" data-level="[^"]*" '
                r'title="([^"]*)"',
                page,
            )
        ]
        assert shown[0] == pytest.approx(fmean(group), abs=1e-6)
        assert sorted(shown[1 : ROLLOUTS + 1]) == pytest.approx(sorted(group), abs=1e-6)
        flat = round(logs[step].frac_reward_zero_std * PROMPTS)
        assert f"{flat} of {PROMPTS} flat" in page
