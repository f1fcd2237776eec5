"""`manage.py revoke_key NAME` revokes an API key; a running server refuses it within a second."""

from __future__ import annotations

from typing import Any

from environments.keys.key_command import KeyCommand
from environments.keys.stored_keys import find_key, revoke_key


class Command(KeyCommand):
    help = (
        "Revoke an API key of the database. Its open sessions end as interrupted, within a second."
    )

    def handle(self, *args: Any, name: str, **options: Any) -> None:
        revoke_key(find_key(name), "revoke_key")
        self.stdout.write(f"Revoked the API key {name!r}.")
