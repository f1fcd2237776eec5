"""Readers: who asks the API, and which episodes are theirs.

A person who may see the pages reads what the pages show. A key of ORSWEB_API_KEYS is its agents' own: it reads the
episodes that were played with it, and no figures over the episodes of others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed, PermissionDenied
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from environments import conf


@dataclass(frozen=True, slots=True)
class Reader:
    key_label: str | None
    """None: a person, who reads everything, but what they play blind."""
    person: Any = None
    """Their account."""

    def sees(self, key_label: str) -> bool:
        """Whether an episode played under that label is among theirs."""
        return self.key_label is None or self.key_label == key_label

    def refuse_keys(self, what: str) -> None:
        """Raises: PermissionDenied when a key asks for `what`, which tells of everybody's episodes."""
        if self.key_label is not None:
            raise PermissionDenied(
                f"{what} tell of everybody's episodes, and a key reads only those played with it: log in on the "
                "server's pages and ask with the session's cookie."
            )


class ReaderAuthentication(BaseAuthentication):
    """`X-API-Key` where one is sent and keys are configured; else the session of the pages.

    Without keys the pages' middleware has made every visitor of this machine the operator.
    """

    def authenticate(self, request: Request) -> tuple[Any, Reader] | None:
        labels, key = conf.key_labels(), request.META.get("HTTP_X_API_KEY", "")
        if labels and key:
            label = labels.get(conf.hash_key(key))
            if label is None:
                raise AuthenticationFailed(
                    "X-API-Key is not one of this server's keys; keys are set by ORSWEB_API_KEYS."
                )
            return None, Reader(label)
        user = getattr(request._request, "user", None)
        if user is None or not user.is_authenticated:
            return None
        return user, Reader(None, user)

    def authenticate_header(self, request: Request) -> str:
        return "X-API-Key"


class ReaderScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # registers itself
    """What the OpenAPI document says of it: either of two ways."""

    target_class = ReaderAuthentication
    name: Any = ["key", "session"]

    def get_security_definition(self, auto_schema: Any) -> Any:
        key = {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "One of ORSWEB_API_KEYS"}
        cookie = {"type": "apiKey", "in": "cookie", "name": "sessionid", "description": "Of a login on the pages"}
        return [key, cookie]

    def get_security_requirement(self, auto_schema: Any) -> Any:
        return [{"key": []}, {"session": []}]


class IsReader(BasePermission):
    message = "Send X-API-Key with one of this server's keys (ORSWEB_API_KEYS), or log in on its pages."

    def has_permission(self, request: Request, view: Any) -> bool:
        return isinstance(request.auth, Reader)


def reader_of(request: Request) -> Reader:
    assert isinstance(request.auth, Reader)
    return request.auth
