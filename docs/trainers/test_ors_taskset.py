"""Tests that verifiers plays the taskset of ors_taskset.py, and that orsweb records the same
rewards."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import HERE, Server, rows_of, run
from stub_model import Message, Policy, halving, serve, tool_call

VF_EVAL = Path(sys.prefix) / "verifiers/bin/vf-eval"
TASKS, ROLLOUTS = 3, 2
MAX_TURNS = 20


def evaluate(
    server: Server, policy: Policy, environment: str, name: str, output: Path
) -> tuple[list[dict[str, Any]], str]:
    """Evaluate the taskset with a model that plays by `policy`; return the traces, and what was
    printed."""
    taskset = {"environment": environment, "run": name, "server": server.url}
    options = [word for key, value in taskset.items() for word in (f"--env.taskset.{key}", value)]
    sizes = ("-n", str(TASKS), "-r", str(ROLLOUTS))
    with serve(policy) as url:
        client = ("-m", "stub", "--client.base-url", url, "--client.api-key-var", "STUB_KEY")
        agent = ("--env.agent.runtime.type", "subprocess", "--env.agent.max-turns", str(MAX_TURNS))
        command = (
            VF_EVAL,
            "ors_taskset",
            *options,
            *agent,
            *sizes,
            *client,
            "--no-push",
            "--no-rich",
            "-o",
            output,
        )
        printed = run(*command, PYTHONPATH=str(HERE), STUB_KEY="none", HOME=str(output))
    episodes = [row for path in output.glob("*/traces.jsonl") for row in rows_of(path)]
    return [trace for episode in episodes for trace in episode["traces"]], printed


def clumsy_halving(messages: list[Message]) -> Message:
    """Play `guess`, but begin with a number that is out of range."""
    is_first = all(message["role"] != "assistant" for message in messages)
    return tool_call("guess", {"number": -1}) if is_first else halving(messages)


def test_the_rewards_of_verifiers_are_the_returns_of_the_server(
    server: Server, tmp_path: Path
) -> None:
    traces, printed = evaluate(server, clumsy_halving, "guess", "verifiers/guess 1", tmp_path)
    curve = server.curve(TASKS * ROLLOUTS, run="verifiers/guess 1")
    returns = [trace["rewards"]["ors_return"]["score"] for trace in traces]
    assert len(returns) == TASKS * ROLLOUTS and min(returns) > 0
    assert f"run verifiers/guess 1 has {len(returns)} episodes: {server.url}" in printed
    assert curve["total"]["mean"] == pytest.approx(sum(returns) / len(returns), abs=1e-6)
    for episode in server.episodes("verifiers/guess 1"):
        assert (episode["cause"], episode["model"], episode["refused"]) == ("finished", "stub", 1)
    assert all(trace["tools"][0]["name"] == "guess" for trace in traces)


def test_the_limit_of_turns_ends_the_episode(server: Server, tmp_path: Path) -> None:
    def stubborn(messages: list[Message]) -> Message:
        return tool_call("guess", {"number": -1})

    traces, _ = evaluate(server, stubborn, "guess", "verifiers-stubborn", tmp_path)
    curve = server.curve(TASKS * ROLLOUTS, run="verifiers-stubborn")
    assert curve["total"]["mean"] == 0 and {trace["stop_condition"] for trace in traces} == {
        "max_turns"
    }
    for episode in server.episodes("verifiers-stubborn"):
        assert (episode["cause"], episode["refused"]) == ("abandoned", MAX_TURNS)
