"""`manage.py rotate_key NAME` gives an API key another text and prints it, once."""

from __future__ import annotations

from typing import Any

from environments.keys.key_command import KeyCommand
from environments.keys.stored_keys import find_key, rotate_key


class Command(KeyCommand):
    help = (
        "Give an API key of the database another text and print it. The old one is refused within "
        "a second, and what is open with it ends within ten; name, rights, quotas, records and "
        "open sessions stay."
    )

    def handle(self, *args: Any, name: str, **options: Any) -> None:
        self.stdout.write(rotate_key(find_key(name)))
