"""The forms that the player's page has when it loads."""

from __future__ import annotations

import asyncio
from typing import Any

from environments.runtime.records import EpisodeNoted
from environments.runtime.session_request import SessionRequest
from episodes.people.live_play_registry import live_plays_of
from episodes.people.tools import MAX_FORM_CHARACTERS, MAX_FORMS, OfferedTool, first_forms
from tests.environments.runtime.play import Play
from tests.envs import TaskTools

TEXT: dict[str, Any] = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
}


def tool(name: str, schema: Any = TEXT) -> OfferedTool:
    return OfferedTool(name, "", schema)


def test_each_tool_has_a_form() -> None:
    first, second = first_forms([tool("look"), tool("go", None)])
    assert 'name="v/text"' in first and 'name="v/text"' not in second


def test_only_the_first_of_many_tools_have_a_form() -> None:
    assert len(first_forms([tool(f"t{number}") for number in range(30)])) == MAX_FORMS


def test_forms_that_are_too_long_together_are_left_out() -> None:
    many = {
        "type": "object",
        "properties": {f"p{n}": {"type": "string", "description": "x" * 900} for n in range(60)},
    }
    found = first_forms([tool(f"t{number}", many) for number in range(10)])
    assert 0 < len(found) < 10 and sum(map(len, found)) <= MAX_FORM_CHARACTERS


def test_a_schema_without_a_form_has_an_empty_place() -> None:
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(3000):
        deep = {"type": "object", "properties": {"in": deep}, "required": ["in"]}
    assert len(first_forms([tool("deep", deep), tool("look")])) == 2


async def test_a_play_has_started_when_the_tools_of_its_task_are_on_record() -> None:
    async with Play(TaskTools) as play:
        play.record.holds = True
        request = SessionRequest(
            sid="s", owner="", environment="tasktools", spec={"tools": ["dig"]}, player="human"
        )
        start = live_plays_of(play.service).open(request, None).start_task
        while not any("dig" in (row.tools_json or "") for row in play.record.of(EpisodeNoted)):
            play.record.commit()
            await asyncio.sleep(0)
        assert not start.done()
        play.record.commit()
        await start
