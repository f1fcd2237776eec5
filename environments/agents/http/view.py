"""The base class of the endpoints for agents, a DRF view with a cheap async dispatch.

It uses DRF's method handlers and exceptions. It leaves out what DRF would construct for every
request although no endpoint uses it: a request of its own, authenticators, negotiation by Accept,
parsers, renderers and throttles. docs/decisions/0001-lean-handler.md lists every hook of DRF and whether it
works here.

Divergences from the references: a server may have keys, and then refuses requests without one;
X-Deployment chooses the environment of bare paths; an unknown name in the path is answered with a
404 that lists the hosted names that the key may use; a session id that is not UTF-8 is refused.
"""

from __future__ import annotations

import contextlib
from typing import Any, ClassVar, Literal, TypeVar

from pydantic import BaseModel, ValidationError
from rest_framework.exceptions import (
    MethodNotAllowed,
    NotFound,
    UnsupportedMediaType,
)
from rest_framework.views import APIView

from environments import conf, security_log
from environments.agents.http.errors import (
    NUL_IS_NOWHERE,
    is_malformed_json,
    malformed,
    mistyped,
    refusal_of_coding,
    respond,
)
from environments.agents.http.request import HttpRequest
from environments.agents.http.response import Response
from environments.authoring.hosted_environment import HostedEnvironment
from environments.errors import (
    Forbidden,
    InvalidRequest,
    SessionNotFound,
    UnknownEnvironment,
)
from environments.keys.agent_key import EVERYBODY, PLAY, AgentKey, sent_key
from environments.keys.keyring import ring
from environments.runtime.service import SessionService
from environments.service import get_record, open_service, service_or_none
from environments.wire import json_problem, may_be_infinite, parsed_json

Message = TypeVar("Message", bound=BaseModel)
OverQuota = Literal["refuse", "wait", "answer"]

MAX_SESSION_ID_CHARACTERS = 500


