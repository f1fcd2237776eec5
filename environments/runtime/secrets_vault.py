"""Encryption of the secrets of live sessions, with which they come back after a restart of the
server."""

from __future__ import annotations

import json
from collections.abc import Sequence


class SecretsVault:
    """Encrypts the secrets of live sessions for the record."""

    def __init__(self, keys: Sequence[str]) -> None:
        """`keys`: of Fernet, at least one. The first encrypts, and each decrypts."""
        from cryptography.fernet import Fernet, MultiFernet  # an optional dependency

        self._cipher = MultiFernet([Fernet(key) for key in keys])

    def seal(self, secrets: dict[str, str], texts: Sequence[str]) -> bytes:
        """Return, encrypted, what is needed to give the secrets to another instance and to mask
        them."""
        return self._cipher.encrypt(json.dumps([secrets, list(texts)]).encode())

    def unseal(self, ciphertext: bytes) -> tuple[dict[str, str], tuple[str, ...]] | None:
        """Return what was sealed; None if none of the keys decrypts it."""
        from cryptography.fernet import InvalidToken

        try:
            secrets, texts = json.loads(self._cipher.decrypt(ciphertext))
        except InvalidToken:
            return None
        return secrets, tuple(texts)
