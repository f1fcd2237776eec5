"""Sessions of classes that save come back from their newest snapshot; tests/conformance restarts
real servers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import pytest

from environments import Environment, ToolOutput, tool
from environments.authoring.hosted_class import HostedClass
from environments.errors import Unhostable
from environments.quotas import KeyUsage
from environments.runtime.call_execution import LOST
from environments.runtime.crash_notes import NotedCall, hash_of
from environments.runtime.records import EpisodeEnded, OpenEpisode, SnapshotTaken
from environments.runtime.saving_instance import MAX_SNAPSHOT_BYTES
from tests.environments.runtime.play import Play, until
from tests.envs_base import Small, said
from tests.envs_returning import (
    Adding,
    Number,
    Saving,
    SavingAndAdding,
    SavingInWorkers,
    SavingSeldom,
)


class Odd(Saving):
    """What it saves is what the test says."""

    saved: ClassVar[Any] = b""

    def save(self) -> bytes:
        if isinstance(Odd.saved, Exception):
            raise Odd.saved
        return Odd.saved  # type: ignore[no-any-return]


class Waiting(Saving):
    """A second tool, whose calls run beside those of `add`."""

    @tool
    async def wait(self, given: Number) -> ToolOutput:
        """Add a number after a while."""
        await asyncio.sleep(given.seconds)
        self.sum += given.number
        return said(str(self.sum))


@asynccontextmanager
async def going_on(
    cls: type, *numbers: int, running: tuple[NotedCall, ...] = (), **open: Any
) -> AsyncIterator[Play]:
    """Play a session `s` with calls for `numbers`, and return the next service, which goes on with
    it."""
    async with Play(cls) as before:
        await before.open("s", can_return=True, **open)
        for number in numbers:
            await before.answer("s", "add", number=number)
    assert not before.record.of(EpisodeEnded)
    async with Play(cls) as after:
        after.record.rows += before.record.rows
        after.record.next_episode()
        now, name = time.time(), after.service.registry.default.name
        left = OpenEpisode(
            1,
            name,
            "s",
            "",
            "replay",
            "",
            is_named=False,
            has_prompt=False,
            created=now,
            ready=now,
            running=running,
        )
        after.service.take_over([left], lambda label: KeyUsage())
        yield after


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What sessions have noted: the calls that began, and loads."""
    events: list[str] = []
    monkeypatch.setattr(Adding, "note", lambda self, event: events.append(event))
    return events


@pytest.mark.parametrize("cls", [Saving, SavingInWorkers])
async def test_it_goes_on_from_its_snapshot_and_makes_no_call_again(
    cls: type, begun: list[str]
) -> None:
    async with going_on(cls, 1, 2) as play:
        begun.clear()
        assert (await play.answer("s", "add", number=3)).text == "6"
        assert begun == ["load", "add 3 starts"]
        await play.service.delete("s", "")
        assert (
            play.record.end.steps,
            play.record.end.return_sum,
            play.record.end.has_snapshot,
        ) == (3, 6.0, True)


async def test_only_classes_that_save_take_snapshots() -> None:
    async with going_on(Adding, 1) as play:
        assert not play.record.of(SnapshotTaken)
        await play.service.delete("s", "")
        assert not play.record.end.has_snapshot


async def test_calls_after_the_last_snapshot_are_made_again_if_the_class_is_replayable(
    begun: list[str],
) -> None:
    async with going_on(SavingAndAdding, 1, 2, 3) as play:
        begun.clear()
        assert (await play.answer("s", "add", number=4)).text == "10"
        assert begun == ["load", "add 3 starts", "add 4 starts"]


async def test_a_call_in_no_snapshot_ends_the_session_if_the_class_is_not_replayable() -> None:
    async with going_on(SavingSeldom, 1, 2, 3) as play:
        answer = await play.answer("s", "add", number=4)
        assert (
            "because its class is not replayable, and step 2 ('add') is in no snapshot."
            in answer.data
        )
        await until(lambda: not play.service.live_sessions)
        assert play.record.end.cause == "interrupted"


@pytest.mark.parametrize(
    ("saved", "why"),
    [
        (
            b"x" * (MAX_SNAPSHOT_BYTES + 1),
            "save() returned 4,000,001 bytes; at most 4,000,000 are kept",
        ),
        ("text", "save() returned str; expected bytes"),
        (OSError("no t0p-secret"), "save() failed with OSError: no ********"),
        (b"a t0p-secret", "what save() returned contains a secret of the session"),
    ],
)
async def test_it_says_why_there_is_no_snapshot(
    saved: Any, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Odd, "saved", saved)
    async with going_on(Odd, 1, masked_texts=("t0p-secret",)) as play:
        answer = await play.answer("s", "add", number=4)
        assert f"step 0 ('add') is in no snapshot: {why}." in answer.data
        assert not any(b"t0p" in row.state for row in play.record.of(SnapshotTaken))


class Operator:
    """Gives every environment a secret."""

    async def of(self, environment: str, owner: str) -> dict[str, str]:
        return {"token": "t0p-secret"}


async def test_a_snapshot_with_a_secret_of_the_operator_is_not_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Odd, "saved", b"a t0p-secret")
    async with Play(Odd) as play:
        play.service.give_secrets(Operator())
        await play.open("s", can_return=True)
        await play.answer("s", "add", number=1)
        assert [row.state for row in play.record.of(SnapshotTaken)] == [b""]


async def test_a_session_without_calls_needs_no_snapshot() -> None:
    async with going_on(SavingSeldom) as play:
        assert (await play.answer("s", "add", number=4)).text == "4"


async def test_a_call_that_ran_when_the_server_died_is_told_and_not_made(begun: list[str]) -> None:
    call = NotedCall("saving", 1, "add", 0.0, hash_of('{"number":5}'), 0, 0)
    async with going_on(Saving, 1, running=(call,)) as play:
        begun.clear()
        assert (await play.answer("s", "add", number=5, task_id="t")).data == LOST
        assert (await play.answer("s", "add", number=5)).text == "6"
        assert begun == ["load", "add 5 starts"]
        assert [step.reason for step in play.record.steps] == ["", "interrupted", ""]


async def test_a_snapshot_holds_whole_calls() -> None:
    async with going_on(Waiting) as play:
        waiting = await play.start("s", "wait", number=1, seconds=0.2)
        await play.answer("s", "add", number=2)
        assert not play.record.of(SnapshotTaken)
        assert await waiting.wait(10)
        assert [(row.index, row.state) for row in play.record.of(SnapshotTaken)] == [(1, b"3")]


class ToolNamedSave(Small):
    """A tool that is called save."""

    @tool
    def save(self) -> ToolOutput:
        """Save."""
        return said("saved")

    def load(self, state: bytes) -> None:
        """Load."""


class OtherSave(Adding):
    """Methods with these names that mean something else."""

    def save(self, path: str) -> None:
        """Save."""

    def load(self) -> None:
        """Load."""


@pytest.mark.parametrize("cls", [ToolNamedSave, OtherSave, Adding])
def test_other_methods_may_be_called_save_and_load(cls: type[Environment]) -> None:
    assert not HostedClass(cls).saves


@pytest.mark.parametrize(
    ("every", "why"), [(0, "use the number of calls"), (2, "but not both save")]
)
def test_snapshot_every_is_checked(every: int, why: str) -> None:
    with pytest.raises(Unhostable, match=why):
        HostedClass(type("Wrong", (Adding,), {"snapshot_every": every}))
