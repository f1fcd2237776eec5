"""The responses to errors that are not the protocol's own."""

from __future__ import annotations

import json
import re

import pytest
from django.db import DatabaseError, DataError, InterfaceError, OperationalError, connection

from environments.agents.http.errors import respond
from environments.errors import Unhostable

SECRET = 'connection to server at "db", user "lab" failed'


@pytest.mark.parametrize("kind", [OperationalError, InterfaceError])
def test_it_asks_to_try_again_while_the_database_is_away(kind: type[Exception]) -> None:
    response = respond(kind(SECRET), ["GET"])
    assert (response.status_code, json.loads(response.body)) == (  # type: ignore[arg-type]  # no stream
        503,
        {"detail": "The database cannot be reached; try again."},
    )
    assert {(b"x-backend-state", b"starting"), (b"retry-after", b"2")} <= set(response.headers)


@pytest.mark.django_db
def test_it_says_that_the_database_is_not_migrated() -> None:
    with pytest.raises(DatabaseError) as missing, connection.cursor() as cursor:
        cursor.execute("SELECT name FROM environments_of_tomorrow")
    response = respond(missing.value, ["GET"])
    assert response.status_code == 500
    assert re.search(rb"The database is not migrated; run .*manage\.py migrate\.", response.body)  # type: ignore[arg-type]


def test_it_says_what_is_wrong_with_a_class() -> None:
    response = respond(Unhostable("Chess has no tools; mark one."), ["GET"])
    assert (response.status_code, response.body) == (
        500,
        b'{"detail":"Chess has no tools; mark one."}',
    )


def test_it_tells_nothing_of_any_other_error() -> None:
    response = respond(DataError(SECRET), ["GET"])
    assert (response.status_code, response.body) == (500, b'{"detail":"Internal Server Error"}')
