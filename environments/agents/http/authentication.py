"""Who sends a request: the API key that it carries, as DRF's authenticators find it."""

from __future__ import annotations

from typing import Any

from rest_framework.authentication import BaseAuthentication

from environments import conf
from environments.agents.http.request import HttpRequest
from environments.errors import KeyRefused
from environments.keys.agent_key import EVERYBODY, AgentKey
from environments.keys.authentication_error import authentication_error
from environments.keys.keyring import ring


class KeyAuthentication(BaseAuthentication):
    """DRF's authenticator for the protocol: checks the key in `X-API-Key`, or in
    `Authorization: Bearer`.

    A server that needs no keys accepts every request; it then listens on loopback only. Sessions
    and records store only the label of a key.
    """

    def authenticate(self, request: Any) -> tuple[None, AgentKey] | None:
        if not conf.has_keys():
            return None
        try:
            return None, ring.check(request.META, request.client)
        except KeyRefused as error:
            raise authentication_error(error) from None

    def authenticate_header(self, request: Any) -> str:
        return "X-API-Key"


ANYBODY = (
    type("Anybody", (), {"authenticate": lambda *_: None, "authenticate_header": lambda *_: ""})(),
)
"""Authenticators of endpoints that need no key."""


def key_of(request: HttpRequest, authenticators: tuple[Any, ...]) -> AgentKey:
    """Return the key of the request, or EVERYBODY if no authenticator asks for one. Raises:
    APIException."""
    for authenticator in authenticators:
        if (pair := authenticator.authenticate(request)) is not None:
            key: AgentKey = pair[1]
            return key
    return EVERYBODY
