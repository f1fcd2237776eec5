"""A call runs once, whatever happens to its connection, and its result can be requested again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from environments import ToolOutput, tool, wire
from environments.database.storable import digest_of
from environments.errors import InvalidRequest, SessionNotFound
from environments.runtime.call_table import Call
from tests.environments.runtime.play import Play, ended, until, within
from tests.envs import GATES, PASSED, Counter, Gated, Scored
from tests.envs_base import Gate, said
from tests.rows import each


@pytest.fixture
async def play() -> AsyncIterator[Play]:
    GATES.clear()
    PASSED.clear()
    async with Play(Counter, Gated) as running:
        await running.open("s")
        yield running
        for gate in GATES.values():
            gate.set()


def runs(play: Play) -> int:
    return sum(step.tool == "count" for step in play.record.steps)


async def test_the_same_id_tells_the_same_result(play: Play) -> None:
    first = await play.answer("s", "count", task_id="mine")
    assert first == await play.answer("s", "count", task_id="mine")
    assert runs(play) == 1


async def test_an_id_of_another_session_is_free(play: Play) -> None:
    await play.open("t")
    await play.answer("s", "count", task_id="mine")
    await play.answer("t", "count", task_id="mine")
    assert runs(play) == 2


async def test_two_requests_at_once_under_one_id_run_once(play: Play) -> None:
    calls = await asyncio.gather(*(play.start("s", "count", task_id="mine") for _ in range(5)))
    assert len({await ended(call) for call in calls}) == 1
    assert runs(play) == 1


async def test_a_running_call_is_rejoined(play: Play) -> None:
    await play.open("g", "gated")
    first = await play.start("g", "hold", gate="a", task_id="mine")
    assert await play.start("g", "hold", gate="a", task_id="mine") is first
    GATES["a"].set()
    assert (await ended(first)).text == "a"


async def test_a_call_that_lost_its_reader_is_adopted_by_the_repeat(play: Play) -> None:
    lost = await play.start("s", "count")
    play.service.leave("s", lost)
    assert (await play.answer("s", "count")).text == "1"
    assert runs(play) == 1


async def test_an_orphan_is_adopted_once(play: Play) -> None:
    lost = await play.start("s", "count")
    play.service.leave("s", lost)
    assert [(await play.answer("s", "count")).text for _ in range(2)] == ["1", "2"]


async def test_two_lost_calls_are_adopted_in_order(play: Play) -> None:
    lost = [await play.start("s", "count") for _ in range(2)]
    for call in lost:
        play.service.leave("s", call)
    assert [(await play.answer("s", "count")).text for _ in range(3)] == ["1", "2", "3"]


async def test_a_call_that_was_rejoined_and_delivered_is_no_orphan(play: Play) -> None:
    lost = await play.start("s", "count")
    play.service.leave("s", lost)
    assert (await play.answer("s", "count", task_id=lost.task_id)).text == "1"
    assert (await play.answer("s", "count")).text == "2"


async def test_a_call_that_has_a_reader_again_is_no_orphan(play: Play) -> None:
    await play.open("g", "gated")
    lost = await play.start("g", "glance", gate="a")
    play.service.leave("g", lost)
    assert await play.start("g", "glance", gate="a", task_id=lost.task_id) is lost
    assert await play.start("g", "glance", gate="a") is not lost
    GATES["a"].set()


async def test_a_call_with_another_reader_left_is_no_orphan(play: Play) -> None:
    await play.open("g", "gated")
    call = await play.start("g", "glance", gate="a")
    await play.start("g", "glance", gate="a", task_id=call.task_id)
    play.service.leave("g", call)
    assert await play.start("g", "glance", gate="a") is not call
    GATES["a"].set()


async def test_another_input_adopts_nothing(play: Play) -> None:
    await play.open("g", "gated")
    lost = await play.start("g", "hold", gate="")
    play.service.leave("g", lost)
    GATES["b"].set()
    assert (await play.answer("g", "hold", gate="b")).text == "b"


async def test_a_delivered_call_is_not_adopted(play: Play) -> None:
    assert [(await play.answer("s", "count")).text for _ in range(2)] == ["1", "2"]


async def test_what_was_sent_is_kept_until_the_result_is_delivered(play: Play) -> None:
    await play.open("g", "gated")
    call = await play.start("g", "hold", gate="a")
    GATES["a"].set()
    await ended(call)
    assert call.arguments == {"gate": "a"}
    call.is_delivered = True
    play.service.leave("g", call)
    assert call.arguments == {}


async def test_the_record_gets_the_digest_of_an_input_that_was_computed_for_the_note(
    play: Play,
) -> None:
    await play.open("g", "gated")
    call = await play.start("g", "hold", gate="a")
    GATES["a"].set()
    await ended(call)
    step = play.record.steps[-1]
    assert step.input_digest.hex() == digest_of(step.input_json.encode())


async def test_after_the_linger_the_record_answers() -> None:
    async with Play(Counter, result_linger_seconds=0.02) as play:
        await play.open("s")
        first = await play.answer("s", "count", task_id="mine")
        await until(lambda: play.service._table.find("s", "").calls.find("mine") is None)
        assert await play.answer("s", "count", task_id="mine") == first
        assert len(play.record.steps) == 1


async def test_large_results_linger_less() -> None:
    async with Play(Counter, max_linger_bytes=200) as play:
        await play.open("s")
        for number in range(5):
            await play.answer("s", "count", task_id=f"t{number}")
        calls = play.service._table.find("s", "").calls
        assert calls.find("t0") is None and calls.find("t4") is not None


async def test_after_the_delete_the_record_answers(play: Play) -> None:
    first = await play.answer("s", "count", task_id="mine")
    await within(play.service.delete("s", ""))
    assert await ended(await play.start("s", "count", task_id="mine")) == first


async def test_after_the_delete_an_unused_id_starts_nothing(play: Play) -> None:
    await within(play.service.delete("s", ""))
    with pytest.raises(SessionNotFound):
        await play.start("s", "count", task_id="mine")


async def test_the_record_answers_only_the_owner(play: Play) -> None:
    await play.answer("s", "count", task_id="mine")
    await within(play.service.delete("s", ""))
    request = wire.ToolCall(name="count", input={}, task_id="mine")
    with pytest.raises(SessionNotFound):
        await within(play.service.call("s", "another key", None, request))


async def test_the_finishing_call_can_be_returned_again_and_nothing_else_runs(play: Play) -> None:
    first = await play.answer("s", "finish", task_id="end")
    assert (await play.answer("s", "count")).body["reason"] == "episode_finished"
    assert await play.answer("s", "finish", task_id="end") == first


class Ending(Gated):
    @tool(concurrent=True)
    async def finish(self, args: Gate) -> ToolOutput:
        """End the episode, possibly at the same time as another such call."""
        return (await self._pass("finish", args.gate)).model_copy(
            update={"finished": True, "reward": 1.0}
        )


async def test_of_two_endings_at_once_only_the_first_pays() -> None:
    async with Play(Ending) as play:
        await play.open("s")
        calls = [await play.start("s", "finish", gate=gate) for gate in ("one", "two")]
        await until(lambda: sum("starts" in event for event in PASSED) >= 2)
        for gate in ("one", "two"):
            GATES[gate].set()
        answers = [(await ended(call)).body["ok"] for call in calls]
        await within(play.service.delete("s", ""))
    assert sorted(answers) == [False, True]
    assert (play.record.end.return_sum, play.record.end.steps, play.record.end.refused) == (
        1.0,
        1,
        1,
    )


@pytest.mark.parametrize("length", [255, 256])
async def test_an_id_has_a_longest_length(play: Play, length: int) -> None:
    if length == 255:
        assert (await play.answer("s", "count", task_id="x" * length)).event == "end"
        return
    with pytest.raises(InvalidRequest, match="task_id has 256 characters; at most 255 are allowed"):
        await play.start("s", "count", task_id="x" * length)


# --- group scores ---------------------------------------------------------------------------------


class OddScores(Scored):
    async def score_group(self, candidates: Any) -> Any:
        return {
            "nan": [float("nan")],
            "few": [],
            "text": "ab",
            "none": None,
            "object": [said("no score")],
            "unserialisable": [{"reward": 1.0, "metadata": {"odd": object()}}],
        }[self.task_spec["id"]]


async def scoring(play: Play, sid: str, **more: Any) -> Call:
    candidate = {"messages": [{"role": "assistant", "blocks": [{"type": "text", "text": "four"}]}]}
    request = wire.ScoreGroup.model_validate({"candidates": [candidate], **more})
    call = await within(play.service.score_group(sid, "", None, request))
    call.join()
    return call  # type: ignore[no-any-return]


async def test_a_group_is_scored() -> None:
    async with Play(Scored) as play:
        await play.open("s")
        assert (await ended(await scoring(play, "s"))).body == {
            "scores": [{"reward": 4.0, "metadata": {"rank": 1}}]
        }


@each("kind", ["nan", "few", "text", "none", "object", "unserialisable"])
async def test_odd_scores_are_an_error_event(kind: str) -> None:
    async with Play(OddScores) as play:
        await play.open(kind)
        assert (await ended(await scoring(play, kind))).event == "error"


async def test_a_scoring_is_returned_again_by_its_id() -> None:
    async with Play(Scored) as play:
        await play.open("s")
        first = await scoring(play, "s", task_id="group")
        assert await scoring(play, "s", task_id="group") is first


async def test_the_id_of_a_scoring_has_a_longest_length() -> None:
    async with Play(Scored) as play:
        await play.open("s")
        with pytest.raises(InvalidRequest, match="task_id has 256 characters"):
            await scoring(play, "s", task_id="x" * 256)


async def test_it_says_which_calls_of_an_episode_run(play: Play) -> None:
    await play.open("held", "gated")
    call = await play.start("held", "hold", gate="a")
    session = play.service._table.get("held")
    assert session is not None
    episode = session.episode.number
    [running] = play.service.running_calls(episode)
    assert running == (call.arrived_at, "hold")
    assert play.service.running_calls(episode + 1) == []
    GATES["a"].set()
    await ended(call)
    assert play.service.running_calls(episode) == []
