"""What the commands about one API key have in common."""

from __future__ import annotations

from typing import Any, ClassVar

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError, CommandParser

from environments.display.terminal import TerminalCommand
from environments.quotas import DESCRIPTIONS

QUOTAS_HELP = "; ".join(f"{name}: {text}" for name, text in DESCRIPTIONS.items())


class KeyCommand(TerminalCommand):
    """A command whose first argument is a key's name. It ends with the sentences of a
    ValidationError."""

    name_help: ClassVar = "name of the key, as list_keys shows it"

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help=self.name_help)

    def execute(self, *args: Any, **options: Any) -> str | None:
        try:
            return super().execute(*args, **options)
        except ValidationError as error:
            raise CommandError(" ".join(error.messages)) from None
