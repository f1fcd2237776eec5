"""Authentication of the API: who sends a request, and which episodes they may read.

A person who may see the pages reads what the pages show, and so does a key with the scope `admin`.
Any other key belongs to agents: with the scope `read` it reads the episodes that were played with
it, but no figures that are computed from the episodes of others.

Requests that change something need Django's CSRF token if they come from a browser, because
browsers send cookies with requests that other sites make. Keys are sent on purpose, and a program
on the machine of a server without keys sends no cookie; it is distinguished from a browser by the
headers `Origin`, `Referer` and `Sec-Fetch-Site`, one of which every browser sends with such a
request.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication, CSRFCheck
from rest_framework.exceptions import (
    APIException,
    AuthenticationFailed,
    ErrorDetail,
    PermissionDenied,
    Throttled,
)
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from environments import conf
from environments.access.current_login import rights_of
from environments.access.local_operator import OPERATOR
from environments.access.permissions import SEE_PAGES, refusal
from environments.access.privacy import viewer_of
from environments.errors import KeyRefused
from environments.keys.agent_key import EVERYBODY, AgentKey, sent_key
from environments.keys.keyring import ring
from environments.models import Viewer
from episodes.visibility import TaskGuard, key_of_person

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
BROWSER_HEADERS = ("HTTP_ORIGIN", "HTTP_REFERER", "HTTP_SEC_FETCH_SITE")


@dataclass(frozen=True, slots=True)
class Reader:
    """The sender of a request: a person, or a key."""

    person: Any = None
    """Account of the person; None for a key."""
    key: AgentKey = EVERYBODY
    """The key, or what stands for a person's permissions."""

    @property
    def owner(self) -> str:
        """Name under which the sender's open streams are counted."""
        return self.key.label if self.person is None else f"@{self.person.get_username()}"

    @property
    def key_label(self) -> str | None:
        """Label of the key whose records the sender may read; None for all, except what a person
        plays blind."""
        return self.key.viewer.key_label if self.person is None else None

    @property
    def guard(self) -> TaskGuard:
        """What the reader may read of tasks."""
        return TaskGuard(self.viewer)

    @property
    def viewer(self) -> Viewer:
        """What exists for the reader."""
        return self.key.viewer if self.person is None else viewer_of(self.person)

    def rights_of(self, request: Request) -> Callable[[], bool]:
        """Return what tells whether the reader may still do, and see, all that they may now; as
        `logins.rights_of`."""
        return rights_of(request._request) if self.person is not None else self._has_rights

    def _has_rights(self) -> bool:
        key = ring.current(self.key)
        return (
            key is not None and key.may_all_of(self.key) and key.viewer.sees_all_of(self.key.viewer)
        )

    def refuse_keys(self, what: str) -> None:
        """Refuse `what`, which covers all episodes, to keys. Raises: PermissionDenied."""
        if self.key_label is not None:
            raise PermissionDenied(
                f"{what} cover all episodes, and a key reads only those played with it: log in on "
                "the server's "
                "pages and send the session cookie instead."
            )


class ReaderAuthentication(BaseAuthentication):
    """Authenticates by the API key if one is sent and the server needs keys; otherwise by the
    session of the pages.

    Without keys the middleware of the pages logs in every visitor from this machine as the
    operator.
    """

    def authenticate(self, request: Request) -> tuple[Any, Reader] | None:
        if conf.has_keys() and sent_key(request.META):
            try:
                key = ring.check(request.META, (request.META.get("REMOTE_ADDR", ""), ""))
            except KeyRefused as error:
                seconds = error.wait_seconds
                failure: APIException = Throttled(seconds) if seconds else AuthenticationFailed()
                failure.detail = ErrorDetail(f"{error}.")  # without the sentence that DRF adds
                raise failure from None
            return None, Reader(key=key)
        user = getattr(request._request, "user", None)
        if user is None or not user.is_authenticated:
            return None
        if request.method not in SAFE_METHODS and not _is_local_program(request, user):
            _check_csrf(request)
        if not user.has_perm(SEE_PAGES):
            raise PermissionDenied(refusal(user, SEE_PAGES))
        return user, Reader(user, key_of_person(user))

    def authenticate_header(self, request: Request) -> str:
        return "X-API-Key"


def _is_local_program(request: Request, user: Any) -> bool:
    """Return whether a program on this machine sent the request to a server without keys, and no
    browser did."""
    is_operator = not conf.has_keys() and user.get_username() == OPERATOR
    return is_operator and not any(name in request.META for name in BROWSER_HEADERS)


def _check_csrf(request: Request) -> None:
    """Raises: PermissionDenied unless the request has the CSRF token of the browser's cookie."""
    check: Any = CSRFCheck(lambda _: None)  # type: ignore[arg-type]  # never called
    check.process_request(request._request)
    reason = check.process_view(request._request, None, (), {})
    if reason:
        raise PermissionDenied(
            f"CSRF check failed: {reason} Send the value of the cookie {settings.CSRF_COOKIE_NAME} "
            "in the header "
            "X-CSRFToken, or X-API-Key instead of cookies."
        )


class ReaderScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # registers itself
    """Describes the two methods of authentication in the OpenAPI document: key or session."""

    target_class = ReaderAuthentication
    name: Any = ["key", "session"]

    def get_security_definition(self, auto_schema: Any) -> Any:
        key = {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "An API key"}
        cookie = {
            "type": "apiKey",
            "in": "cookie",
            "name": settings.SESSION_COOKIE_NAME,
            "description": "Session cookie of a login on the pages",
        }
        return [key, cookie]

    def get_security_requirement(self, auto_schema: Any) -> Any:
        return [{"key": []}, {"session": []}]


class IsReader(BasePermission):
    message = "Send X-API-Key with one of this server's keys, or log in on its pages."

    def has_permission(self, request: Request, view: Any) -> bool:
        return isinstance(request.auth, Reader)


def reader_of(request: Request) -> Reader:
    assert isinstance(request.auth, Reader)
    return request.auth
