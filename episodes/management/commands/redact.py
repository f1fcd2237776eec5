"""`manage.py redact [--dry-run] [--reason TEXT] < FILE` replaces a text by stars in everything that
is recorded.

The text is read from the standard input, without the line break at its end, so that it gets neither
into the history of a shell nor into the list of processes. The server may be running.
"""

from __future__ import annotations

import getpass
import sys
from typing import Any

from django.core.management.base import CommandError, CommandParser

from environments.display.terminal import TerminalCommand
from environments.errors import OrsError
from episodes.redaction.replacement import redact


class Command(TerminalCommand):
    help = "Replace a text, read from the standard input, by stars in everything that is recorded."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="only say where the text is")
        parser.add_argument(
            "--reason", default="", metavar="TEXT", help="why, for those who read the episodes"
        )

    def handle(self, *args: Any, dry_run: bool, reason: str, **options: Any) -> None:
        text = (
            getpass.getpass("Text to redact: ")
            if sys.stdin.isatty()
            else sys.stdin.read().rstrip("\r\n")
        )
        author = f"command ({getpass.getuser()})"
        try:
            outcome = redact(text, author, reason, dry_run=dry_run, progress=self._report)
        except OrsError as error:
            raise CommandError(str(error)) from None
        self.stdout.write(outcome.sentence)
        if not outcome.is_complete:
            raise CommandError("The text is still in the record.")

    def _report(self, count: int, total: int) -> None:
        if self.stderr.isatty():
            ending = "\r" if count < total else "\n"
            self.stderr.write(f"{count:,} of {total:,} rows", ending=ending)
