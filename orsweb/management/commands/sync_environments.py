"""`manage.py sync_environments [module:Class …]` writes environment classes and their tasks to the
database."""

from __future__ import annotations

import asyncio
from typing import Any

from django.core.management.base import CommandError, CommandParser

from environments import conf
from environments.authoring.registry import Registry
from environments.display.terminal import TerminalCommand
from environments.errors import EnvironmentFault, Unhostable, author_traceback
from environments.hosts import masked_output
from environments.hosts.every_host import EveryHost, remote_environments
from environments.hosts.loading import load
from environments.runtime.threads import ThreadPool
from environments.tasks.sync import sync
from environments.tasks.sync_report import SyncReport

_LEFT = "A server that plays it goes on with the tasks that it has."


class Command(TerminalCommand):
    help = (
        "Write environment classes and their tasks to the database, as the server does when it "
        "starts."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "environments",
            nargs="*",
            metavar="[alias=]module:Class",
            help="classes or URLs of remote environments; others are left alone. By default all: "
            "ORSWEB_ENVIRONMENTS, or the bundled ones",
        )

    def handle(self, *args: Any, environments: list[str], **options: Any) -> None:
        masked_output.start_for(self)
        try:
            registry = load(environments or conf.specifications(), conf.loading())
            report = asyncio.run(_sync(registry, is_whole=not environments))
        except (Unhostable, EnvironmentFault) as error:
            if isinstance(error, Unhostable) and (trace := author_traceback(error.__cause__)):
                self.stderr.write(trace)
            raise CommandError(str(error)) from error
        for split in report.splits:
            self.stdout.write(str(split))
        for name in report.procedural:
            self.stdout.write(f"{name}: procedural, its class generates tasks on demand")
        self.stdout.write(f"Synced in {report.seconds:.2f} s.")
        failures = [failure.environment for failure in report.failures]
        for environment in registry:
            if environment.unavailable and environment.name not in failures:
                self.stderr.write(f"{environment.name}: {environment.unavailable} {_LEFT}")
        for failure in report.failures:
            self.stderr.write(author_traceback(failure.fault))
        if report.failures:
            raise CommandError("\n".join(f"{failure} {_LEFT}" for failure in report.failures))


async def _sync(registry: Registry, *, is_whole: bool) -> SyncReport:
    """Raises: Unhostable; EnvironmentFault when a remote environment cannot be asked."""
    pool = ThreadPool()
    host = EveryHost(registry, pool, conf.limits())
    try:
        for environment in remote_environments(registry):
            environment.take(await host.remote(environment.name).describe())
            environment.unavailable = ""
        return await sync(registry, host, is_whole=is_whole, serves=False)
    finally:
        await host.close()
        pool.close()
