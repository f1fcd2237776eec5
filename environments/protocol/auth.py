"""API keys: DRF's authenticator for the protocol. Sessions and records know only the label of a key.

Divergence from the references: a server may have keys, and then refuses who has none; the references let everybody in.
"""

from __future__ import annotations

from typing import Any

from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed

from environments import conf


class KeyAuthentication(BaseAuthentication):
    """`X-API-Key` against ORSWEB_API_KEYS; without configured keys everybody is welcome (and only loopback listens)."""

    def authenticate(self, request: Any) -> tuple[None, str] | None:
        labels = conf.key_labels()
        if not labels:
            return None
        key = request.META.get("HTTP_X_API_KEY", "")
        label = labels.get(conf.hash_key(key))
        if label is None:
            fault = "is not one of this server's keys" if key else "header is required"
            raise AuthenticationFailed(f"X-API-Key {fault}; keys are set by ORSWEB_API_KEYS")
        return None, label

    def authenticate_header(self, request: Any) -> str:
        return "X-API-Key"
