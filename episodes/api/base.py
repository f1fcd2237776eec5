"""ApiView, the base of every endpoint of the API: JSON, for readers only; and paging by `limit` and
`after`.

Views answer GET and HEAD only, unless they set `http_method_names`.

An error is `{"detail": sentence}`; a refused parameter adds `field`, `value` and `allowed`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import accumulate, takewhile
from typing import Any, NoReturn, TypeVar

from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.csrf import csrf_exempt
from rest_framework import exceptions
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from environments import security_log
from environments.errors import Forbidden, OrsError, OverQuota
from environments.filtering.parameters import LEGAL, BadFilter, given, unknown_name, whole_from
from environments.keys.agent_key import READ, RECORD
from episodes.api.auth import SAFE_METHODS, IsReader, Reader, ReaderAuthentication, reader_of
from episodes.api.exact_json import ExactRenderer, exact_json
from episodes.runs.trainer_updates import RunConflict, RunNotFound
from episodes.visibility import TaskGuard


class AlwaysJson(BaseContentNegotiation):
    """Answers in JSON whatever the client accepts, so that no client is refused for its Accept
    header."""

    def select_parser(self, request: Request, parsers: Any) -> Any:
        return None

    def select_renderer(
        self, request: Request, renderers: Any, format_suffix: str | None = None
    ) -> Any:
        return renderers[0], renderers[0].media_type


class ApiView(APIView):
    authentication_classes: Any = (ReaderAuthentication,)
    permission_classes: Any = (IsReader,)
    renderer_classes = (ExactRenderer,)
    content_negotiation_class = AlwaysJson
    http_method_names = ["get", "head"]
    scopes: tuple[str, ...] = (READ,)
    """Scopes of which a key must have one to read; it needs `record` to write."""
    is_always_answered = False
    """Whether a request that its key's quota does not allow yet is answered nevertheless."""
    parameters: Collection[str] = ()
    """Names of the parameters that the view accepts; all others are refused."""

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if isinstance(request.auth, Reader):  # else the view needs no reader
            scopes = self.scopes if request.method in SAFE_METHODS else (RECORD,)
            request.auth.key.require(*scopes)
            if request.auth.person is None:
                usage = request.auth.key.usage
                usage.requests_left -= 1
                if usage.requests_left < 0 and not self.is_always_answered:
                    usage.check_requests()
        for name, value in request.GET.items():
            if self.parameters is not ANY and name not in self.parameters:
                raise unknown_name(name, value, self.parameters)

    def permission_denied(
        self, request: Request, message: str | None = None, code: str | None = None
    ) -> NoReturn:
        raise exceptions.NotAuthenticated(message)

    @property
    def reader(self) -> Reader:
        return reader_of(self.request)

    @property
    def context(self) -> dict[str, Any]:
        """What serializers need to know about the request."""
        return {"request": self.request, "viewer": self.reader.viewer, "guard": self.guard}

    @property
    def guard(self) -> TaskGuard:
        """What the reader may read of tasks."""
        return self.reader.guard

    def refuse_unknown(self, sentences: str) -> None:
        """Raise OrsError with `sentences` about unknown names, if there are any.

        A key gets an empty result instead, because the sentences name what others have created.
        """
        if sentences and self.reader.key_label is None:
            raise OrsError(sentences)

    def get_exception_handler(self) -> Callable[[Exception, Any], Response | None]:
        return handle


ANY: Collection[str] = frozenset({"*"})
"""Value of `parameters` for a view that checks them itself."""


def handle(error: Exception, context: Any) -> Response | None:
    """Return the response to `error`; None if it is a fault of the server."""
    headers = dict[str, str]()
    content: dict[str, Any] = {"detail": str(error)}
    if isinstance(error, BadFilter):
        status, reason = 400, error.allowed.removeprefix(LEGAL)
        content |= {"field": error.field, "value": error.value, "allowed": reason}
    elif isinstance(error, Http404 | RunNotFound):
        status = 404
    elif isinstance(error, RunConflict):
        status = 409
    elif isinstance(error, OverQuota):
        status, content["detail"] = 429, f"{error}."
        headers["Retry-After"] = str(error.retry_seconds)
    elif isinstance(error, Forbidden):
        status, request = 403, context["request"]
        if isinstance(request.auth, Reader) and request.auth.key.label:
            where = f"{request.method} {request.path[:100]}"
            who = request.auth.key.label
            security_log.note("key_forbidden", where, who=who, detail=str(error))
    elif isinstance(error, OrsError):
        status = 400
    elif isinstance(error, OperationalError | InterfaceError):
        status, content["detail"] = 503, "The database is unavailable; try again."
        headers["Retry-After"] = "2"
    elif isinstance(error, exceptions.APIException):
        status, content["detail"] = error.status_code, str(error.detail)
        if isinstance(error, exceptions.MethodNotAllowed):
            headers["Allow"] = ", ".join(context["view"].allowed_methods)
            content["detail"] += f" This address allows {headers['Allow']}."
        if challenge := getattr(error, "auth_header", None):
            headers["WWW-Authenticate"] = challenge
        if wait := getattr(error, "wait", None):
            headers["Retry-After"] = str(wait)
    else:
        return None
    return Response(content, status, headers=headers)


@csrf_exempt
def unknown(request: HttpRequest, rest: str = "") -> HttpResponse:
    """Answer 404 for paths under /api/ that do not exist. Raises: Http404 for a browser, which gets
    a page."""
    detail = f"There is no {request.path[:200]}; {reverse('api')} lists all addresses."
    if "text/html" in request.headers.get("Accept", ""):
        raise Http404(detail)
    return HttpResponse(exact_json({"detail": detail}), content_type="application/json", status=404)


PAGE = 50
MAX_PAGE = 500
Row = TypeVar("Row")


def limit_of(request: Request) -> int:
    """Return the parameter `limit`. Raises: BadFilter."""
    return given(request.GET, "limit", whole_from(1, MAX_PAGE), PAGE)


def fitting(
    rows: Sequence[Row], limit: int, size_of: Callable[[Row], int], most: int
) -> Sequence[Row]:
    """Return the first of `rows`: up to `limit`, of up to `most` size together, but at least
    one."""
    sizes = accumulate(map(size_of, rows))
    count = sum(1 for _ in takewhile(lambda total: total <= most, sizes))
    return rows[: min(limit, max(1, count))]


def link(request: Request, after: object) -> str | None:
    """Return the address of the request with the cursor `after`; None if there is no cursor."""
    if after is None or after == "":
        return None
    query = request.GET.copy()
    query["after"] = str(after)
    return str(request.build_absolute_uri(f"{request.path}?{query.urlencode()}"))


def page(
    request: Request, results: Any, after: object, before: object = None, **further: Any
) -> dict[str, Any]:
    """Return a page. `after` and `before`: cursors of the next and previous page, None or empty if
    there is none."""
    return {
        "next": link(request, after),
        "previous": link(request, before),
        **further,
        "results": results,
    }
