"""`manage.py set_quotas NAME requests=600 …` changes the quotas of an API key; a running server
follows in a second."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from environments.keys.key_command import QUOTAS_HELP, KeyCommand
from environments.keys.stored_keys import change_key, facts_of, find_key, quotas_in


class Command(KeyCommand):
    help = (
        "Change quotas of an API key of the database. They are in force within a second, also for "
        "open sessions."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "quotas",
            nargs="+",
            metavar="QUOTA=NUMBER",
            help=f"0: no limit; QUOTA=default: as the server's settings say ({QUOTAS_HELP})",
        )

    def handle(self, *args: Any, name: str, quotas: list[str], **options: Any) -> None:
        row = find_key(name)
        values = {**row.quotas, **quotas_in(quotas)}
        values = {quota: value for quota, value in values.items() if value is not None}
        change_key(row, quotas=values)
        self.stdout.write(f"Quotas of {name!r}: {facts_of(row)['quotas']}.")
