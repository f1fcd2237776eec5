"""Requests to the API in tests."""

from __future__ import annotations

from typing import Any

from django.test import Client


def get(path: str, status: int = 200, client: Client | None = None, **headers: str) -> Any:
    """Return the JSON of the response to GET /api/…."""
    response = (client or Client()).get(f"/api/{path}", headers=headers)
    assert response.status_code == status, response.content
    assert response["Content-Type"] == "application/json"
    return response.json()


def ids(path: str, **headers: str) -> list[int]:
    return [row["id"] for row in get(path, **headers)["results"]]


def pages(path: str, **headers: str) -> list[int]:
    """Return the ids of all pages, following `next`."""
    found, link = list[int](), f"http://testserver/api/{path}"
    while link:
        answer = get(link.partition("/api/")[2], **headers)
        found += [row["id"] for row in answer["results"]]
        link = answer["next"]
    return found
