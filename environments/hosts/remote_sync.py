"""Keeps what this server knows about remote environments up to date: their description, their
tasks, and whether they can be played.

The service starts it. The description of each is read every REFRESH_SECONDS, and at once when a
session could not reach its server. Its tasks are read again when the description has changed, and
when it is back after a failure. An environment that fails is marked as unavailable with the reason,
and read again every RETRY_SECONDS; the others are served meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog
from django.db import DatabaseError, InterfaceError

from environments.authoring.registry import Registry
from environments.database.worker_threads import Workers
from environments.errors import EnvironmentFault, Unhostable
from environments.hosts.every_host import EveryHost, remote_environments
from environments.hosts.remote_environment import HostedRemote
from environments.tasks.sync import sync_environment, write_unavailable

START_SECONDS = 5.0
"""How long the start of the server waits for remote environments. Those that take longer become
available later."""
REFRESH_SECONDS = 30.0
RETRY_SECONDS = 5.0

log = structlog.get_logger(__name__)


class RemoteSync:
    """Follows the remote environments of a registry. `on_change` is called with the name of an
    environment after its sync."""

    def __init__(
        self, registry: Registry, host: EveryHost, on_change: Callable[[str], None]
    ) -> None:
        self._remotes = remote_environments(registry)
        self._host, self._on_change = host, on_change
        self._tasks: list[asyncio.Task[None]] = []
        self._reported: set[str] = set()

    async def start(self) -> None:
        """Start to follow, and wait for the first refresh of each, at most START_SECONDS."""
        loop, first_refreshes = asyncio.get_running_loop(), list[asyncio.Task[None]]()
        for environment in self._remotes:
            refresh = loop.create_task(self.refresh(environment))
            self._tasks.append(loop.create_task(self._follow(environment, refresh)))
            first_refreshes.append(refresh)
        if first_refreshes:
            await asyncio.wait(first_refreshes, timeout=START_SECONDS)

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _follow(self, environment: HostedRemote, refresh: Awaitable[None]) -> None:
        while True:
            await refresh
            if environment.unavailable:
                await asyncio.sleep(RETRY_SECONDS)
            else:
                await self._host.remote(environment.name).until_unreachable(REFRESH_SECONDS)
            refresh = self.refresh(environment)

    async def refresh(self, environment: HostedRemote) -> None:
        """Read the environment's description and tasks; afterwards it is available, or says why it
        is not."""
        name = environment.name
        try:
            description = await self._host.remote(name).describe()
            if environment.described == description and not environment.unavailable:
                return
            environment.take(description)
            await sync_environment(environment, self._host)
            self._on_change(name)
            await self._note(environment, "")
        except EnvironmentFault as fault:
            await self._note(environment, fault.text)
        except Unhostable as error:
            cause = error.__cause__
            problem = cause.text if isinstance(cause, EnvironmentFault) else str(error)
            await self._note(environment, problem)
        except (DatabaseError, InterfaceError) as error:
            kind = type(error).__name__
            log.warning("a remote environment was not synced", environment=name, error=kind)
        except Exception:  # a fault of this server must not end the refreshes for good
            log.exception("a remote environment was not synced", environment=name)

    async def _note(self, environment: HostedRemote, problem: str) -> None:
        """Write whether the environment can be played, if that has changed."""
        reason = ""
        if problem:
            reason = f"{problem.rstrip('.')}. This server tries again every {RETRY_SECONDS:g} s."
        if reason == environment.unavailable:
            return
        name, environment.unavailable = environment.name, reason
        if not problem:
            self._reported.discard(name)
            log.info("remote environment is available", environment=name, url=environment.origin)
        elif name not in self._reported:  # once until it is back: its reasons may alternate
            self._reported.add(name)
            log.warning("remote environment is unavailable", environment=name, reason=problem)
        writer = Workers(1, "sync")
        try:
            await writer.run(write_unavailable, name, reason)
        finally:
            writer.close()
