"""`manage.py reload`: let the running `serve` go on with the code that is installed now."""

from __future__ import annotations

import os
import time
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from environments import conf
from environments.display.terminal import TerminalCommand
from environments.models import Environment
from orsweb.server.succession import RELOAD, ServeState, others_of_database, read_state

POLL_SECONDS = 0.1
START_SECONDS = 120.0
"""How long the new code may take to be checked and to start, beside the other limits."""


class Command(TerminalCommand):
    help = (
        "Let the running server go on with the code that is installed now, without refusing "
        "anybody."
    )
    requires_system_checks = []

    def handle(self, *args: Any, **options: Any) -> None:
        before = self._state()
        start = time.time()
        os.kill(before.pid, RELOAD)
        limit = START_SECONDS + settings.ORSWEB_RELOAD_LIMIT
        limit += settings.ORSWEB_RELOAD_WAIT + settings.ORSWEB_SHUTDOWN_TIMEOUT
        until = time.monotonic() + limit
        while (now := self._state()).at == before.at or not now.is_outcome_of(start):
            if time.monotonic() > until:
                raise CommandError(f"The server was not ready after {limit:g} s; see its log.")
            time.sleep(POLL_SECONDS)
        if now.problem:
            raise CommandError(
                "The server goes on as it was, because the new code cannot be "
                f"served. {now.problem}"
            )
        self.stdout.write("The server goes on with the new code.")
        for environment in Environment.objects.unavailable():
            self.stdout.write(f"{environment.name} is unavailable: {environment.unavailable}")

    def _state(self) -> ServeState:
        if (state := read_state(conf.process_directory())) is None:
            raise CommandError(_no_server())
        if not state.at:
            raise CommandError("The server is still starting. Try again when it is ready.")
        return state


def _no_server() -> str:
    """Return why there is no server, and what to do."""
    others = others_of_database(conf.process_directory())
    if not others:
        return "No server of this database runs on this machine. Start it with `serve`."
    own, *names = [
        f"with ORSWEB_CLUSTER={address}" if address else "without ORSWEB_CLUSTER"
        for address in (conf.cluster_address(), *(other.cluster for other in others))
    ]
    return (
        f"No server of this database runs {own} on this machine, but there is one "
        f"{' and one '.join(names)}. Start this command with the same setting."
    )
