"""Characters that hide or reorder others are written out."""

from __future__ import annotations

import pytest

from episodes.rendering.visible import visible
from tests.rows import each


@each(
    ("hidden", "shown"),
    [
        ("invoice\u202egnp.exe", "invoice⟦RLO⟧gnp.exe"),
        ("a\u2066b\u2069", "a⟦LRI⟧b⟦PDI⟧"),
        ("a\u200bb", "a⟦ZWSP⟧b"),
        ("\x1b[31m", "␛[31m"),
        ("a\x00b\x7f", "a␀b␡"),
        ("\x9b2J", "⟦U+009B⟧2J"),
        ("\U000e0041\U000e0042", "⟦U+E0041⟧⟦U+E0042⟧"),
        ("\ufeffx", "⟦BOM⟧x"),
        ("\ud800", "⟦U+D800⟧"),
        ("10%\r20%", "10%␍20%"),
    ],
)
def test_it_names_what_is_not_seen(hidden: str, shown: str) -> None:
    assert visible(hidden) == shown


@pytest.mark.parametrize("text", ["a\tb\nc", "naïve 漢字 \U0001f469\u200d\U0001f680", "שלום عربى"])
def test_it_leaves_writing_alone(text: str) -> None:
    assert visible(text) == text


def test_it_ends_lines_in_one_way() -> None:
    assert visible("a\r\nb") == "a\nb"
