"""`manage.py rebuild_statistics [--environment NAME …]` counts statistics again from the recorded
episodes.

A server recounts tasks by itself when a definition of return or success changes; this command is
for rows that were changed by hand. Without `--environment` it also rebuilds the rollups (curves,
activity, tools). The server may be running.
"""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from environments.display.terminal import TerminalCommand
from environments.models import UNRESTRICTED, Environment
from environments.tasks.unknown_environment import unknown_environment
from episodes.rollups.follower import catch_up, start_over
from episodes.rollups.recount import rebuild


class Command(TerminalCommand):
    help = (
        "Count statistics of tasks, curves, activity and tools again from the episodes. The server "
        "may be running."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--environment",
            action="append",
            metavar="NAME",
            help="only this environment (repeatable); by default all, and also curves, activity "
            "and tools",
        )

    def handle(self, *args: Any, environment: list[str] | None, **options: Any) -> None:
        environments = {row.name: row for row in Environment.objects.all()}
        for name in environment or ():
            if name not in environments:
                raise CommandError(unknown_environment(name, UNRESTRICTED))
        for name in environment or environments:
            self.stdout.write(f"{name}: {rebuild(environments[name])} tasks counted")
        if not environment:
            start_over()
            catch_up()
            self.stdout.write("curves, activity and tools rebuilt")
