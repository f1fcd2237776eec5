"""Keeps what this server knows about remote environments up to date: their description, their
tasks, and whether they can be played.

The service starts it. Each remote environment is asked about itself every REFRESH_SECONDS, and at
once when a session could not reach its server. Its tasks are read again
when what it says has changed, and when it comes back after it could not be reached. An environment
that fails is marked as unavailable with the reason, and asked again every RETRY_SECONDS; the others
are served meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog
from django.db import DatabaseError, InterfaceError

from environments.authoring.registry import Registry
from environments.database.worker_threads import Workers
from environments.errors import EnvironmentFault, Unhostable
from environments.hosts.loading import EveryHost, remote_environments
from environments.hosts.remote_environment import HostedRemote
from environments.tasks.sync import sync_environment, write_unavailable

START_SECONDS = 5.0
"""How long the start of the server waits for remote environments. Those that take longer become
available later."""
REFRESH_SECONDS = 30.0
RETRY_SECONDS = 5.0

log = structlog.get_logger(__name__)


class RemoteSync:
    """Follows the remote environments of a registry. `on_change` is called with the name of one
    that was synced."""

    def __init__(
        self, registry: Registry, host: EveryHost, on_change: Callable[[str], None]
    ) -> None:
        self._remotes = remote_environments(registry)
        self._host, self._on_change = host, on_change
        self._tasks: list[asyncio.Task[None]] = []
        self._reported: set[str] = set()

    async def start(self) -> None:
        """Start to follow, and wait until each environment was asked once, at most
        START_SECONDS."""
        if not self._remotes:
            return
        asked = [asyncio.Event() for _ in self._remotes]
        loop = asyncio.get_running_loop()
        followed = zip(self._remotes, asked, strict=True)
        self._tasks = [loop.create_task(self._follow(hosted, event)) for hosted, event in followed]
        waiting = [loop.create_task(event.wait()) for event in asked]
        await asyncio.wait(waiting, timeout=START_SECONDS)
        for task in waiting:
            task.cancel()

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _follow(self, hosted: HostedRemote, asked: asyncio.Event) -> None:
        while True:
            await self.refresh(hosted)
            asked.set()
            if hosted.unavailable:
                await asyncio.sleep(RETRY_SECONDS)
            else:
                await self._host.remote(hosted.name).until_unreachable(REFRESH_SECONDS)

    async def refresh(self, hosted: HostedRemote) -> None:
        """Ask the environment about itself and its tasks; afterwards it is available, or says why
        it is not."""
        try:
            description = await self._host.remote(hosted.name).describe()
            if hosted.described == description and not hosted.unavailable:
                return
            hosted.take(description)
            await sync_environment(hosted, self._host)
            self._on_change(hosted.name)
            await self._note(hosted, "")
        except EnvironmentFault as fault:
            await self._note(hosted, fault.text)
        except Unhostable as error:
            cause = error.__cause__
            await self._note(
                hosted, cause.text if isinstance(cause, EnvironmentFault) else str(error)
            )
        except (DatabaseError, InterfaceError) as error:
            log.warning(
                "a remote environment was not synced",
                environment=hosted.name,
                error=type(error).__name__,
            )
        except (
            Exception
        ):  # a fault of this server must not end the refresh of an environment for good
            log.exception("a remote environment was not synced", environment=hosted.name)

    async def _note(self, hosted: HostedRemote, problem: str) -> None:
        """Write whether the environment can be played, if that has changed."""
        reason = (
            f"{problem.rstrip('.')}. This server tries again every {RETRY_SECONDS:g} s."
            if problem
            else ""
        )
        if reason == hosted.unavailable:
            return
        hosted.unavailable = reason
        # once until it is back, although its reasons may alternate
        if problem and hosted.name not in self._reported:
            self._reported.add(hosted.name)
            log.warning(
                "remote environment is unavailable", environment=hosted.name, reason=problem
            )
        elif not problem:
            self._reported.discard(hosted.name)
            log.info("remote environment is available", environment=hosted.name, url=hosted.origin)
        writer = Workers(1, "sync")
        try:
            await writer.run(write_unavailable, hosted.name, reason)
        finally:
            writer.close()
