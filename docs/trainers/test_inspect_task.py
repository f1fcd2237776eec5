"""Tests that Inspect evaluates the task of inspect_task.py, and that orsweb records the same
results."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import Server, run
from inspect_ai import eval as evaluate
from inspect_ai.log import EvalLog
from inspect_ai.model import ChatMessage, ModelOutput, ModelUsage, get_model
from inspect_task import orsweb
from stub_model import halving, range_in, serve

TASKS, EPOCHS = 3, 2


def log_of(path: Path, policy: Any, **arguments: Any) -> EvalLog:
    """Evaluate the task with Inspect's own stand-in for a model, and return the log."""

    def outputs(messages: list[ChatMessage], *_: Any) -> ModelOutput:
        output: ModelOutput = policy(messages)
        # else Inspect counts tokens, and downloads their encoding for that
        output.usage = ModelUsage()
        return output

    model = get_model("mockllm/model", custom_outputs=outputs, memoize=False)
    [log] = evaluate(
        orsweb,
        model=model,
        task_args=arguments,
        epochs=EPOCHS,
        log_dir=str(path),
        display="none",
        log_samples=True,
    )
    assert log.status == "success", log.error
    return log


def call(name: str, **arguments: Any) -> ModelOutput:
    return ModelOutput.for_tool_call("mockllm/model", name, arguments)


def clumsy_halving(messages: list[ChatMessage]) -> ModelOutput:
    """Play `guess`, but begin with a number that is out of range."""
    if all(message.role != "assistant" for message in messages):
        return call("guess", number=-1)
    return call(
        "guess", number=sum(range_in([{"content": message.text} for message in messages])) // 2
    )


def test_the_scores_of_inspect_are_the_returns_of_the_server(
    server: Server, tmp_path: Path
) -> None:
    log = log_of(
        tmp_path,
        clumsy_halving,
        run="inspect/guess 1",
        environment="guess",
        tasks=TASKS,
        server=server.url,
    )
    curve = server.curve(TASKS * EPOCHS, run="inspect/guess 1", **{"return": "last"})
    assert log.results and log.samples
    assert curve["total"]["mean"] == pytest.approx(
        log.results.scores[0].metrics["mean"].value, abs=1e-6
    )
    found = server.run("inspect/guess 1")
    assert (found["state"], found["model"]) == ("ended", "mockllm/model")
    for episode in server.episodes("inspect/guess 1"):
        assert (episode["cause"], episode["split"], episode["refused"]) == ("finished", "test", 1)


def test_a_sample_without_a_call_scores_0(server: Server, tmp_path: Path) -> None:
    def silent(messages: list[ChatMessage]) -> ModelOutput:
        return ModelOutput.from_content("mockllm/model", "I don't know.")

    log = log_of(
        tmp_path, silent, run="inspect-silent", environment="math", tasks=TASKS, server=server.url
    )
    curve = server.curve(TASKS * EPOCHS, run="inspect-silent")
    assert (
        log.results and log.results.scores[0].metrics["mean"].value == curve["total"]["mean"] == 0
    )
    assert {episode["cause"] for episode in server.episodes("inspect-silent")} == {"no_call"}


def test_the_command_of_the_page_works(server: Server, tmp_path: Path) -> None:
    arguments = (
        "-T",
        "environment=guess",
        "-T",
        "run=inspect-cli",
        "-T",
        f"tasks={TASKS}",
        "-T",
        f"server={server.url}",
    )
    command = (
        Path(sys.executable).with_name("inspect"),
        "eval",
        "docs/trainers/inspect_task.py",
        *arguments,
    )
    with serve(halving) as url:
        model = {"STUB_BASE_URL": url, "STUB_API_KEY": "none"}
        printed = run(
            *command,
            "--model",
            "openai-api/stub/m",
            "--log-dir",
            tmp_path,
            "--display",
            "plain",
            **model,
        )
    assert server.run("inspect-cli")["html_url"] in printed
    assert server.curve(TASKS, run="inspect-cli")["total"]["mean"] > 0.5
    assert server.run("inspect-cli")["state"] == "ended"
