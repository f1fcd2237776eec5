"""Whole episodes, played by the unmodified client of the package `mcp` against a real server."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from typing import Any

import pytest
from mcp import MCPError

from episodes.models import Episode, Step
from tests.conformance.clients import OrsClient
from tests.conformance.record import Recorded
from tests.environments.agents.mcp.playing import playing
from tests.server import LiveServer

THEIR_OWN = {
    "id",
    "number",
    "session_id",
    "user_agent",
    "created",
    "ready",
    "first_acted",
    "last_acted",
    "ended",
} | {
    *("duration_seconds", "end_number"),
}
"""Columns of an episode in which any two differ."""
OF_A_STEP = {"id", "episode_id", "task_id", "started", "duration_ms", "waited_ms"}


async def test_it_offers_tools_prompt_and_resource(server: LiveServer) -> None:
    async with playing(f"{server.url}/mcp/echo?index=1") as player:
        tools = {tool.name: tool for tool in (await player.client.list_tools()).tools}
        [prompt] = (await player.client.list_prompts()).prompts
        [resource] = (await player.client.list_resources()).resources
        assert [content.text for content in await player.prompt()] == ["Task train-1."]
        [contents] = (await player.client.read_resource(resource.uri)).contents
    assert (prompt.name, contents.text, contents.mime_type) == (
        "task",
        "Task train-1.",
        "text/plain",
    )
    assert tools["echo"].description == "Say it again."
    assert tools["echo"].input_schema["properties"]["text"]["type"] == "string"
    assert tools["finish"].input_schema == {"type": "object", "properties": {}}


async def test_it_plays_to_the_end_and_then_refuses_calls(server: LiveServer) -> None:
    async with playing(f"{server.url}/mcp/echo") as player:
        assert await player.text("echo", text="hello") == "hello"
        last = await player.call("finish")
        late = await player.call("echo", text="more")
    assert [block.text for block in last.content] == [
        "bye",
        "The episode is over; further tool calls will be refused.",
    ]
    assert (last.is_error, last.meta) == (False, {"orsweb/finished": True})
    assert late.is_error and "the episode has finished" in late.content[0].text


async def test_a_tool_that_models_cannot_call_has_another_name_and_an_object_as_its_input(
    server: LiveServer, record: Recorded
) -> None:
    async with playing(f"{server.url}/mcp/oddtools") as player:
        circular, tool, unusual = (await player.client.list_tools()).tools
        said = [
            await player.text(tool.name, kind="shell", colour="red"),
            await player.text("größe", kind="pebble", grams=3),
        ]
    assert re.fullmatch(r"gr__e-[0-9a-f]{8}", tool.name)
    assert said == ["shell", "pebble"]
    assert tool.input_schema["type"] == "object" and "anyOf" not in tool.input_schema
    assert set(tool.input_schema["properties"]) == {"kind", "grams", "colour"}
    assert tool.input_schema["required"] == ["kind"]
    assert (circular.name, unusual.name) == ("circular", "unusual")


async def test_it_introduces_the_episode(server: LiveServer) -> None:
    async with playing(f"{server.url}/mcp/echo") as player:
        assert "one episode of the environment 'echo'" in (player.client.instructions or "")
        assert player.client.server_info.title == "orsweb: echo"


def columns(row: Episode | Step, without: set[str]) -> dict[str, Any]:
    return {
        field.attname: getattr(row, field.attname) for field in row._meta.concrete_fields
    } | dict.fromkeys(without)


async def test_the_record_equals_that_of_an_ors_client(
    server: LiveServer, record: Recorded
) -> None:
    async with playing(
        f"{server.url}/mcp/echo?split=train&index=1&run=same&model=tiny&step=3"
    ) as player:
        await player.client.list_tools()
        await player.prompt()
        await player.call("echo", text="one two")
        with pytest.raises(MCPError, match="'nope' is not a valid tool"):
            await player.call("nope")
        await player.call("echo", text=5)
        await player.call("finish")
    sid = await asyncio.to_thread(play_by_ors, server)
    theirs, ours = [await asyncio.to_thread(record.episode, one) for one in (sid, player.sid)]
    assert columns(ours, THEIR_OWN) == columns(theirs, THEIR_OWN)
    their_steps, our_steps = [
        await asyncio.to_thread(record.steps, one) for one in (sid, player.sid)
    ]
    assert [columns(one, OF_A_STEP) for one in our_steps] == [
        columns(one, OF_A_STEP) for one in their_steps
    ]
    assert len(our_steps) == 4


def play_by_ors(server: LiveServer) -> str:
    run = {"orsweb_run": "same", "orsweb_model": "tiny", "orsweb_step": "3"}
    with (
        OrsClient(server) as client,
        client.environment("echo").session(split="train", index=1, secrets=run) as session,
    ):
        session.list_tools()
        session.get_prompt()
        session.call_tool("echo", {"text": "one two"})
        for tool, arguments in (("nope", {}), ("echo", {"text": 5})):
            with pytest.raises(Exception, match="valid"):
                session.call_tool(tool, arguments)
        session.call_tool("finish", {})
        return str(session.sid)


async def test_the_record_names_the_client(server: LiveServer, record: Recorded) -> None:
    async with playing(f"{server.url}/mcp/echo", {"User-Agent": "tests"}) as player:
        pass
    episode = await asyncio.to_thread(record.episode, player.sid)
    assert episode.user_agent.startswith("mcp/") and episode.user_agent.endswith(
        " tests MCP/2025-11-25"
    )


@pytest.mark.parametrize("reads", ["prompt", "resource"])
async def test_reading_the_prompt_is_recorded(
    server: LiveServer, record: Recorded, reads: str
) -> None:
    async with playing(f"{server.url}/mcp/echo") as player:
        await (
            player.prompt() if reads == "prompt" else player.client.read_resource("task://prompt")
        )
    episode = await asyncio.to_thread(record.episode, player.sid)
    assert json.loads(episode.prompt.text)[0]["text"] == "Task train-0."


async def test_without_reading_it_no_prompt_is_recorded(
    server: LiveServer, record: Recorded
) -> None:
    async with playing(f"{server.url}/mcp/echo") as player:
        await player.client.list_tools()
        await player.client.list_prompts()
        await player.client.list_resources()
    episode = await asyncio.to_thread(record.episode, player.sid)
    assert (episode.prompt, episode.is_probe) == (None, True)


async def test_it_shows_images(server: LiveServer) -> None:
    async with playing(f"{server.url}/mcp/pictures") as player:
        words, picture = await player.prompt()
        text, blob = (await player.client.read_resource("task://prompt")).contents
        seen = (await player.call("look")).content[1]
    assert (words.text, picture.type, picture.mime_type) == ("What is this?", "image", "image/png")
    assert (text.text, blob.blob, blob.mime_type) == ("What is this?", picture.data, "image/png")
    assert (seen.type, seen.data, seen.mime_type) == ("image", picture.data, "image/png")


async def test_it_offers_a_conversation_as_messages(server: LiveServer) -> None:
    async with playing(f"{server.url}/mcp/conversation") as player:
        messages = (await player.client.get_prompt("task")).messages
    messages_shown = [
        (message.role, getattr(message.content, "text", "image")) for message in messages
    ]
    assert messages_shown == [
        ("user", "Be brief."),
        ("assistant", "I must look."),
        ("assistant", 'look({"far": true})'),
        ("user", "image"),
        ("user", "And now?"),
    ]


async def test_the_terminal_tool_is_a_tool(server: LiveServer) -> None:
    async with playing(f"{server.url}/mcp/terminal?rewards=1") as player:
        tools = {tool.name: tool for tool in (await player.client.list_tools()).tools}
        result = await player.call("submit", text="42")
    assert tools["submit"].input_schema["required"] == ["text"]
    assert result.meta == {"orsweb/finished": True, "orsweb/reward": 1.0}


async def test_rewards_are_recorded_and_not_shown(server: LiveServer, record: Recorded) -> None:
    async with playing(f"{server.url}/mcp/echo") as player:
        result = await player.call("echo", text="hello")
    assert "0.1" not in result.model_dump_json()
    [step] = await asyncio.to_thread(record.steps, player.sid)
    assert step.reward == 0.1


@pytest.mark.parametrize(("query", "headers"), [("?rewards=1", {}), ("", {"X-Rewards": "yes"})])
async def test_rewards_are_shown_on_request(
    server: LiveServer, query: str, headers: dict[str, str]
) -> None:
    async with playing(f"{server.url}/mcp/echo{query}", headers) as player:
        result = await player.call("echo", text="hello")
    assert [block.text for block in result.content] == ["hello", "Reward: 0.1"]
    assert result.meta == {"orsweb/finished": False, "orsweb/reward": 0.1}


async def test_what_a_tool_raised_is_a_result_that_the_agent_reads(
    server: LiveServer, record: Recorded
) -> None:
    async with playing(f"{server.url}/mcp/raises") as player:
        results = [await player.call(tool) for tool in ("fault", "recoverable", "surrogate")]
    assert [(one.is_error, one.content[0].text) for one in results][:2] == [
        (True, "the valve is stuck"),
        (True, "try the other door"),
    ]
    assert results[2].is_error is False
    statuses = [step.status for step in await asyncio.to_thread(record.steps, player.sid)]
    assert statuses == ["failed", "refused", "ok"]


async def test_invalid_input_is_a_result_that_the_agent_reads(server: LiveServer) -> None:
    async with playing(f"{server.url}/mcp/echo") as player:
        result = await player.call("echo", text=5)
    assert result.is_error and "Tool input validation error" in result.content[0].text


@pytest.mark.parametrize(
    ("environment", "message"),
    [("failingprompt", "RuntimeError"), ("failingsetup", "RuntimeError")],
)
async def test_a_prompt_that_fails_is_an_error(
    server: LiveServer, environment: str, message: str
) -> None:
    async with playing(f"{server.url}/mcp/{environment}") as player:
        with pytest.raises(MCPError, match=message):
            await player.prompt()


async def test_secrets_and_labels_come_in_a_header(server: LiveServer, record: Recorded) -> None:
    values = {"token": {"value": "very-secret-1"}, "orsweb_seed": {"value": "3"}}
    header = base64.b64encode(json.dumps(values).encode()).decode()
    async with playing(f"{server.url}/mcp/secretive?run=r", {"X-Secrets": header}) as player:
        assert await player.text("reveal") == "token very-secret-1"
    episode = await asyncio.to_thread(record.episode, player.sid)
    assert (episode.run.name, episode.labels_object) == ("r", {"seed": "3"})
    assert "very-secret-1" not in await asyncio.to_thread(record.everything)


async def test_sessions_do_not_see_each_other(server: LiveServer, record: Recorded) -> None:
    async def one(index: int) -> tuple[str, str]:
        async with playing(f"{server.url}/mcp/echo?index={index % 3}") as player:
            [prompt] = await player.prompt()
            for number in range(3):
                assert await player.text("echo", text=f"{index}-{number}") == f"{index}-{number}"
            return player.sid, prompt.text

    played = await asyncio.gather(*map(one, range(6)))
    assert [prompt for _, prompt in played] == [f"Task train-{index % 3}." for index in range(6)]
    for index, (sid, _) in enumerate(played):
        texts = [
            json.loads(step.input_json)["text"]
            for step in await asyncio.to_thread(record.steps, sid)
        ]
        assert texts == [f"{index}-{number}" for number in range(3)]
