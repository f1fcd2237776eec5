"""Tests that openai_loop.py plays with a server of chat completions, and that orsweb records what
it played."""

from __future__ import annotations

import re
import sys

import pytest
from conftest import HERE, Server, run
from stub_model import Message, Policy, halving, serve, text_of, tool_call

TASKS, ATTEMPTS = 3, 2


def play(server: Server, policy: Policy, environment: str, name: str, *options: str) -> str:
    """Run the script with a model that plays by `policy`, and return what it printed."""
    script = (
        sys.executable,
        HERE / "openai_loop.py",
        environment,
        "stub",
        "--run",
        name,
        "--server",
        server.url,
    )
    sizes = ("--tasks", str(TASKS), "--attempts", str(ATTEMPTS))
    with serve(policy) as url:
        return run(*script, *sizes, *options, OPENAI_BASE_URL=url, OPENAI_API_KEY="none")


def clumsy_halving(messages: list[Message]) -> Message:
    """Play `guess`, but begin with arguments that are cut off, and with some that the tool
    refuses."""
    turns = sum(message["role"] == "assistant" for message in messages)
    return (
        tool_call("guess", '{"number": '),
        tool_call("guess", {"number": "many"}),
        halving(messages),
    )[min(turns, 2)]


def test_the_server_has_the_run_with_its_curve(server: Server) -> None:
    printed = play(server, clumsy_halving, "guess", "openai/guess 1")
    curve = server.curve(TASKS * ATTEMPTS, run="openai/guess 1")
    found = server.run("openai/guess 1")
    assert (found["state"], found["model"], found["config"]["tasks"]) == ("ended", "stub", TASKS)
    assert found["html_url"] in printed
    means = [float(mean) for mean in re.findall(r"mean return ([\d.]+)", printed)]
    assert len(means) == ATTEMPTS and curve["total"]["mean"] == pytest.approx(
        sum(means) / ATTEMPTS, abs=1e-4
    )
    assert curve["total"]["mean"] > 0.5


def test_a_conversation_without_a_call_is_an_attempt_that_earned_nothing(server: Server) -> None:
    play(server, lambda _: {"role": "assistant", "content": "I don't know."}, "math", "openai-math")
    server.curve(TASKS * ATTEMPTS, run="openai-math")
    assert {episode["cause"] for episode in server.episodes("openai-math")} == {"no_call"}


def test_the_model_sees_the_images_of_prompts_and_outputs(server: Server) -> None:
    seen: list[list[Message]] = []

    def look_and_submit(messages: list[Message]) -> Message:
        seen.append(messages)
        if len(messages) == 1:
            return tool_call("zoom", {"x": 0, "y": 0, "width": 100, "height": 100})
        return tool_call("submit", {"value": 1.5})

    play(server, look_and_submit, "chart", "openai-chart", "--tasks", "1", "--attempts", "1")
    prompt, _, output, image = seen[-1]
    assert prompt["content"][1]["image_url"]["url"].startswith("data:image/png;base64,")
    assert output["role"] == "tool" and "times larger" in text_of(output)
    assert image["role"] == "user" and image["content"][0]["image_url"]["url"].startswith(
        "data:image/png;base64,"
    )
    server.curve(1, run="openai-chart")
    assert [episode["cause"] for episode in server.episodes("openai-chart")] == ["finished"]
