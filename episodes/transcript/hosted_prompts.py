"""Prompts of tasks as the hosted environments give them today, for files of episodes."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from environments import conf
from environments.hosts.every_host import EveryHost
from environments.hosts.loading import load
from environments.runtime.task_trial import try_out
from environments.runtime.threads import ThreadPool
from environments.service import service_or_none, try_out_spec

MAX_TRIAL_SECONDS = 10.0


def prompt_of_service(environment: str, spec: str) -> str:
    """Return the prompt of a task of the open service as JSON; empty if it has none, or no service
    is open. Raises: OrsError."""
    if service_or_none() is None:
        return ""
    return try_out_spec(environment, spec, MAX_TRIAL_SECONDS).prompt_json


class HostedPrompts:
    """Asks classes that this process hosts for the prompts of tasks, for commands, which have no
    service.

    The classes are those of the settings, as in `sync_environments`. They are loaded when the first
    prompt is needed.
    """

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._pool: ThreadPool | None = None
        self._host: EveryHost | None = None

    def __call__(self, environment: str, spec: str) -> str:
        """Return the prompt of a task as JSON, empty if it has none. Raises: OrsError,
        ValueError."""
        return self._runner.run(self._prompt(environment, json.loads(spec)))

    def close(self) -> None:
        """End the threads of the classes' code, and connections to other servers."""
        if self._host:
            self._runner.run(self._host.close())
        if self._pool:
            self._pool.close()
        self._runner.close()

    async def _prompt(self, environment: str, spec: Any) -> str:
        if self._host is None:
            registry = load(conf.specifications(), conf.loading())
            self._pool = self._pool or ThreadPool()
            self._host = EveryHost(registry, self._pool, conf.limits())
        return (await try_out(self._host, environment, spec, MAX_TRIAL_SECONDS)).prompt_json
