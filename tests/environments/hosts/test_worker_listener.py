"""Worker processes that connect over the network, as those on other machines do, and connections of
strangers."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import socket
from collections.abc import AsyncIterator

import pytest

from environments.authoring.registry import load_class
from environments.errors import EnvironmentFault
from environments.hosts.node_launcher import NodeLauncher
from environments.hosts.process_launcher import how_it_ended
from environments.hosts.worker_host import WorkerHost
from environments.hosts.worker_instance import WorkerInstance
from environments.hosts.worker_listener import WorkerConnections, WorkerListener
from environments.hosts.worker_messages import MessagePipe
from environments.limits import Limits, WorkerSettings
from tests.rows import each

HERE = "127.0.0.1"
HASH_SEED = "4177"
STATUS_SECONDS = 0.2
"""How much later than the end of the connection the server hears how the process ended."""


class FarProcess:
    """A process that was started by `NodeLauncher`."""

    machine = HERE

    def __init__(
        self,
        node: NodeLauncher,
        pid: int,
        connections: WorkerConnections,
        output: asyncio.StreamReader,
    ) -> None:
        self._node, self.pid, self._connections, self.output = node, pid, connections, output

    async def wait(self) -> str:
        status = await self._node.wait()
        await asyncio.sleep(STATUS_SECONDS)
        return how_it_ended(status)

    def kill(self) -> bool:
        self._node.kill()
        return True


class FarLauncher:
    """Does what Ray would do on another machine here, so that only the machine is not another
    one."""

    pipe: MessagePipe
    """That of the newest process."""

    def __init__(self) -> None:
        self.listener = WorkerListener()

    async def open(self) -> None:
        pass

    async def launch(
        self, python: str, resources: dict[str, float], pipe: MessagePipe
    ) -> FarProcess:
        FarLauncher.pipe = pipe
        address = await self.listener.open(HERE)
        with self.listener.expecting(pipe) as expected:
            node = NodeLauncher()
            machine, pid = await node.start(address, expected.token, python, HASH_SEED)
            assert machine == HERE
            await expected.messages
            return FarProcess(node, pid, expected, await expected.output)

    async def close(self) -> None:
        await self.listener.close()


@pytest.fixture(params=["tests.envs_fatal:Counting"])
async def workers(request: pytest.FixtureRequest) -> AsyncIterator[WorkerHost]:
    launcher = FarLauncher()
    workers = WorkerHost(load_class(request.param), Limits(), WorkerSettings(), launcher)
    yield workers
    await workers.close()
    await launcher.close()


@pytest.mark.parametrize("workers", ["tests.envs_hashed:Hashed"], indirect=True)
async def test_it_has_the_hash_seed_of_the_server(workers: WorkerHost) -> None:
    instance = await opened(workers)
    assert f'"seed {HASH_SEED}"' in (await instance.run("answer", {"number": 0})).output_json


async def opened(workers: WorkerHost) -> WorkerInstance:
    instance = workers.instance()
    if await instance.construct({"id": 1}, {}, None):
        await instance.set_up()
    return instance


async def test_a_session_is_played_and_comes_back(workers: WorkerHost) -> None:
    instance = await opened(workers)
    for _ in range(2):
        assert (await instance.run("step", {})).status == "ok"
    gc.collect()
    [worker] = workers.workers
    assert workers.load().machines == 1
    worker.kill("was ended by a test")
    with pytest.raises(
        EnvironmentFault,
        match=rf"\(pid {worker.pid} on {HERE}\) was ended by a "
        rf"test",
    ):
        await worker.ask("ping", 0)
    assert "3" in (await instance.run("step", {})).output_json


@pytest.mark.parametrize("workers", ["tests.envs_returning:SavingInWorkers"], indirect=True)
@pytest.mark.parametrize("is_ended_by_us", [True, False])
async def test_a_call_waits_until_it_is_known_how_the_process_ended(
    workers: WorkerHost, is_ended_by_us: bool
) -> None:
    """Sent to the process that has ended, it would be a call of which nobody knows whether it was
    made."""
    instance = await opened(workers)
    assert (await instance.run("add", {"number": 1})).status == "ok"
    [worker] = workers.workers
    if is_ended_by_us:
        worker.kill("was ended by a test")
    else:
        os.kill(worker.pid, signal.SIGKILL)
        await FarLauncher.pipe.ended.wait()
    assert not worker.lost
    assert "11" in (await instance.run("add", {"number": 10})).output_json


@pytest.mark.parametrize("workers", ["tests.envs_fatal:Together"], indirect=True)
async def test_no_session_begins_in_a_process_whose_connection_is_over(workers: WorkerHost) -> None:
    await (await opened(workers)).close()
    [worker] = workers.workers
    os.kill(worker.pid, signal.SIGKILL)
    await FarLauncher.pipe.ended.wait()
    assert not worker.lost
    assert (await (await opened(workers)).run("pid", {})).output_json


@each("header", [b"messages wrong\n", b"\xff\n", b"x" * 1000 + b"\n", b""])
async def test_strangers_are_refused(header: bytes) -> None:
    listener = WorkerListener()
    address = await listener.open(HERE)
    with (
        listener.expecting(MessagePipe(lambda message: None)),
        socket.create_connection(address) as stranger,
    ):
        stranger.sendall(header)
        stranger.shutdown(socket.SHUT_WR)
        stranger.settimeout(10)
        with contextlib.suppress(ConnectionResetError):
            assert await asyncio.to_thread(stranger.recv, 1) == b""
    await listener.close()


async def test_a_token_is_of_use_once() -> None:
    listener = WorkerListener()
    address = await listener.open(HERE)
    with (
        listener.expecting(MessagePipe(lambda message: None)) as expected,
        socket.create_connection(address) as first,
        socket.create_connection(address) as second,
    ):
        for connection in (first, second):
            connection.sendall(f"messages {expected.token}\n".encode())
            await asyncio.wait_for(expected.messages, 10)
        second.settimeout(10)
        assert await asyncio.to_thread(second.recv, 1) == b""
    await listener.close()
