"""Authentication of the protocol's clients by API key. Sessions and records store only the label of a key.

Divergence from the references: a server may have keys, and then refuses requests without one; the references accept
every request.
"""

from __future__ import annotations

from typing import Any

from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed

from environments import conf


class KeyAuthentication(BaseAuthentication):
    """Checks `X-API-Key` against ORSWEB_API_KEYS.

    Without configured keys every request is accepted; the server then listens on loopback only.
    """

    def authenticate(self, request: Any) -> tuple[None, str] | None:
        labels = conf.key_labels()
        if not labels:
            return None
        key = request.META.get("HTTP_X_API_KEY", "")
        label = labels.get(conf.hash_key(key))
        if label is None:
            problem = "is not one of this server's keys" if key else "header is required"
            raise AuthenticationFailed(f"X-API-Key {problem}; keys are set by ORSWEB_API_KEYS")
        return None, label

    def authenticate_header(self, request: Any) -> str:
        return "X-API-Key"
