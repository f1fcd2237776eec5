"""Worker processes behind the contract of a host: which one the next session gets, and what ends
with a process."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import uvloop

from environments.authoring.registry import load_class
from environments.errors import WORKER_LOST, EnvironmentFault
from environments.hosts import worker_host, worker_instance, worker_process
from environments.hosts.process_launcher import LocalLauncher, LocalProcess
from environments.hosts.worker_host import WorkerHost
from environments.hosts.worker_instance import WorkerInstance
from environments.hosts.worker_messages import MessagePipe
from environments.limits import Limits, WorkerSettings
from environments.runtime.call_outcome import CallOutcome
from tests.environments.runtime.play import until

DEFAULTS = WorkerSettings()


@contextlib.asynccontextmanager
async def hosting(
    origin: str,
    tool_timeout_seconds: float | None = None,
    settings: WorkerSettings = DEFAULTS,
    grace: float = 10,
    launcher: LocalLauncher | None = None,
) -> AsyncIterator[WorkerHost]:
    limits = Limits(tool_timeout_seconds=tool_timeout_seconds, close_wait_seconds=grace)
    workers = WorkerHost(load_class(origin), limits, settings, launcher)
    watching = asyncio.create_task(workers.keep_alive())
    try:
        yield workers
    finally:
        watching.cancel()
        await workers.close()


async def opened(workers: WorkerHost, **spec: str) -> WorkerInstance:
    instance = workers.instance()
    if await instance.construct({"id": 1, **spec}, {}, None):
        await instance.set_up()
    return instance


async def test_the_next_session_gets_no_process_that_is_being_ended() -> None:
    async with hosting("tests.envs_fatal:Alone") as workers:
        await (await opened(workers)).close()
        assert (await (await opened(workers)).run("pid", {})).status == "ok"


async def test_a_class_that_could_not_be_imported_is_imported_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    text = "from tests.envs_fatal import Together\n\n\nclass Later(Together):\n    pass\n"
    (module := tmp_path / "imported_later.py").write_text(text)
    async with hosting("imported_later:Later") as workers:
        module.write_text("raise RuntimeError('not yet')\n")
        with pytest.raises(EnvironmentFault, match="not yet"):
            await opened(workers)
        module.write_text(text)
        assert (await (await opened(workers)).run("pid", {})).status == "ok"


async def test_no_process_is_ended_for_its_silence_during_a_constructor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_process, "SILENCE_SECONDS", 0.1)
    until_exists, log = tmp_path / "until", tmp_path / "log"
    async with hosting("tests.conformance.envs:Blocking", tool_timeout_seconds=1.0) as workers:
        other = await opened(workers)
        slow = asyncio.create_task(
            opened(workers, where="constructor", until=str(until_exists), log=str(log))
        )
        await until(log.exists)
        next(iter(workers.workers))._last_heard -= 10  # as if the constructor had run for so long
        next(iter(workers.workers)).check_heard()
        call = asyncio.create_task(other.run("work", {}))
        await asyncio.sleep(0)
        next(iter(workers.workers)).check_heard()
        assert (await call).status == "ok"
        until_exists.touch()
        await slow


async def test_a_session_opens_after_a_process_could_not_be_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with hosting("tests.envs_fatal:Counting") as workers:
        ended: list[str] = []
        workers.on_loss = lambda instance, reason: ended.append(reason)
        with monkeypatch.context() as patched:
            patched.setattr(sys, "executable", "/nowhere/python")
            with pytest.raises(
                EnvironmentFault, match="'counting' could not be started: No such file or directory"
            ):
                await opened(workers)
        assert not ended  # the request that opens the session gets the reason
        assert (await (await opened(workers)).run("step", {})).status == "ok"


async def test_inputs_that_a_json_schema_forbids_are_refused() -> None:
    async with hosting("tests.envs:Schematic") as workers:
        instance = await opened(workers)
        assert "moved {'way': 'down'}" in (
            (await instance.run("move", {"way": "down"})).output_json or ""
        )
        answer = json.loads((await instance.run("move", {"way": "left"})).result("none").data)
        error = "Tool input validation error: $.way: 'left' is not one of ['up', 'down']"
        assert answer == {"ok": False, "error": error, "reason": "input_validation"}


class Crowded(LocalLauncher):
    """A cluster that has room for one process. Others wait for a second place, and are refused
    where there is none."""

    def __init__(self, is_refusing: bool) -> None:
        self.is_refusing, self.asked, self.place = is_refusing, 0, asyncio.Event()

    async def launch(
        self, python: str, resources: dict[str, float], pipe: MessagePipe
    ) -> LocalProcess:
        self.asked += 1
        if self.asked > 1 and self.is_refusing:
            raise OSError("no machine had room")
        if self.asked > 1:
            await self.place.wait()
        return await super().launch(python, resources, pipe)


async def test_sessions_share_a_process_until_there_is_room_for_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker_host, "ROOM_SECONDS", 0.1)
    crowded = Crowded(is_refusing=False)
    async with hosting(
        "tests.envs_fatal:Together", settings=WorkerSettings(count=3), launcher=crowded
    ) as workers:
        instances = [await opened(workers) for _ in range(3)]
        first, *others = [await pid(instance) for instance in instances]
        assert others == [first, first]
        assert (crowded.asked, workers.load().processes, workers.load().sessions) == (2, 1, 3)
        crowded.place.set()
        await until(lambda: all(one.has_started for one in workers.workers))
        assert await pid(await opened(workers)) != first


async def test_sessions_that_begin_together_share_the_process_that_finds_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker_host, "ROOM_SECONDS", 0.1)
    crowded = Crowded(is_refusing=False)
    async with hosting(
        "tests.envs_fatal:Together", settings=WorkerSettings(count=3), launcher=crowded
    ) as workers:
        instances = await asyncio.wait_for(asyncio.gather(*(opened(workers) for _ in range(6))), 20)
        assert len({await pid(instance) for instance in instances}) == 1


async def test_a_session_is_played_by_a_running_process_if_no_other_can_be_started() -> None:
    crowded = Crowded(is_refusing=True)
    async with hosting(
        "tests.envs_fatal:Together", settings=WorkerSettings(count=2), launcher=crowded
    ) as workers:
        first, second = await opened(workers), await opened(workers)
        assert (await pid(second), crowded.asked) == (await pid(first), 2)
        await first.close()
        await second.close()
        assert (workers.load().sessions, workers.load().machines, workers.deaths) == (0, 1, 0)


async def test_the_lag_is_how_long_code_holds_a_process_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_host, "CHECK_SECONDS", 0.05)
    async with hosting("tests.envs_fatal:Together") as workers:
        napping = asyncio.create_task((await opened(workers)).run("nap", {}))
        await until(lambda: workers.load().lag_seconds > 0.5)
        await napping
        await until(lambda: workers.load().lag_seconds == 0.0)


async def pid(instance: WorkerInstance) -> str:
    return str((await instance.run("pid", {})).output_json)


@pytest.mark.parametrize("place", ["constructor", "setup"])
async def test_a_session_of_a_replayable_class_opens_although_its_process_ends_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    marks, goes_on = tmp_path / "pids", tmp_path / "goes-on"
    monkeypatch.setenv("OPENING_MARKS", str(marks))
    monkeypatch.setenv("OPENING_GOES_ON", str(goes_on))
    async with hosting("tests.envs_fatal:Held") as workers:
        opening = asyncio.create_task(opened(workers, waits_in=place))
        await until(lambda: marks.exists() and marks.read_text())
        for death in (1, 2):
            next(one for one in workers.workers if one.is_open).kill("was ended by a test")
            await until(lambda death=death: marks.read_text().count("\n") == death + 1)  # type: ignore[misc]
        goes_on.touch()
        assert (await (await opening).run("step", {})).status == "ok"
        assert len(set(marks.read_text().split())) == 3
        await (await opened(workers)).close()


async def test_a_session_that_is_closed_while_it_comes_back_leaves_nothing() -> None:
    async with hosting("tests.envs_fatal:Counting") as workers:
        instance = await opened(workers)
        (lost := next(iter(workers.workers))).kill("was ended by a test")
        await until(lambda: bool(lost.lost))
        call = asyncio.create_task(instance.run("step", {}))
        await until(lambda: workers.load().sessions == 1)
        call.cancel()
        await instance.close()
        await until(lambda: workers.load().sessions == 0)


async def test_a_session_comes_back_although_the_next_process_ends_meanwhile() -> None:
    async with hosting("tests.envs_fatal:Counting") as workers:
        instance = await opened(workers)
        (first := next(iter(workers.workers))).kill("was ended by a test")
        await until(lambda: bool(first.lost))
        call = asyncio.create_task(instance.run("step", {}))
        await until(lambda: any(one.pid for one in workers.workers))
        next(iter(workers.workers)).kill("was ended by a test")
        assert (await call).status == "ok"


@pytest.mark.parametrize(("seconds", "goes_on"), [(0.1, True), (60.0, False)])
async def test_a_process_ends_if_async_code_stays_longer_than_its_grace(
    monkeypatch: pytest.MonkeyPatch, seconds: float, goes_on: bool
) -> None:
    monkeypatch.setattr(worker_host, "CHECK_SECONDS", 0.1)
    monkeypatch.setattr(worker_process, "SILENCE_SECONDS", 60.0)
    async with hosting("tests.envs_fatal:Alone", tool_timeout_seconds=0.1, grace=0.2) as workers:
        outcome = await (await opened(workers)).run("stay", {"seconds": seconds})
        assert outcome.reason == "timeout"
        played = next(iter(workers.workers))
        await until(lambda: bool(workers._looking))
        await until(lambda: not workers._looking)
        assert played.is_open is goes_on
        assert goes_on or "ran on after its time was over" in played._why_killed


async def test_a_process_that_takes_too_much_cpu_time_is_ended() -> None:
    async with hosting(
        "tests.envs_fatal:Together", settings=WorkerSettings(cpu_seconds=1)
    ) as workers:
        error = (await (await opened(workers)).run("run_out_of_cpu_time", {})).error
        assert (
            "by signal 24 (SIGXCPU, because it took more CPU time than ORSWEB_WORKER_CPU_SECONDS allows)"
            in error
        )


async def test_processes_that_are_not_needed_end_except_for_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker_host, "IDLE_SECONDS", 0.0)
    monkeypatch.setattr(worker_host, "CHECK_SECONDS", 0.05)
    async with hosting("tests.envs_fatal:Together", settings=WorkerSettings(count=2)) as workers:
        first, second = await opened(workers), await opened(workers)
        assert len(workers.workers) == 2
        await first.close()
        await until(lambda: len(workers.workers) == 1)
        await second.close()
        workers._end_idle()
        assert [one.is_open for one in workers.workers] == [True]
        assert workers.deaths == 0


@pytest.mark.parametrize("environment", ["Together", "Alone"])
async def test_code_that_ends_its_process_again_and_again_gets_others_ever_later(
    monkeypatch: pytest.MonkeyPatch, environment: str
) -> None:
    monkeypatch.setattr(worker_host, "FIRST_PAUSE_SECONDS", 0.5)
    monkeypatch.setattr(worker_host, "MAX_QUICK_STARTS", 1)
    async with hosting(f"tests.envs_fatal:{environment}") as workers:
        waits = []
        for _ in range(4):
            since = time.monotonic()
            instance = await opened(workers)
            waits.append(time.monotonic() - since)
            assert (await instance.run("leave", {})).reason == WORKER_LOST
        assert waits[-1] > 0.99  # after the third end
        monkeypatch.setattr(worker_host, "RECENT_SECONDS", 0.0)
        assert workers._pause_seconds() <= 0


@dataclass
class HeldCalls:
    """Calls of the class Held, which go on at a sign."""

    marks: Path
    goes_on: Path

    def pids(self) -> list[str]:
        """Return the processes in which calls have begun, one for each call."""
        return self.marks.read_text().split() if self.marks.exists() else []

    async def begun(self, workers: WorkerHost, number: int) -> list[asyncio.Task[CallOutcome]]:
        """Begin calls of sessions of their own, and wait until all run."""
        instances = [await opened(workers, waits_in="call") for _ in range(number)]
        calls = [asyncio.create_task(one.run("hold_on", {})) for one in instances]
        await until(lambda: len(self.pids()) == number)
        return calls


@pytest.fixture
def held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HeldCalls:
    calls = HeldCalls(tmp_path / "pids", tmp_path / "goes-on")
    monkeypatch.setenv("OPENING_MARKS", str(calls.marks))
    monkeypatch.setenv("OPENING_GOES_ON", str(calls.goes_on))
    return calls


async def test_all_calls_that_ran_in_a_process_are_made_again_at_once_in_one_for_them_alone(
    held: HeldCalls,
) -> None:
    async with hosting("tests.envs_fatal:Held") as workers:
        calls = await held.begun(workers, 3)
        (lost,) = workers.workers
        lost.kill("was ended by a test")
        async with asyncio.timeout(9):
            await until(lambda: len(held.pids()) == 6)  # before any of them is over
        assert len(set(held.pids()[3:])) == 1
        output = await pid(await opened(workers))
        assert not any(one in output for one in held.pids())  # one of them may end that too
        held.goes_on.touch()
        assert [(await call).status for call in calls] == ["ok"] * 3
        assert all(one.is_open for one in workers.workers)


async def test_calls_that_are_made_again_share_a_process_only_where_there_is_no_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker_host, "ROOM_SECONDS", 0.02)
    crowded = Crowded(is_refusing=False)
    async with hosting("tests.envs_fatal:Together", launcher=crowded) as workers:
        session = await opened(workers)
        (running,) = workers.workers
        theirs = workers._new()
        theirs.suspects.add(session)
        assert await workers._instead_of(theirs) is running
        theirs.pid = 1  # as if it had found room, and imported its class
        waiting = asyncio.create_task(workers._instead_of(theirs))
        await asyncio.wait((waiting,), timeout=0.2)
        assert not waiting.done()
        crowded.place.set()
        assert await waiting is None


async def test_only_the_call_that_ends_its_process_fails_however_long_the_others_take(
    held: HeldCalls,
) -> None:
    async with hosting("tests.envs_fatal:Held") as workers:
        culprits = [await opened(workers) for _ in range(2)]
        idle = await opened(workers)
        calls = await held.begun(workers, 5)
        assert len(workers.workers) == 1
        outcomes = await asyncio.gather(*(one.run("leave", {}) for one in culprits))
        assert [outcome.reason for outcome in outcomes] == [WORKER_LOST] * 2
        assert not any(call.done() for call in calls)
        assert (await idle.run("step", {})).reward == 1.0
        held.goes_on.touch()
        assert [(await call).status for call in calls] == ["ok"] * 5
        first, *further = workers.workers
        assert further
        await opened(workers)
        # sessions enter no more processes than the settings say
        assert len(workers.workers[first]) > 1
        for played in [*workers.workers.values()]:
            for one in [*played]:
                await one.close()
        await until(lambda: [*workers.workers] == [first])


async def test_a_process_that_ends_again_is_left_by_all_but_the_culprit_within_a_few_rounds(
    held: HeldCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_instance, "MAX_REVIVALS", 1)
    monkeypatch.setattr(worker_host, "MAX_SHARES", 2)
    # so that one waits until the other is done
    monkeypatch.setattr(worker_host, "MAX_FOR_SUSPECTS", 1)
    monkeypatch.setattr(worker_host, "CHECK_SECONDS", 0.05)
    async with hosting("tests.envs_fatal:Held") as workers:
        calls = await held.begun(workers, 4)
        for number in (4, 8):
            await until(lambda number=number: len(held.pids()) == number)  # type: ignore[misc]
            next(one for one in workers.workers if one.pid).kill("was ended by a test")
        await until(lambda: len(held.pids()) == 10)
        assert len(workers._ends) == 1  # the search delays no start
        assert [len(one.suspects) for one in workers.workers] == [2, 2]
        held.goes_on.touch()
        assert [(await call).status for call in calls] == ["ok"] * 4


async def test_while_a_start_has_to_wait_the_processes_that_run_get_the_sessions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker_host, "MAX_QUICK_STARTS", 1)
    monkeypatch.setattr(worker_host, "FIRST_PAUSE_SECONDS", 2.0)
    async with hosting("tests.envs_fatal:Together", settings=WorkerSettings(count=2)) as workers:
        first = await opened(workers)
        for _ in range(2):
            await (await opened(workers)).run("leave", {})
        assert await pid(await opened(workers)) == await pid(first)


def test_a_message_after_the_end_of_the_connection_is_dropped() -> None:
    async def send() -> None:
        ours, its = socket.socketpair()
        pipe = MessagePipe(lambda message: None)
        await asyncio.get_running_loop().create_unix_connection(lambda: pipe, sock=ours)
        its.close()
        await asyncio.wait_for(pipe.ended.wait(), 10)
        await asyncio.sleep(0)  # the loop closes the transport after it has said so
        pipe.send({"id": 1})

    uvloop.run(send())
