"""Tests that mcp_agent.py plays over MCP, and that orsweb records what it played."""

from __future__ import annotations

import sys
from collections.abc import Callable

from conftest import HERE, Server, run
from stub_model import Message, Policy, halving, serve, text_of, tool_call

TASKS = 3


def play(server: Server, policy: Policy, environment: str, name: str, *options: str) -> str:
    """Run the script with a model that plays by `policy`, and return what it printed."""
    script = (
        sys.executable,
        HERE / "mcp_agent.py",
        environment,
        "stub",
        "--run",
        name,
        "--server",
        server.url,
    )
    with serve(policy) as url:
        return run(
            *script, "--tasks", str(TASKS), *options, OPENAI_BASE_URL=url, OPENAI_API_KEY="none"
        )


def after(*first: Message) -> Callable[[Policy], Policy]:
    """Return a policy that makes these turns first."""

    def decorate(policy: Policy) -> Policy:
        def played(messages: list[Message]) -> Message:
            turns = sum(message["role"] == "assistant" for message in messages)
            return first[turns] if turns < len(first) else policy(messages)

        return played

    return decorate


clumsy_halving = after(
    tool_call("guess", '{"number": '),
    tool_call("guess", {"number": "many"}),
    tool_call("shout", {}),
)(halving)


def test_the_server_has_the_run_with_its_curve(server: Server) -> None:
    printed = play(server, clumsy_halving, "guess", "mcp/guess 1")
    curve = server.curve(TASKS, run="mcp/guess 1")
    assert curve["total"]["mean"] > 0.5 and server.run("mcp/guess 1")["html_url"] in printed
    assert server.run("mcp/guess 1")["state"] == "ended"
    for episode in server.episodes("mcp/guess 1"):
        assert (episode["cause"], episode["model"], episode["split"]) == (
            "finished",
            "stub",
            "train",
        )
        assert episode["refused"] == 2  # arguments that are not JSON never reach the server


def test_the_model_sees_images_and_no_rewards(server: Server) -> None:
    seen: list[list[Message]] = []

    def look_and_submit(messages: list[Message]) -> Message:
        seen.append(messages)
        if len(messages) == 2:  # the prompt, a text and an image
            return tool_call("zoom", {"x": 0, "y": 0, "width": 100, "height": 100})
        return tool_call("submit", {"value": 1.5})

    play(server, look_and_submit, "chart", "mcp-chart", "--tasks", "1")
    _, picture, _, output, image = seen[-1]
    for message in (picture, image):
        assert message["content"][0]["image_url"]["url"].startswith("data:image/png;base64,")
    assert "times larger" in text_of(output) and "eward" not in text_of(output)
    server.curve(1, run="mcp-chart")
    assert [episode["cause"] for episode in server.episodes("mcp-chart")] == ["finished"]
