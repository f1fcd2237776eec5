"""ProtocolView: a DRF view with an async dispatch, made cheap. Every endpoint of the protocol derives from it.

DRF keeps its part (authenticators, method handlers, one place for exceptions); what it would build anew for every
request and this protocol does not use (negotiation by Accept, parsers, renderers, throttles) is left out.

Divergences from the references: X-Deployment chooses the environment of bare paths; an unknown name in the path is a
404 that names those hosted; a session id that is no UTF-8 is refused; a server may have keys, and then refuses clients
without one (the references let everybody in).
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ValidationError
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed, MethodNotAllowed
from rest_framework.views import APIView

from environments import conf
from environments.authoring.hosted import Hosted
from environments.errors import InvalidRequest
from environments.protocol.errors import Unprocessable, is_malformed_json, malformed, mistyped, respond
from environments.protocol.request import HttpRequest, ProtocolRequest
from environments.protocol.response import Response
from environments.runtime.service import SessionService
from environments.service import current_service, open_service
from environments.wire import parsed_json

Message = TypeVar("Message", bound=BaseModel)

LONGEST_SESSION_ID = 500


class KeyAuthentication(BaseAuthentication):
    """`X-API-Key` against ORSWEB_API_KEYS. Without configured keys everybody is welcome (and only loopback listens).

    Sessions and records know only the label of a key.
    """

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


class ProtocolView(APIView):
    """One request. `owner` is the label of its key, `named` the environment its path names or None."""

    authenticators: ClassVar[tuple[Any, ...]] = (KeyAuthentication(),)
    http_method_names = ["get", "post"]
    view_is_async = True

    service: SessionService
    owner: str
    named: str | None

    async def dispatch(self, http_request: HttpRequest, **kwargs: str) -> Response:  # type: ignore[override]
        request = ProtocolRequest(http_request, self.authenticators)
        self.request, self.http_request = request, http_request
        try:
            self.owner = request.authenticate()
            self.service = current_service() or await open_service()
            self.named = kwargs.get("env_name")
            if self.named is not None:
                self.service.registry.get(self.named)
            method = http_request.method.lower()
            handler = getattr(self, method, None) if method in self.http_method_names else None
            if handler is None:
                raise MethodNotAllowed(http_request.method)
            response: Response = await handler()
            return response
        except Exception as error:
            return respond(error, self.allowed_methods, self.authenticators[0].authenticate_header(request))
        finally:
            # view, request and handler refer to each other; breaking the cycle spares the garbage collector's pauses
            del self.request, self.http_request, request

    # --- what requests say --------------------------------------------------------------------------------------------

    @property
    def hosted(self) -> Hosted:
        """The environment of a discovery request: its path's, its X-Deployment's, or the default."""
        registry = self.service.registry
        return registry.get(self.named) if self.named is not None else self.deployment or registry.default

    @property
    def env_name(self) -> str:
        """The environment's name as the path has it, or as it is served; clients send it back to /create."""
        return self.named or self.hosted.name

    @property
    def deployment(self) -> Hosted | None:
        """The hosted environment that X-Deployment names (its last path part), if any."""
        name = self.http_request.META.get("HTTP_X_DEPLOYMENT")
        return self.service.registry.find(name.rsplit("/", 1)[-1]) if name else None

    def session_id(self) -> str:
        """Raises: InvalidRequest."""
        sid = utf8(self.http_request.META.get("HTTP_X_SESSION_ID", ""), "X-Session-ID").strip()
        if not sid:
            raise InvalidRequest("X-Session-ID header is required")
        if len(sid) > LONGEST_SESSION_ID:
            raise InvalidRequest(f"X-Session-ID has {len(sid)} characters; at most {LONGEST_SESSION_ID} are allowed")
        return sid

    def read(self, model: type[Message]) -> Message | Unprocessable:
        """The body as `model`, or what is wrong with its types, to be raised once the session has been judged.

        Raises: Unprocessable when the body is not JSON at all.
        """
        request = self.http_request
        content_type = request.META.get("CONTENT_TYPE", "").partition(";")[0].strip().lower()
        if content_type != "application/json" and not content_type.endswith("+json"):
            return malformed(f"Content-Type must be application/json, not {content_type[:100] or 'absent'!r}")
        try:
            return model.model_validate_json(request.content)
        except ValidationError as error:
            if not is_malformed_json(error):
                return mistyped(error, model)
        try:  # Python's reader takes what clients may send and pydantic's refuses: lone surrogates
            return model.model_validate(parsed_json(request.content))
        except ValidationError as error:
            return mistyped(error, model)
        except (ValueError, RecursionError) as error:
            raise malformed(f"JSON decode error: {error}") from None

    def body(self, model: type[Message]) -> Message:
        """Raises: Unprocessable."""
        message = self.read(model)
        if isinstance(message, Unprocessable):
            raise message
        return message


def utf8(value: str, name: str) -> str:
    """A header's value (handed over as ISO-8859-1) read as UTF-8. Raises: InvalidRequest."""
    if value.isascii():
        return value
    try:
        return value.encode("latin-1").decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidRequest(f"{name} is not valid UTF-8") from None
