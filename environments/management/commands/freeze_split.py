"""`manage.py freeze_split ENVIRONMENT SPLIT` freezes a split and prints the hash that identifies
its content."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError, CommandParser

from environments.curation.leaks import MAX_READ_ON_REQUEST, leaks_of_split
from environments.curation.splits import FreezeSplit
from environments.display.terminal import TerminalCommand
from environments.errors import OrsError
from environments.models import Split


class Command(TerminalCommand):
    help = (
        "Freeze a split, as its page in the admin does, and print the hash over its tasks and "
        "their order."
    )
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("environment", help="name of the environment, such as math")
        parser.add_argument("split", help="name of the split, such as test")

    def handle(self, *args: Any, environment: str, split: str, **options: Any) -> None:
        row = Split.objects.existing().filter(environment__name=environment, name=split).first()
        if row is None:
            rows = Split.objects.existing().order_by("environment", "name")
            names = ", ".join(f"{other.environment.name} {other.name}" for other in rows)
            raise CommandError(
                f"There is no split {split!r} of {environment!r}; there are: {names or 'none'}."
            )
        try:
            self.stdout.write(FreezeSplit(row.pk).apply("freeze_split").sentence)
        except OrsError as error:
            raise CommandError(str(error)) from error
        for sentence in leaks_of_split(row, most=MAX_READ_ON_REQUEST).sentences:
            self.stderr.write(sentence, self.style.WARNING)
