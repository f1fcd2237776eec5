"""`manage.py demo`: play and record a few hundred episodes, so that every page has something to
show."""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from django.core.management.base import CommandParser
from django.db import connection

from environments import command_line
from environments.database.storable import id_in
from environments.display.progress_bar import progress_bar
from environments.display.terminal import TerminalCommand
from orsweb.demo import script_runner
from orsweb.management.database import own_database

_SUMMARY = """Recorded {episodes} episodes in {environments} environments.

Start the server with `{serve}` and open
  /                    an overview
  /episodes/           all episodes; open one to replay it
  /runs/curves/        the learning curves of two training runs
  /environments/guess/ an environment, with its tasks and how to connect to it
The episodes are marked as played by a script. Their models are scripted-novice, scripted-adept and scripted-expert.
"""


class Command(TerminalCommand):
    help = (
        "Play and record episodes of the bundled environments with scripted players of different "
        "skill."
    )
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--episodes",
            type=_count,
            default=300,
            help="approximate number of episodes (default: %(default)s)",
        )
        parser.add_argument(
            "--seed",
            type=int,
            default=0,
            help="the same seed plays the same episodes (default: %(default)s)",
        )

    def handle(self, *, episodes: int, seed: int, **options: Any) -> None:
        with own_database():
            connection.close()
            with progress_bar("Playing") as progress:
                parts = asyncio.run(script_runner.play(episodes, seed, progress))
        environments = len({part.environment for part in parts})
        serve = command_line.command("serve")
        self.stdout.write(
            _SUMMARY.format(episodes=len(parts), environments=environments, serve=serve)
        )


def _count(text: str) -> int:
    if (count := id_in(text)) is None or not 1 <= count <= 100_000:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number of episodes; use one from 1 to 100000"
        )
    return count