class ProtocolView(APIView):
    """Handles one request.

    `key` is its API key and `owner` the key's label, `path_environment` the environment that its
    path names, or None.
    """

    needs_key: ClassVar[bool] = True
    """Whether requests need an API key, if the server has keys."""
    scopes: ClassVar[tuple[str, ...]] = (PLAY,)
    """Scopes of which the key must have one; empty: every key may send the request."""
    http_method_names = ["get", "post"]
    view_is_async = True
    over_quota: ClassVar[OverQuota] = "refuse"
    """What happens to a request that its key's quota of requests does not allow yet: it is refused;
    it waits for its turn; or it is answered, because refusing it would end the client's session
    (docs/protocol.md, "Over quota")."""
    session_meta: ClassVar[str] = "HTTP_X_SESSION_ID"
    """Key of the header in META that names the session."""
    is_of_session: ClassVar[bool] = False
    """Whether requests are about the session that they name, so that its key may send them as long
    as it is live."""

    http_request: HttpRequest
    service: SessionService
    key: AgentKey
    owner: str
    path_environment: str | None

    async def dispatch(self, http_request: HttpRequest, **kwargs: str) -> Response:  # type: ignore[override]
        self.http_request = http_request
        try:
            if "%00" in http_request.query_string:
                raise NotFound(NUL_IS_NOWHERE)
            self.service = service_or_none() or await open_service()
            key = EVERYBODY
            if self.needs_key:
                key = ring.check(http_request.META, http_request.client)
            self.key, self.owner = key, key.label
            http_request.owner = key.label
            key.require(*self.scopes)
            usage = key.usage
            usage.requests_left -= 1
            if usage.requests_left < 0:
                if self.over_quota == "wait":
                    await usage.wait_for_requests(self.service.limits.quota_wait_seconds)
                elif self.over_quota == "refuse":
                    usage.check_requests()
            if http_request.content and (
                text := refusal_of_coding(http_request.META.get("HTTP_CONTENT_ENCODING", ""))
            ):
                raise UnsupportedMediaType("", detail=text)
            self.path_environment = kwargs.get("env_name")
            if self.path_environment is not None and not (
                key.hidden_environments and self._goes_on(self.path_environment)
            ):
                self.find_environment(self.path_environment)
            method = http_request.method.lower()
            handler = getattr(self, method, None) if method in self.http_method_names else None
            if handler is None:
                raise MethodNotAllowed(http_request.method)
            response: Response = await handler()
            return response
        except SessionNotFound:
            sid = utf8(http_request.META.get(self.session_meta, ""), "The session's header").strip()
            return self.refuse(await self.service.absence(sid, self.owner))
        except Exception as error:
            return self.refuse(error)

    def _goes_on(self, environment: str) -> bool:
        """Return whether the request belongs to a session whose environment became private after it
        was opened."""
        if not self.is_of_session or environment.lower() not in self.key.hidden_environments:
            return False
        sid = utf8(
            self.http_request.META.get(self.session_meta, ""), "The session's header"
        ).strip()
        with contextlib.suppress(SessionNotFound):
            return self.service.environment_of(sid, self.owner) == environment.lower()
        return False

    def refuse(self, error: Exception) -> Response:
        """Return the response to a request that raised `error`."""
        if isinstance(error, Forbidden):
            request = self.http_request
            security_log.note(
                "key_forbidden",
                f"{request.method} {request.path[:100]}",
                who=self.key.label,
                address=conf.address_of(*request.client),
                detail=str(error),
            )
        return respond(error, self.allowed_methods)

    # --- what requests say ------------------------------------------------------------------------

    def find_environment(self, name: str) -> HostedEnvironment:
        """Return the hosted environment `name`. Raises: UnknownEnvironment, which lists those of
        the key; Forbidden."""
        self.key.check_environment(name)
        environment = self.service.registry.find(name)
        if environment is None or environment.name in self.key.hidden_environments:
            raise UnknownEnvironment(name, self.key.among(self.service.registry.names))
        return environment

    @property
    def record(self) -> Any:
        """The open record, for views of the application that defines it."""
        return get_record()

    @property
    def hosted(self) -> HostedEnvironment:
        """The environment of a discovery request: the one in its path, the one in X-Deployment, or
        the default. Raises: Forbidden when the key may not use it."""
        if self.path_environment is not None:
            return self.service.registry.get(self.path_environment)
        return self.deployment or self.default

    @property
    def default(self) -> HostedEnvironment:
        """The default environment: the first hosted one that the key may use. Raises: Forbidden if
        there is none."""
        for environment in self.service.registry:
            if self.key.has_environment(environment.name):
                return environment
        raise Forbidden(f"This server hosts no environment that the API key {self.owner!r} may use")

    @property
    def env_name(self) -> str:
        """The environment's name as the path spells it, or as it is served; clients send it back to
        /create."""
        return self.path_environment or self.hosted.name

    @property
    def deployment(self) -> HostedEnvironment | None:
        """The hosted environment that the last path segment of X-Deployment names, or None. Raises:
        Forbidden when the key may not use it."""
        name = self.http_request.META.get("HTTP_X_DEPLOYMENT")
        environment = self.service.registry.find(name.rsplit("/", 1)[-1]) if name else None
        if environment is None or environment.name in self.key.hidden_environments:
            return None
        self.key.check_environment(environment.name)
        return environment

    def session_id(self) -> str:
        """Return the session id in X-Session-ID. Raises: InvalidRequest."""
        sid = utf8(self.http_request.META.get("HTTP_X_SESSION_ID", ""), "X-Session-ID").strip()
        if not sid:
            raise InvalidRequest("X-Session-ID header is required")
        if len(sid) > MAX_SESSION_ID_CHARACTERS:
            raise InvalidRequest(
                f"X-Session-ID has {len(sid)} characters; at most {MAX_SESSION_ID_CHARACTERS} are "
                "allowed"
            )
        if self.service.has_survivors:
            self.service.mask_key(sid, self.owner, sent_key(self.http_request.META))
        return sid

    def check_session(self) -> None:
        """Raise what is wrong with the session that the request names; reported before what is
        wrong with the fields of its body."""

    def read_body(self, model: type[Message]) -> Message:
        """Return the body as `model`. Raises: Unprocessable, and what `check_session` raises."""
        request = self.http_request
        content_type = request.META.get("CONTENT_TYPE", "").partition(";")[0].strip().lower()
        if content_type != "application/json" and not content_type.endswith("+json"):
            self.check_session()
            raise malformed(
                f"Content-Type must be application/json, not {content_type[:100] or 'absent'!r}"
            )
        try:
            if not may_be_infinite(request.content):
                try:
                    return model.model_validate_json(request.content)
                except ValidationError as error:
                    if not is_malformed_json(error):
                        raise
            # clients may send lone surrogates, which Python's parser accepts and pydantic's refuses
            return model.model_validate(parsed_json(request.content))
        except ValidationError as error:
            wrong_fields = mistyped(error, model)
        except (ValueError, RecursionError) as error:
            raise malformed(f"JSON decode error: {json_problem(error)}") from None
        self.check_session()
        raise wrong_fields


def utf8(value: str, name: str) -> str:
    """Return the value of a header, decoded as UTF-8; META holds it decoded as ISO-8859-1. Raises:
    InvalidRequest."""
    if value.isascii():
        return value
    try:
        return value.encode("latin-1").decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidRequest(f"{name} is not valid UTF-8") from None
