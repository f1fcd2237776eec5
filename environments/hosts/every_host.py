"""The host of all environments of a registry, which plays each where it runs."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable

import structlog

from environments.authoring.hosted_environment import EnvironmentTasks
from environments.authoring.other_interpreter_class import DescribedClass
from environments.authoring.registry import Registry
from environments.hosts.process_launcher import Launcher, LocalLauncher
from environments.hosts.ray_launcher import RayLauncher
from environments.hosts.remote_environment import Description, HostedRemote, describe
from environments.hosts.remote_instance import PING_SECONDS, RemoteInstance
from environments.hosts.remote_server import RemoteServer
from environments.hosts.remote_tasks import RemoteTasks
from environments.hosts.worker_host import WorkerHost, is_isolated
from environments.limits import Limits, WorkerSettings
from environments.runtime.host import PlayedInstance
from environments.runtime.incident_reports import IncidentReport
from environments.runtime.local_host import LocalHost
from environments.runtime.threads import ThreadPool

log = structlog.get_logger(__name__)

MAX_PINGS = 32
"""Most pings at the same time."""


class EveryHost:
    """The host of every environment of a registry. Use it on one event loop only."""

    def __init__(
        self,
        registry: Registry,
        pool: ThreadPool,
        limits: Limits,
        workers: WorkerSettings | None = None,
    ) -> None:
        """`workers`: None: run classes in this process, unless they need another interpreter."""
        self._registry = registry
        self._local = LocalHost(registry, pool, limits)
        self._remote = {
            environment.name: RemoteHost(environment, limits)
            for environment in remote_environments(registry)
        }
        settings = workers or WorkerSettings()
        self._launcher: Launcher = (
            LocalLauncher() if settings.ray is None else RayLauncher(settings.ray)
        )
        self.workers = {
            environment.name: WorkerHost(environment, limits, settings, self._launcher)
            for environment in registry
            if is_isolated(environment, workers)
        }
        """The hosts of the environments whose sessions worker processes play, by name."""
        if self.workers and limits.tool_timeout_seconds is None:
            log.warning(
                "a call that hangs keeps its worker process: set ORSWEB_TOOL_TIMEOUT",
                of=sorted(self.workers),
            )

    @property
    def on_loss(self) -> Callable[[PlayedInstance, str], None]:
        return self._local.on_loss

    @on_loss.setter
    def on_loss(self, on_loss: Callable[[PlayedInstance, str], None]) -> None:
        self._local.on_loss = on_loss
        for workers in self.workers.values():
            workers.on_loss = on_loss

    def report_deaths(self, on_death: Callable[[IncidentReport], None]) -> None:
        """Call `on_death` when a worker process ends while it has sessions."""
        for workers in self.workers.values():
            workers.on_death = on_death

    async def open(self) -> None:
        """Connect to the machines on which worker processes run. Raises: Unhostable."""
        if self.workers:
            await self._launcher.open()

    def instance(self, environment: str) -> PlayedInstance:
        """Return a new instance. Raises: UnknownEnvironment."""
        name = self._registry.get(environment).name
        host = self.workers.get(name) or self._remote.get(name)
        return self._local.instance(environment) if host is None else host.instance()

    def tasks(self, name: str) -> EnvironmentTasks:
        """Return the tasks of an environment. Raises: UnknownEnvironment."""
        environment = self._registry.get(name)
        if isinstance(environment, DescribedClass):
            return self.workers[environment.name].tasks()
        remote = self._remote.get(environment.name)
        return self._local.tasks(name) if remote is None else remote.tasks()

    def remote(self, environment: str) -> RemoteHost:
        """Return the host of a remote environment. Raises: KeyError."""
        return self._remote[environment]

    async def keep_alive(self) -> None:
        """Keep the sessions of remote environments alive, and watch worker processes and this one,
        until cancelled."""
        workers = [host.keep_alive() for host in self.workers.values()]
        remote = [host.keep_alive() for host in self._remote.values()]
        await asyncio.gather(self._local.keep_alive(), *workers, *remote)

    async def close(self) -> None:
        """Close idle connections and end worker processes."""
        for remote in self._remote.values():
            remote.close()
        await asyncio.gather(*(workers.close() for workers in self.workers.values()))
        await self._launcher.close()


class RemoteHost:
    """Passes the sessions of one remote environment on to its server."""

    def __init__(self, environment: HostedRemote, limits: Limits) -> None:
        self.hosted = environment
        self._server = RemoteServer(environment.url, limits)
        self._instances: set[RemoteInstance] = set()

    def instance(self) -> RemoteInstance:
        instance = RemoteInstance(self.hosted, self._server, self._instances.discard)
        self._instances.add(instance)
        return instance

    def tasks(self) -> RemoteTasks:
        return RemoteTasks(self.hosted, self._server)

    async def describe(self) -> Description:
        """Ask the environment about itself. Raises: RemoteFault."""
        self._server.is_unreachable.clear()
        return await describe(self._server)

    async def until_unreachable(self, seconds: float) -> None:
        """Wait until the server seems to be down, at most `seconds`; only what happened since
        `describe` counts."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._server.is_unreachable.wait(), seconds)

    async def keep_alive(self) -> None:
        """Ping the sessions that have sent no request for PING_SECONDS, until cancelled."""
        while True:
            await asyncio.sleep(PING_SECONDS / 4)
            horizon = time.monotonic() - PING_SECONDS
            idle = [instance for instance in self._instances if 0 < instance.last_request < horizon]
            for start in range(0, len(idle), MAX_PINGS):
                await asyncio.gather(
                    *(instance.ping() for instance in idle[start : start + MAX_PINGS])
                )

    def close(self) -> None:
        """Close idle connections."""
        self._server.close()


def remote_environments(registry: Registry) -> list[HostedRemote]:
    """Return the environments of a registry that other servers run."""
    return [environment for environment in registry if isinstance(environment, HostedRemote)]
