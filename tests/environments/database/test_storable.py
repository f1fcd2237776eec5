"""Tests of what the databases can store: texts without NUL and lone surrogates, numbers of 64 bits."""

from __future__ import annotations

import pytest

from environments.database.storable import MAX_BIGINT, bigint, is_storable, storable


@pytest.mark.parametrize("text", ["", "é☃😀", "\u2028 \x1b"])
def test_it_stores_a_text_as_it_is(text: str) -> None:
    assert is_storable(text)
    assert storable(text) == text


@pytest.mark.parametrize(("text", "stored"), [("a\0b", "a\ufffdb"), ("é\ud800", "é\ufffd"), ("\udfff", "\ufffd")])
def test_it_replaces_what_no_database_takes(text: str, stored: str) -> None:
    assert not is_storable(text)
    assert storable(text) == stored


def test_it_drops_numbers_beyond_64_bits() -> None:
    assert bigint(MAX_BIGINT) == MAX_BIGINT
    assert bigint(MAX_BIGINT + 1) is None
