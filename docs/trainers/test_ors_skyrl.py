"""Tests the class of ors_skyrl.py against a running server, without SkyRL's engines: a function
plays."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ors_skyrl
import pandas
import pytest
import skyrl_gym
from conftest import Server
from stub_model import Message, range_in

TASKS, MAX_TURNS = 3, 15
Play = Callable[[list[Message]], str]


def rows_of_tasks(
    server: Server, environment: str, run: str, directory: Path
) -> list[dict[str, Any]]:
    ors_skyrl.write_tasks(server.url, environment, "train", run, directory / "train.parquet")
    return list(pandas.read_parquet(directory / "train.parquet").to_dict("records"))


async def generate(env: skyrl_gym.Env, prompt: list[Message], play: Play) -> None:
    """Play one rollout as SkyRL's generator does: environments are called in threads of a pool."""
    messages, _ = await asyncio.to_thread(env.init, prompt)
    done = False
    while not done:
        action = play(messages)
        output = await asyncio.to_thread(env.step, action)
        messages = [*messages, {"role": "assistant", "content": action}, *output["observations"]]
        done = output["done"]
    await asyncio.to_thread(env.close)


def roll_out(rows: list[dict[str, Any]], play: Play) -> list[dict[str, Any]]:
    """Play a rollout of each row, all at the same time, and return the metrics of their
    environments."""
    settings: list[dict[str, Any]] = [
        {"env_config": {}, "extras": {**row, "max_turns": MAX_TURNS}} for row in rows
    ]
    envs = [
        skyrl_gym.make(row["env_class"], **setting)
        for row, setting in zip(rows, settings, strict=True)
    ]

    async def main() -> None:
        await asyncio.gather(
            *(generate(env, list(row["prompt"]), play) for env, row in zip(envs, rows, strict=True))
        )

    asyncio.run(main())
    return [dict(env.get_metrics()) for env in envs]


def call(name: str, **arguments: Any) -> str:
    return (
        "Let me see. "
        f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"
    )


def clumsy_halving(messages: list[Message]) -> str:
    """Play `guess`, but begin with a number that is out of range, and with text that is no call."""
    if len(messages) == 2:
        return call("guess", number=-1) + "<tool_call>guess 5</tool_call>"
    return call("guess", number=sum(range_in(messages)) // 2)


def test_the_returns_are_those_of_the_server(server: Server, tmp_path: Path) -> None:
    rows = rows_of_tasks(server, "guess", "skyrl/guess 1", tmp_path)
    returns = [metrics["return"] for metrics in roll_out(rows[:TASKS], clumsy_halving)]
    total = server.curve(TASKS, run="skyrl/guess 1")["total"]
    assert total["mean"] == pytest.approx(sum(returns) / TASKS, abs=1e-6) and total["mean"] > 0.5
    for episode in server.episodes("skyrl/guess 1"):
        assert (episode["cause"], episode["refused"]) == ("finished", 1)


def test_a_rollout_without_a_call_counts_as_0(server: Server, tmp_path: Path) -> None:
    rows = rows_of_tasks(server, "math", "skyrl-silent", tmp_path)
    assert [metrics["return"] for metrics in roll_out(rows[:TASKS], lambda _: "I don't know.")] == [
        0
    ] * TASKS
    assert server.curve(TASKS, run="skyrl-silent")["total"]["mean"] == 0
    assert {episode["cause"] for episode in server.episodes("skyrl-silent")} == {"no_call"}


def test_the_limit_of_turns_ends_the_episode(server: Server, tmp_path: Path) -> None:
    rows = rows_of_tasks(server, "guess", "skyrl-stubborn", tmp_path)
    [metrics] = roll_out(rows[:1], lambda _: call("guess", number=-1))
    assert metrics["turns"] == MAX_TURNS
    server.curve(1, run="skyrl-stubborn")
    assert [episode["cause"] for episode in server.episodes("skyrl-stubborn")] == ["abandoned"]


def test_the_model_gets_a_description_of_the_tools(server: Server, tmp_path: Path) -> None:
    seen: list[list[Message]] = []

    def silent(messages: list[Message]) -> str:
        seen.append(messages)
        return ""

    roll_out(rows_of_tasks(server, "math", "skyrl-tools", tmp_path)[:1], silent)
    system, user = seen[0]
    assert '"name": "submit"' in system["content"] and "call the tool `submit`" in user["content"]


def test_the_script_says_how_many_episodes_the_run_has(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = rows_of_tasks(server, "math", "skyrl-again", tmp_path)
    assert "run skyrl-again has 0 episodes: http://" in capsys.readouterr().out
    roll_out(rows[:1], lambda _: "")
    server.curve(1, run="skyrl-again")
    rows_of_tasks(server, "math", "skyrl-again", tmp_path)
    assert "run skyrl-again has 1 episodes: http://" in capsys.readouterr().out
