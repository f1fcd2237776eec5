"""Tests the classes of ors_verl.py against a running server, without verl's engines.

A function takes the place of the model, and verl's own code calls the tools. What needs a tokenizer
is left out.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas
import pytest
import verl
from conftest import HERE, Server
from hydra import compose, initialize_config_dir
from ors.client import AsyncORS
from ors_verl import EPISODE, Episode, OrsAgentLoop, OrsTool, write_files
from stub_model import Policy, halving, tool_call
from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics, AgentLoopOutput
from verl.experimental.agent_loop.tool_agent_loop import AgentData, AgentState, ToolAgentLoop
from verl.experimental.agent_loop.tool_parser import FunctionCall
from verl.tools.tool_registry import initialize_tools_from_config

ROLLOUTS = 3
MAX_TURNS = 20
PAGE = (HERE / "verl.md").read_text(encoding="utf-8")


def files_of(
    server: Server, environment: str, run: str, directory: Path
) -> tuple[list[OrsTool], list[dict[str, Any]]]:
    """Return the tools and the rows of a training, as verl reads them from the files of the
    script."""
    write_files(server.url, environment, "train", run, directory)
    rows = pandas.read_parquet(directory / "train.parquet").to_dict("records")
    return initialize_tools_from_config(directory / "tools.yaml"), rows


def loop_of(policy: Policy, tools: list[OrsTool], monkeypatch: pytest.MonkeyPatch) -> OrsAgentLoop:
    """Return an agent loop in which `policy` takes the place of the model, its engine and its
    tokenizer."""

    async def run(self: ToolAgentLoop, sampling_params: Any, **kwargs: Any) -> AgentLoopOutput:
        names = ("image_data", "video_data", "audio_data", "mm_processor_kwargs")
        data = AgentData(
            messages=kwargs["raw_prompt"],
            **dict.fromkeys(names),
            metrics={},
            request_id="",
            tools_kwargs={},
        )
        for _ in range(MAX_TURNS):
            message = policy(data.messages)
            data.messages.append(message)
            calls = [call["function"] for call in message.get("tool_calls") or ()]
            data.tool_calls = [FunctionCall(**function) for function in calls]
            if (
                not calls
                or await self._handle_processing_tools_state(data) is AgentState.TERMINATED
            ):
                break
        counts: dict[str, Any] = {"num_turns": len(data.messages), "metrics": AgentLoopMetrics()}
        return AgentLoopOutput(prompt_ids=[], response_ids=[], response_mask=[], **counts)

    async def merge(*values: Any, **options: Any) -> Any:
        return SimpleNamespace(token_ids=[]), [], None

    monkeypatch.setattr(ToolAgentLoop, "run", run)
    loop = object.__new__(OrsAgentLoop)
    loop.tools, loop.tool_schemas, loop.processor = {tool.name: tool for tool in tools}, [], None
    loop.max_parallel_calls, loop.max_tool_response_length, loop.response_length = 1, 1000, 1000
    loop.tool_response_truncate_side, loop.ct_merge_context_msg = "left", merge
    loop._assert_mm_supported = lambda has_images: None
    return loop


def roll_out(loop: OrsAgentLoop, rows: list[dict[str, Any]]) -> list[float | None]:
    """Return the score of a rollout of each row. All run at the same time."""

    async def main() -> list[AgentLoopOutput]:
        return await asyncio.gather(*(loop.run({}, **row) for row in rows))

    return [output.reward_score for output in asyncio.run(main())]


def test_the_scores_are_the_returns_of_the_server(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools, rows = files_of(server, "guess", "verl/guess 1", tmp_path)
    scores = roll_out(loop_of(halving, tools, monkeypatch), rows[:ROLLOUTS] * 2)
    total = server.curve(ROLLOUTS * 2, run="verl/guess 1")["total"]
    assert (
        total["mean"] == pytest.approx(sum(scores) / len(scores), abs=1e-6) and total["mean"] > 0.5
    )
    episodes = server.episodes("verl/guess 1")
    assert {episode["cause"] for episode in episodes} == {"finished"} and not any(
        e["refused"] for e in episodes
    )


def test_a_rollout_without_a_call_counts_as_0(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools, rows = files_of(server, "math", "verl-silent", tmp_path)
    loop = loop_of(lambda _: {"role": "assistant", "content": "I don't know."}, tools, monkeypatch)
    assert roll_out(loop, rows[:ROLLOUTS]) == [0] * ROLLOUTS
    assert server.curve(ROLLOUTS, run="verl-silent")["total"]["mean"] == 0
    assert {episode["cause"] for episode in server.episodes("verl-silent")} == {"no_call"}


def test_a_refused_call_is_explained_to_the_model(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    def far_off(messages: list[Any]) -> Any:
        seen.append(messages)
        return tool_call("guess", {"number": -1}) if len(messages) == 1 else halving(messages)

    tools, rows = files_of(server, "guess", "verl-refused", tmp_path)
    roll_out(loop_of(far_off, tools, monkeypatch), rows[:1])
    server.curve(1, run="verl-refused")
    assert (
        "out of range" in seen[0][2]["content"]
        and server.episodes("verl-refused")[0]["refused"] == 1
    )


def test_the_script_says_how_many_episodes_the_run_has(
    server: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    tools, rows = files_of(server, "guess", "verl-again", tmp_path)
    assert "run verl-again has 0 episodes: http://" in capsys.readouterr().out
    roll_out(loop_of(halving, tools, monkeypatch), rows[:2])
    server.curve(2, run="verl-again")
    files_of(server, "guess", "verl-again", tmp_path)
    assert "run verl-again has 2 episodes: http://" in capsys.readouterr().out


def test_tools_have_the_types_of_their_parameters(server: Server, tmp_path: Path) -> None:
    [submit], _ = files_of(server, "math", "verl-types", tmp_path)
    schema = submit.get_openai_tool_schema().function
    assert schema.parameters.properties["answer"].type == ["number", "string"]
    assert schema.parameters.required == ["answer"] and schema.description


def test_images_of_outputs_reach_verl(server: Server, tmp_path: Path) -> None:
    tools = {tool.name: tool for tool in files_of(server, "chart", "verl-images", tmp_path)[0]}

    async def zoom() -> Any:
        ors = AsyncORS(base_url=server.url)
        async with ors.environment("chart").session(split="train", index=0) as session:
            EPISODE.set(Episode(session))
            return await tools["zoom"].execute("", {"x": 0, "y": 0, "width": 100, "height": 100})

    response, reward, _ = asyncio.run(zoom())
    assert response.image[0].width > 100 and "times larger" in response.text and reward == 0


def test_the_configuration_of_verl_has_the_settings_of_the_page() -> None:
    words = re.findall(r"(?:data|actor_rollout_ref|algorithm)\.\S+=\S+", PAGE)
    directory = str(Path(verl.__file__).parent / "trainer/config")
    with initialize_config_dir(directory, version_base=None):
        config = compose("ppo_trainer", overrides=words)  # raises for a setting that doesn't exist
    assert len(words) > 10 and config.actor_rollout_ref.rollout.multi_turn.enable
