"""Sessions opened with split and index but without a name: the first path that names an environment
binds them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from environments import JSONObject, Split, ToolOutput, tool
from environments.errors import EnvironmentFault, InvalidIndex, InvalidSplit, OtherEnvironment
from environments.runtime.records import EpisodeEnded, EpisodeStarted
from tests.environments.runtime.play import Play, ended, until, within
from tests.environments.runtime.staged import SlowTasks, Staged
from tests.envs import Echo, FailingConstructor
from tests.envs_base import Small, said


class Elsewhere(Small):
    """An environment with a split that Echo does not have."""

    @classmethod
    def list_splits(cls) -> Sequence[Split | str]:
        return ["extra"]

    @classmethod
    def list_tasks(cls, split: str) -> Sequence[JSONObject]:
        return [{"id": "extra-0"}]

    @tool
    async def shout(self) -> ToolOutput:
        """Say the task's id."""
        return said(str(self.task_spec["id"]))


async def test_a_session_without_a_name_plays_what_its_first_path_names() -> None:
    async with Play(Echo, Elsewhere) as play:
        await play.open("s", split="extra", index=0)
        assert (await play.answer("s", "shout", path_environment="elsewhere")).text == "extra-0"
    assert [row.environment for row in play.record.of(EpisodeStarted)] == ["elsewhere"]


async def test_a_bare_path_binds_to_the_default() -> None:
    async with Play(Echo, Elsewhere) as play:
        await play.open("s", split="train", index=1)
        assert "Task train-1." in await within(play.service.prompt_json("s", "", None))


async def test_a_refused_binding_leaves_the_session_unbound() -> None:
    async with Play(Echo, Elsewhere) as play:
        await play.open("s", split="extra", index=0)
        with pytest.raises(InvalidSplit):
            await within(play.service.prompt_json("s", "", None))
        refused = await play.answer("s", "echo", text="x")
        assert refused.event == "error" and "Invalid split 'extra'" in refused.data
        assert (await play.answer("s", "shout", path_environment="elsewhere")).event == "end"
    assert len(play.record.steps) == 1


@pytest.mark.parametrize(
    ("split", "index", "error"), [("no", 0, InvalidSplit), ("train", 3, InvalidIndex)]
)
async def test_a_task_that_no_split_has_is_reported_at_once(
    split: str, index: int, error: type[Exception]
) -> None:
    async with Play(Echo, Elsewhere) as play:
        with pytest.raises(error):
            await play.open("s", split=split, index=index)
        assert play.service.live_sessions == 0


async def test_two_first_paths_that_differ_play_one_environment_and_tell_the_other() -> None:
    async with Play(Echo, SlowTasks) as play:
        await play.open("s", split="train", index=0)
        first = asyncio.ensure_future(play.service.prompt_json("s", "", "slowtasks"))
        await until(lambda: Staged.events)
        call = await play.start("s", "echo", path_environment="echo", text="x")
        Staged.doors["work"].set()
        assert "Task slow." in await within(first)
        refused = await ended(call)
    assert (
        refused.event == "error"
        and "This session plays 'slowtasks', but the path names 'echo'" in refused.data
    )


async def test_a_path_of_another_environment_is_refused() -> None:
    async with Play(Echo, Elsewhere) as play:
        await play.open("s")
        with pytest.raises(OtherEnvironment, match="plays 'echo', but the path names 'elsewhere'"):
            await play.start("s", "echo", path_environment="elsewhere", text="x")
        assert (await play.answer("s", "echo", path_environment="ECHO", text="x")).text == "x"


async def test_a_late_constructor_failure_is_recorded_and_returned_again() -> None:
    async with Play(Echo, FailingConstructor) as play:
        await play.open("s", split="train", index=0)
        for _ in range(2):
            with pytest.raises(EnvironmentFault, match="the constructor gave up"):
                await within(play.service.prompt_json("s", "", "failingconstructor"))
        await within(play.service.delete("s", ""))
    assert [row.cause for row in play.record.of(EpisodeEnded)] == ["setup_failed"]
