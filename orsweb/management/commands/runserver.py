"""`manage.py runserver`: daphne's, which reloads when a file changes, for those whom `serve` would let in too."""

from __future__ import annotations

from typing import Any

from daphne.management.commands.runserver import Command as DaphneCommand
from django.core.management.base import CommandError

from orsweb.exposure import refusal_of


class Command(DaphneCommand):  # type: ignore[misc]  # untyped package
    def inner_run(self, *args: Any, **options: Any) -> None:
        if refusal := refusal_of(self.addr):
            raise CommandError(refusal)
        super().inner_run(*args, **options)
