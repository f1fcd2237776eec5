"""Which hooks of DRF's `APIView` a protocol view has, as docs/decisions/0001-lean-handler.md lists
them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import NotAuthenticated, PermissionDenied, Throttled
from rest_framework.views import APIView

from environments.agents.http import view
from environments.agents.http.request import HttpRequest
from environments.agents.http.response import Response, json_response
from environments.agents.http.view import ProtocolView
from tests.rows import each


class Refusing(BaseAuthentication):
    def authenticate(self, request: Any) -> None:
        raise NotAuthenticated


class Trial(ProtocolView):
    error: Exception | None = None

    async def get(self) -> Response:
        if self.error is not None:
            raise self.error
        return json_response({"kwargs": sorted(vars(self))})


@pytest.fixture(autouse=True)
def service(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make any object the open service, because no view here needs a session."""
    monkeypatch.setattr(view, "service_or_none", object)


def request_of(method: str = "GET") -> HttpRequest:
    scope = {
        "method": method,
        "path": "/trial",
        "headers": [(b"accept", b"text/html")],
        "query_string": b"format=api",
    }
    return HttpRequest(scope, None)  # type: ignore[arg-type]


async def answer(view: type[ProtocolView], method: str = "GET") -> tuple[int, Any]:
    response = await view().dispatch(request_of(method))
    assert isinstance(response.body, bytes)
    return response.status_code, json.loads(response.body)


@each("name", ["authenticators", "authentication_classes"])
async def test_authenticators_are_not_read(name: str) -> None:
    assert (await answer(type("Settings", (Trial,), {name: [Refusing]})))[0] == 200


HOOKS = [
    "check_permissions",
    "check_throttles",
    "determine_version",
    "finalize_response",
    "get_authenticators",
    "get_exception_handler",
    "handle_exception",
    "initial",
    "initialize_request",
    "perform_authentication",
    "perform_content_negotiation",
]


@each("hook", HOOKS)
async def test_it_is_never_called(hook: str) -> None:
    def call(*args: Any, **kwargs: Any) -> None:
        raise AssertionError(hook)

    assert hasattr(APIView, hook)
    view = type("Hooked", (Trial,), {hook: call})
    assert (await answer(view))[0] == 200
    assert (await answer(type("Failing", (view,), {"error": PermissionDenied()})))[0] == 403


@each("method", ["OPTIONS", "POST", "TRACE"])
async def test_a_method_without_a_handler_is_refused(method: str) -> None:
    assert (await answer(Trial, method))[0] == 405


async def test_an_exception_of_drf_that_is_raised_by_a_view_has_its_status_and_says_when_to_try_again() -> (
    None
):
    response = await type("Busy", (Trial,), {"error": Throttled(wait=3)})().dispatch(request_of())
    assert response.status_code == 429
    assert (b"retry-after", b"3") in response.headers


async def test_kwargs_and_format_are_not_set() -> None:
    names = (await answer(Trial))[1]["kwargs"]
    assert not {"args", "kwargs", "format_kwarg", "headers", "response"} & set(names)
