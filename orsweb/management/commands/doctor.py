"""`manage.py doctor`: checks the database, what is derived from it, and where the server runs."""

from __future__ import annotations

import time
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import DatabaseError

from environments.display.terminal import TerminalCommand
from orsweb.operations.derived_checks import DERIVED_CHECKS
from orsweb.operations.installation_checks import PLACE_CHECKS, DoctorCheck, unusable
from orsweb.operations.record_checks import RECORD_CHECKS

PARTS = {"place": PLACE_CHECKS, "record": RECORD_CHECKS, "derived": DERIVED_CHECKS}


class Command(TerminalCommand):
    help = (
        "Check that everything in the database is right, and the disk and the settings too; say "
        "what is wrong and what to do. Changes nothing. The server may be running; while agents "
        "play, an episode that ends during the check may count as a difference."
    )
    requires_system_checks = ()  # it runs all of them itself, and says what they found

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--only",
            choices=PARTS,
            help="only the place (disk, settings), the record, or what is derived from it",
        )

    def handle(self, *args: Any, only: str | None, **options: Any) -> None:
        parts = [PARTS[only]] if only else PARTS.values()
        try:
            count = sum(self._check(check) for checks in parts for check in checks)
        except DatabaseError as error:
            problem = unusable(error)
            raise CommandError(f"{problem.sentence} {problem.remedy}") from error
        if count:
            raise CommandError(f"{count} problem{'' if count == 1 else 's'} found.")
        self.stdout.write("Nothing is wrong.")

    def _check(self, check: DoctorCheck) -> int:
        """Print what the check found, and return the number of grave problems."""
        start = time.monotonic()
        problems = list(check.find())
        seconds = time.monotonic() - start
        self.stdout.write(f"{'no' if problems else 'ok'}  {check.name} ({seconds:.1f} s)")
        for problem in problems:
            mark = "" if problem.is_grave else "Note: "
            self.stdout.write(f"    {mark}{problem.sentence} {problem.remedy}")
        return sum(problem.is_grave for problem in problems)
