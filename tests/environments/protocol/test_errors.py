"""The responses to errors that are not the protocol's own."""

from __future__ import annotations

import json

import pytest
from django.db import DataError, InterfaceError, OperationalError

from environments.agent_http.errors import respond

SECRET = 'connection to server at "db", user "lab" failed'


@pytest.mark.parametrize("kind", [OperationalError, InterfaceError])
def test_it_asks_to_try_again_while_the_database_is_away(kind: type[Exception]) -> None:
    response = respond(kind(SECRET), ["GET"])
    assert (response.status_code, json.loads(response.body)) == (  # type: ignore[arg-type]  # no stream
        503,
        {"detail": "The database cannot be reached; try again."},
    )
    assert {(b"x-backend-state", b"starting"), (b"retry-after", b"2")} <= set(response.headers)


def test_it_tells_nothing_of_any_other_error() -> None:
    response = respond(DataError(SECRET), ["GET"])
    assert (response.status_code, response.body) == (500, b'{"detail":"Internal Server Error"}')
