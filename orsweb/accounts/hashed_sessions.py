"""Login sessions as Django stores them, except that a row has a hash of the id that the browser's cookie has.

Somebody who reads the database, or a backup of it, cannot continue the logins that are open. An id is 165 random bits,
so a plain hash of it is as hard to reverse as the id is to guess.
"""

from __future__ import annotations

import hashlib
from typing import Any

from django.contrib.sessions.backends import db
from django.utils import timezone

MAX_KEY_CHARACTERS = 40
"""Width of Django's column."""


def stored_key(session_key: str) -> str:
    """Return the key of the row of a session."""
    return hashlib.sha256(session_key.encode()).hexdigest()[:MAX_KEY_CHARACTERS]


class SessionStore(db.SessionStore):
    def exists(self, session_key: str) -> bool:
        return super().exists(stored_key(session_key))

    async def aexists(self, session_key: str) -> bool:
        return await super().aexists(stored_key(session_key))

    def create_model_instance(self, data: dict[str, Any]) -> Any:
        row = super().create_model_instance(data)
        row.session_key = stored_key(row.session_key)
        return row

    async def acreate_model_instance(self, data: dict[str, Any]) -> Any:
        row = await super().acreate_model_instance(data)
        row.session_key = stored_key(row.session_key)
        return row

    def delete(self, session_key: str | None = None) -> None:
        if key := session_key or self.session_key:
            super().delete(stored_key(key))

    async def adelete(self, session_key: str | None = None) -> None:
        if key := session_key or self.session_key:
            await super().adelete(stored_key(key))

    def _get_session_from_db(self) -> Any:
        found = self._rows().first()
        if found is None:
            self._session_key = None
        return found

    async def _aget_session_from_db(self) -> Any:
        found = await self._rows().afirst()
        if found is None:
            self._session_key = None
        return found

    def _rows(self) -> Any:
        key = stored_key(self.session_key or "")
        return self.model.objects.filter(session_key=key, expire_date__gt=timezone.now())
