"""A table of rows within one test: all are tried, and a failure names those that are wrong."""

from __future__ import annotations

import inspect

import pytest

from tests.rows import each


def test_every_row_is_tried_and_wrong_ones_are_named() -> None:
    tried = []

    @each("one, other", [(1, 1), (1, 2), (3, 3), (3, 4)])
    def equal(one: int, other: int) -> None:
        tried.append(one)
        assert one == other

    with pytest.raises(BaseExceptionGroup, match="2 of 4 rows are wrong") as raised:
        equal()  # type: ignore[call-arg]
    assert [error.__notes__ for error in raised.value.exceptions] == [
        ["in the row (1, 2)"],
        ["in the row (3, 4)"],
    ]
    assert tried == [1, 1, 3, 3]


def test_tables_are_multiplied_and_what_is_no_row_is_a_fixture() -> None:
    found = []

    @each("one", ["a", "b"], ids=str.upper)
    @each("other", [1, 2], ids=["first", "second"])
    def product(one: str, other: int, monkeypatch: str) -> None:
        found.append((one, other, monkeypatch))

    assert list(inspect.signature(product).parameters) == ["monkeypatch"]
    product(monkeypatch="given")  # type: ignore[call-arg]
    assert found == [("a", 1, "given"), ("a", 2, "given"), ("b", 1, "given"), ("b", 2, "given")]


@each("number", [1, pytest.param(2, id="two")])
async def test_async_tests_have_rows_too(number: int) -> None:
    assert number in (1, 2)


def test_what_was_not_raised_is_a_wrong_row_too() -> None:
    @each("error", [ValueError, KeyError])
    def raises(error: type[Exception]) -> None:
        with pytest.raises(error):
            raise ValueError

    with pytest.raises(BaseExceptionGroup, match="1 of 2 rows are wrong"):
        raises()  # type: ignore[call-arg]
