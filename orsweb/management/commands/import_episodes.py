"""`manage.py import_episodes FILE …`: imports episodes that `export_episodes` wrote, and
trajectories in ATIF.

It is in `orsweb`, like `serve`, because it needs the database's lock: a server counts the ids of
episodes and the numbers of endings in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import DatabaseError

from environments.display.progress_bar import progress_bar
from environments.display.terminal import TerminalCommand
from episodes.transfer import importing
from episodes.transfer.formats.atif.foreign import ENVIRONMENT
from episodes.transfer.formats.atif.imported import TrialFacts
from orsweb.management.database import own_database

MAX_LISTED = 20
"""Maximum number of refused lines, and of new ids, that are printed."""


class Command(TerminalCommand):
    help = (
        "Import episodes from the JSONL of export_episodes, and trajectories in ATIF (Harbor's "
        "format): as JSONL, as a trajectory.json, or as a directory or zip of Harbor's jobs. "
        "Existing episodes are skipped. No server may run."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "files",
            nargs="+",
            type=Path,
            metavar="FILE",
            help="from export_episodes --format jsonl, atif or harbor; or a trajectory.json, a "
            "directory or a zip",
        )
        names = parser.add_argument_group("names", "for trajectories that other programs wrote")
        names.add_argument(
            "--environment",
            default="",
            metavar="NAME",
            help="environment that they played (default: the dataset of Harbor's trial, or "
            f"{ENVIRONMENT})",
        )
        names.add_argument(
            "--run",
            default="",
            metavar="NAME",
            help="run to which they belong (default: Harbor's job)",
        )

    def handle(self, *args: Any, files: Sequence[Path], **options: Any) -> None:
        names = TrialFacts(environment=options["environment"], run=options["run"])
        with own_database(), progress_bar("Importing", is_bytes=True) as progress:
            work = importing.Import(files, progress, names)
            rest = "run the same command again to continue."
            try:
                work.run()
            except KeyboardInterrupt:
                sentence = f"Interrupted. {work.report.sentence}; {rest}"
                raise CommandError(sentence, returncode=130) from None
            except DatabaseError as error:
                sentence = f"The database failed ({error}). {work.report.sentence}; {rest}"
                raise CommandError(sentence) from error
        report = work.report
        self.stdout.write(f"{report.sentence}.")
        for old, new in list(report.new_ids.items())[:MAX_LISTED]:
            self.stdout.write(f"  episode {old} became {new}, because another episode has its id")
        if report.renumbered > MAX_LISTED:
            self.stdout.write(f"  and {report.renumbered - MAX_LISTED:,} more have new ids")
        for file, refusal in report.refusals[:MAX_LISTED]:
            self.stderr.write(f"  {file}, line {refusal.number}: {refusal.reason}")
        if report.refused:
            lines = "1 line was" if report.refused == 1 else f"{report.refused:,} lines were"
            raise CommandError(f"{lines} refused; the others are imported.")
