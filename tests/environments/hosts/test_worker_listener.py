"""Worker processes that connect over the network, as those on other machines do, and connections of strangers."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
from collections.abc import AsyncIterator

import pytest

from environments.authoring.registry import load_class
from environments.errors import EnvironmentFault
from environments.hosts.node_launcher import NodeLauncher
from environments.hosts.process_launcher import how_it_ended
from environments.hosts.worker_host import WorkerHost
from environments.hosts.worker_instance import WorkerInstance
from environments.hosts.worker_listener import Expected, WorkerListener
from environments.hosts.worker_messages import MessagePipe
from environments.runtime.limits import Limits, WorkerSettings

HERE = "127.0.0.1"


class FarProcess:
    """A process that was started by `NodeLauncher`."""

    machine = HERE

    def __init__(self, node: NodeLauncher, pid: int, connections: Expected, output: asyncio.StreamReader) -> None:
        self._node, self.pid, self._connections, self.output = node, pid, connections, output

    async def wait(self) -> str:
        return how_it_ended(await self._node.wait())

    def kill(self) -> bool:
        self._node.kill()
        return True


class FarLauncher:
    """Does what Ray would do on another machine here, so that only the machine is not another one."""

    def __init__(self) -> None:
        self.listener = WorkerListener()

    async def open(self) -> None:
        pass

    async def launch(self, python: str, resources: dict[str, float], pipe: MessagePipe) -> FarProcess:
        address = await self.listener.open(HERE)
        with self.listener.expecting(pipe) as expected:
            node = NodeLauncher()
            machine, pid = await node.start(address, expected.token, python)
            assert machine == HERE
            await expected.messages
            return FarProcess(node, pid, expected, await expected.output)

    async def close(self) -> None:
        await self.listener.close()


@pytest.fixture
async def workers() -> AsyncIterator[WorkerHost]:
    launcher = FarLauncher()
    workers = WorkerHost(load_class("tests.envs_fatal:Counting"), Limits(), WorkerSettings(), launcher)
    yield workers
    await workers.close()
    await launcher.close()


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
    with pytest.raises(EnvironmentFault, match=rf"\(pid {worker.pid} on {HERE}\) was ended by a test"):
        await worker.ask("ping", 0)
    assert "3" in (await instance.run("step", {})).output_json


@pytest.mark.parametrize("header", [b"messages wrong\n", b"\xff\n", b"x" * 1000 + b"\n", b""])
async def test_strangers_are_refused(header: bytes) -> None:
    listener = WorkerListener()
    address = await listener.open(HERE)
    with listener.expecting(MessagePipe(lambda message: None)), socket.create_connection(address) as stranger:
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
