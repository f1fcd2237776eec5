"""`manage.py rebuild_statistics [--environment NAME …]`: count what the record says anew, while a server runs.

A server recounts tasks by itself when a definition of return or success has changed; this is for when rows were changed
by hand. Without `--environment` the rows of the follower (curves, activity, tools) are made anew too.
"""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from environments.models import Environment
from episodes.recording.recount import rebuild
from episodes.rollups.follower import catch_up, start_over


class Command(BaseCommand):
    help = "Make statistics of tasks, curves, activity and tools anew from the recorded episodes. A server may run."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--environment",
            action="append",
            metavar="NAME",
            help="only this one; may be repeated; by default all, and curves, activity and tools",
        )

    def handle(self, *args: Any, environment: list[str] | None, **options: Any) -> None:
        known = {row.name: row for row in Environment.objects.all()}
        for name in environment or ():
            if name not in known:
                raise CommandError(f"There is no environment {name!r}; there are {', '.join(known) or 'none yet'}.")
        for name in environment or known:
            self.stdout.write(f"{name}: {rebuild(known[name])} tasks counted")
        if not environment:
            start_over()
            catch_up()
            self.stdout.write("curves, activity and use of tools made anew")
