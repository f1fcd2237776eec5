"""`manage.py list_keys` prints the API keys of the database, without the keys themselves."""

from __future__ import annotations

from typing import Any

from environments.display.terminal import TerminalCommand
from environments.keys.stored_keys import facts_of
from environments.models import ApiKey


class Command(TerminalCommand):
    help = "List the API keys of the database. Those of ORSWEB_API_KEYS are not listed."

    def handle(self, *args: Any, **options: Any) -> None:
        rows = [facts_of(row) for row in ApiKey.objects.select_related("owner")]
        if not rows:
            self.stdout.write("There are no API keys in the database.")
            return
        lines = [list(rows[0]), *(list(row.values()) for row in rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        for line in lines:
            cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
            self.stdout.write("  ".join(cells).rstrip())
