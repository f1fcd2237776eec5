"""What this server serves: the registry of all environments, and one host that plays each where it
runs."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable

import structlog

from environments.authoring.hosted_environment import EnvironmentTasks, HostedEnvironment
from environments.authoring.other_interpreter_class import DescribedClass
from environments.authoring.registry import Registry, load_class, refusing_servers
from environments.errors import Unhostable
from environments.hosts.interpreter import described
from environments.hosts.process_launcher import Launcher, LocalLauncher
from environments.hosts.ray_launcher import RayLauncher
from environments.hosts.remote_environment import Description, HostedRemote, describe
from environments.hosts.remote_instance import PING_SECONDS, RemoteInstance
from environments.hosts.remote_server import RemoteServer
from environments.hosts.remote_tasks import RemoteTasks
from environments.hosts.remote_url import is_remote, parse
from environments.hosts.repositories import repository_in, specifications_in
from environments.hosts.repository_python import python_of
from environments.hosts.worker_host import WorkerHost, is_isolated
from environments.runtime.host import LocalHost, PlayedInstance
from environments.runtime.incident_reports import IncidentReport
from environments.runtime.limits import Limits, LoadingSettings, WorkerSettings
from environments.runtime.threads import ThreadPool

log = structlog.get_logger(__name__)

MAX_PINGS = 32
"""Maximum number of pings that are under way at once."""


def load(specifications: Iterable[str], settings: LoadingSettings | None = None) -> Registry:
    """Return the registry of what `specifications` name: `module:Class`, `module:Class@python`,
    repositories or URLs.

    Each may have `name=` before it. Classes are imported, by the interpreter `python` if one is
    named; remote environments are not contacted.

    Raises: Unhostable with one sentence that says what to change.
    """
    settings = settings or LoadingSettings()
    loaded = (_load_each(specification.strip(), settings) for specification in specifications)
    registry = Registry([hosted for several in loaded for hosted in several])
    if registry.find(first := settings.path_prefix[1:].partition("/")[0]):
        raise Unhostable(
            f"ORSWEB_PATH_PREFIX={settings.path_prefix} begins with the name of the environment "
            f"{first!r}; "
            "serve that as other_name=module:Class, or use another path."
        )
    return registry


def _load_each(specification: str, settings: LoadingSettings) -> list[HostedEnvironment]:
    """Return what a specification names: several environments if it is a directory."""
    if is_remote(specification):
        return [HostedRemote(parse(specification, settings.keys))]
    named, names_python, python = specification.partition("@")
    if repository := repository_in(named):
        python = python or (
            python_of(repository, settings.interpreters) if settings.interpreters else ""
        )
        return [
            described(one, python, settings.import_seconds)
            for one in specifications_in(named, repository)
        ]
    if names_python:
        return [described(named, python, settings.import_seconds)]
    with refusing_servers():
        hosted = load_class(specification)
    return [
        described(specification, hosted.python, settings.import_seconds)
        if hosted.python
        else hosted
    ]


class EveryHost:
    """The host of every environment of a registry. Use it on one event loop only."""

    def __init__(
        self,
        registry: Registry,
        pool: ThreadPool,
        limits: Limits,
        workers: WorkerSettings | None = None,
    ) -> None:
        """Run classes in this process if `workers` is None, unless they need another interpreter;
        else as it and the classes say.
        """
        self._registry = registry
        self._local = LocalHost(registry, pool, limits)
        self._remote = {
            hosted.name: RemoteHost(hosted, limits) for hosted in remote_environments(registry)
        }
        settings = workers or WorkerSettings()
        self._launcher: Launcher = (
            LocalLauncher() if settings.ray is None else RayLauncher(settings.ray)
        )
        self.workers = {
            hosted.name: WorkerHost(hosted, limits, settings, self._launcher)
            for hosted in registry
            if is_isolated(hosted, workers)
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

    def tasks(self, environment: str) -> EnvironmentTasks:
        """Return the tasks of an environment. Raises: UnknownEnvironment."""
        hosted = self._registry.get(environment)
        if isinstance(hosted, DescribedClass):
            return self.workers[hosted.name].tasks()
        remote = self._remote.get(hosted.name)
        return self._local.tasks(environment) if remote is None else remote.tasks()

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

    def __init__(self, hosted: HostedRemote, limits: Limits) -> None:
        self.hosted = hosted
        self._server = RemoteServer(hosted.url, limits)
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
        """Wait until the server seems to be down, at most `seconds`; what came before `describe`
        doesn't count."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._server.is_unreachable.wait(), seconds)

    async def keep_alive(self) -> None:
        """Ping the sessions that have sent no request for PING_SECONDS, until cancelled."""
        while True:
            await asyncio.sleep(PING_SECONDS / 4)
            horizon = time.monotonic() - PING_SECONDS
            idle = [one for one in self._instances if 0 < one.last_request < horizon]
            for start in range(0, len(idle), MAX_PINGS):
                await asyncio.gather(*(one.ping() for one in idle[start : start + MAX_PINGS]))

    def close(self) -> None:
        """Close idle connections."""
        self._server.close()


def remote_environments(registry: Registry) -> list[HostedRemote]:
    """Return the environments of a registry that other servers run."""
    return [hosted for hosted in registry if isinstance(hosted, HostedRemote)]
