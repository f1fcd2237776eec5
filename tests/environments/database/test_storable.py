"""Tests of what the databases can store: texts without NUL and lone surrogates, numbers of 64
bits."""

from __future__ import annotations

import pytest

from environments.database.storable import (
    MAX_BIGINT,
    MAX_INDEX,
    bigint,
    id_in,
    index_in,
    is_storable,
    storable,
    storable_json,
)
from tests.rows import each


@pytest.mark.parametrize("text", ["", "é☃😀", "\u2028 \x1b"])
def test_it_stores_a_text_as_it_is(text: str) -> None:
    assert is_storable(text)
    assert storable(text) == text


@pytest.mark.parametrize(
    ("text", "stored"), [("a\0b", "a\ufffdb"), ("é\ud800", "é\ufffd"), ("\udfff", "\ufffd")]
)
def test_it_replaces_what_no_database_takes(text: str, stored: str) -> None:
    assert not is_storable(text)
    assert storable(text) == stored


@each(
    ("text", "stored"),
    [
        (r'{"\ud800": ["\uDFFF", "\u0000"]}', r'{"\ufffd": ["\ufffd", "\ufffd"]}'),
        (r'"\ud83d\ude00 \ud83dx"', r'"\ud83d\ude00 \ufffdx"'),
        (r'"\ude00\ud83d"', r'"\ufffd\ufffd"'),
        (r'"\\ud800 \\\ud800 \\u0000"', r'"\\ud800 \\\ufffd \\u0000"'),
        (r'"\u00e9 \n"', r'"\u00e9 \n"'),
    ],
)
def test_it_replaces_them_in_json(text: str, stored: str) -> None:
    assert storable_json(text) == stored


def test_it_drops_numbers_beyond_64_bits() -> None:
    assert bigint(MAX_BIGINT) == MAX_BIGINT
    assert bigint(MAX_BIGINT + 1) is None


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("7", 7), (str(MAX_BIGINT), MAX_BIGINT)])
def test_an_id_is_read_from_decimal_digits(text: str, number: int) -> None:
    assert id_in(text) == number


@each(
    "text",
    [
        "",
        "-1",
        "1.0",
        "x",
        "²",
        "٣",
        "\uff0b\uff11",
        "+1",
        "01",
        "1_0",
        " 1",
        "1\n",
        "-0",
        str(MAX_BIGINT + 1),
        "9" * 5000,
    ],
)
def test_a_text_that_no_column_holds_as_id_is_none(text: str) -> None:
    assert id_in(text) is None


@each(("text", "index"), [("7", 7), (str(2**31 - 1), MAX_INDEX), (str(2**31), None), ("²", None)])
def test_an_index_is_a_number_that_32_bits_hold(text: str, index: int | None) -> None:
    assert index_in(text) == index
