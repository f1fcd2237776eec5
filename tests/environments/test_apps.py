"""The converter `<id:pk>`, which takes part in every address with an id."""

from __future__ import annotations

import pytest
from django.urls import Resolver404, resolve, reverse

from environments.database.storable import MAX_BIGINT
from tests.rows import each


@pytest.mark.parametrize("number", [0, 1, MAX_BIGINT])
def test_a_number_of_64_bits_is_an_id(number: int) -> None:
    assert resolve(f"/tasks/{number}/").kwargs == {"pk": number}
    assert reverse("task", args=[number]) == f"/tasks/{number}/"


@each("text", [str(MAX_BIGINT + 1), "9" * 5000, "-1", "one"])
def test_nothing_else_is_one(text: str) -> None:
    with pytest.raises(Resolver404):
        resolve(f"/tasks/{text}/")
