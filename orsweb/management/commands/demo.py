"""`manage.py demo`: play and record a few hundred episodes, or a record as researchers have it, so
that every page has something to show."""

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
from orsweb.demo import research, script_runner
from orsweb.management.database import own_database

_SUMMARY = """Recorded {episodes} episodes in {environments} environments.

Start the server with `{serve}` and open
  /                    an overview
  /episodes/           all episodes; open one to replay it
  /runs/curves/        the learning curves of two training runs
  /environments/guess/ an environment, with its tasks and how to connect to it
The episodes are marked as played by a script. Their models are scripted-novice, scripted-adept and scripted-expert.
"""


_RESEARCH_SUMMARY = """Recorded {episodes} episodes: two training runs, a sweep of 28 runs and six models on a suite.

Start the server with `{serve}` and open
  /runs/                 repair-grpo-v2 exploits its reward from step 36 on
  /suites/repair-bench/  six models on 60 tasks, of which two always crash
"""


class Command(TerminalCommand):
    help = (
        "Play and record episodes of the bundled environments with scripted players of different "
        "skill."
    )
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--size",
            choices=("small", "research"),
            default="small",
            help="research: two training runs, one of which exploits its reward, a sweep, and six "
            "models on a suite (default: %(default)s)",
        )
        parser.add_argument(
            "--episodes",
            type=_count,
            help=f"approximate number of episodes (default: 300, research: {research.EPISODES})",
        )
        parser.add_argument(
            "--seed",
            type=int,
            default=0,
            help="the same seed plays the same episodes (default: %(default)s)",
        )

    def handle(self, *, size: str, episodes: int | None, seed: int, **options: Any) -> None:
        is_research = size == "research"
        play = script_runner.play_research if is_research else script_runner.play
        count = episodes or (research.EPISODES if is_research else 300)
        with own_database():
            connection.close()
            with progress_bar("Playing") as progress:
                parts = asyncio.run(play(count, seed, progress))
            if is_research:
                research.describe()
        serve = command_line.command("serve")
        if is_research:
            serve = " ".join([serve, *script_runner.research_environments()])
        environments = len({part.environment for part in parts})
        summary = _RESEARCH_SUMMARY if is_research else _SUMMARY
        self.stdout.write(
            summary.format(episodes=len(parts), environments=environments, serve=serve)
        )


def _count(text: str) -> int:
    if (count := id_in(text)) is None or not 1 <= count <= 100_000:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number of episodes; use one from 1 to 100000"
        )
    return count
