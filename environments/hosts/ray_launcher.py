"""Starts worker processes on the machines of a Ray cluster, which places them by the resources of
their class.

Ray starts and ends processes, and notices when a machine is lost. Calls go over a connection of the
process's own, because one that goes over Ray costs several times as much
(docs/decisions/0044-ray.md).
"""

from __future__ import annotations

import asyncio
import importlib
import os
import socket
from typing import Any

from environments.errors import Unhostable
from environments.hosts import interpreter
from environments.hosts.node_launcher import NodeLauncher
from environments.hosts.process_launcher import how_it_ended
from environments.hosts.worker_listener import WorkerConnections, WorkerListener
from environments.hosts.worker_messages import MessagePipe

PLACE_SECONDS = 60.0
"""How long a process may wait for a machine that has what its class asks for."""
HOURS_WITHOUT_HEAD = 24
"""How long the head of the cluster may be away before Ray ends the process that is connected to it:
this server."""
PLACE_ATTEMPTS, PLACE_PAUSE_SECONDS = 5, 2.0
STATUS_SECONDS = 5.0
"""How long after the end of a connection the exit status may arrive."""
REACH_SECONDS = 5.0
KILL_SECONDS = 5.0
"""How long a machine may take to end a process before Ray ends it."""
LAST_OUTPUT_SECONDS = 2.0


class RayLauncher:
    """The machines of a Ray cluster. Used on one event loop."""

    def __init__(self, address: str) -> None:
        """`address` is `host:port`; empty: as RAY_ADDRESS says, else a cluster on this machine,
        started if there is none.
        """
        self._address = address
        self._listener = WorkerListener()
        self._ray: Any = None
        self._node_launcher: Any = None
        self._here = ("", 0)

    async def open(self) -> None:
        try:
            if self._address:
                # Ray itself would wait for minutes if nothing listens there
                host, _, port = self._address.rpartition(":")
                socket.create_connection((host, int(port)), timeout=REACH_SECONDS).close()
            await asyncio.to_thread(self._connect)
        except Exception as error:  # Ray has no base of all its errors
            where = self._address or "the address in RAY_ADDRESS, or on this machine"
            raise Unhostable(
                f"The Ray cluster at {where} cannot be reached: {_last_line(error)}"
            ) from error
        self._here = await self._listener.open(self._ray.util.get_node_ip_address())

    def _connect(self) -> None:
        """Import Ray, which takes a second, and connect to the cluster."""
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # or Ray reports to its makers
        os.environ.setdefault(
            "RAY_gcs_rpc_server_reconnect_timeout_s", str(HOURS_WITHOUT_HEAD * 3600)
        )
        self._ray = importlib.import_module("ray")
        self._ray.init(
            address=self._address or None,
            namespace="orsweb",
            log_to_driver=False,  # what workers print is masked and logged by the server itself
            configure_logging=False,
            include_dashboard=False,
        )
        self._node_launcher = self._ray.remote(NodeLauncher)

    async def launch(
        self, python: str, resources: dict[str, float], pipe: MessagePipe
    ) -> RayProcess:
        with self._listener.expecting(pipe) as connections:
            try:
                async with asyncio.timeout(PLACE_SECONDS):
                    actor, machine, pid = await self._placed(resources, connections.token, python)
                    await connections.messages
                    output = await connections.output
            except TimeoutError:
                amounts = [f"{name} {amount:g}" for name, amount in resources.items()] or ["CPU 1"]
                raise OSError(
                    f"no machine of the Ray cluster had {', '.join(amounts)} free within "
                    f"{PLACE_SECONDS:g} s"
                ) from None
            except self._ray.exceptions.RayError as error:
                raise OSError(f"Ray could not start it ({_last_line(error)})") from error
        return RayProcess(self._ray, actor, machine, pid, connections, output, pipe)

    async def _placed(
        self, resources: dict[str, float], token: str, python: str
    ) -> tuple[Any, str, int]:
        """Start a process somewhere. Return its actor, the address of its machine and its pid.

        Ray may choose a machine that is lost, before it has noticed that, and is asked again.
        """
        hash_seed = os.environ.get(interpreter.HASH_SEED, "random")
        for attempt in range(PLACE_ATTEMPTS):
            actor = await asyncio.to_thread(self._actor, resources)
            try:
                machine, pid = await actor.start.remote(self._here, token, python, hash_seed)
                return actor, machine, pid
            except self._ray.exceptions.RayActorError:
                if attempt + 1 == PLACE_ATTEMPTS:
                    raise
                await asyncio.sleep(PLACE_PAUSE_SECONDS)
        raise AssertionError("there is no attempt")

    def _actor(self, resources: dict[str, float]) -> Any:
        """Return an actor for one process. It waits for a machine that has the resources."""
        amounts = dict(resources)
        options: dict[str, Any] = {
            "num_cpus": amounts.pop("CPU", 1),
            "num_gpus": amounts.pop("GPU", 0),
        }
        if "memory" in amounts:
            options["memory"] = amounts.pop("memory")
        return self._node_launcher.options(
            **options, resources=amounts, scheduling_strategy="SPREAD"
        ).remote()

    async def close(self) -> None:
        await self._listener.close()
        if self._ray is not None:
            await asyncio.to_thread(self._ray.shutdown)


def _last_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[-1].strip().rstrip(".")


class RayProcess:
    """A worker process on a machine of the cluster. Its actor, which holds its resources, ends with
    it."""

    def __init__(
        self,
        ray: Any,
        actor: Any,
        machine: str,
        pid: int,
        connections: WorkerConnections,
        output: asyncio.StreamReader,
        pipe: MessagePipe,
    ) -> None:
        self._ray, self._actor, self.machine, self.pid = ray, actor, machine, pid
        self._connections, self.output, self._pipe = connections, output, pipe
        self._status = asyncio.ensure_future(actor.wait.remote())

    async def wait(self) -> str:
        end = asyncio.ensure_future(self._pipe.ended.wait())
        await asyncio.wait((self._status, end), return_when=asyncio.FIRST_COMPLETED)
        end.cancel()
        await asyncio.wait((self._status,), timeout=STATUS_SECONDS)
        asyncio.get_running_loop().call_later(LAST_OUTPUT_SECONDS, self._connections.close)
        self._end_actor()
        status = self._status
        if status.done() and not status.cancelled() and status.exception() is None:
            return how_it_ended(status.result())
        return f"was lost with its machine {self.machine} or the connection to it"

    def kill(self) -> bool:
        is_running = not self._status.done()
        if is_running:
            self._actor.kill.remote()
            asyncio.get_running_loop().call_later(KILL_SECONDS, self._end_actor)
        return is_running

    def _end_actor(self) -> None:
        """End the actor, and the process with it if that has not ended."""
        if self._ray.is_initialized():  # or Ray would start a cluster to do it
            self._ray.kill(self._actor)
