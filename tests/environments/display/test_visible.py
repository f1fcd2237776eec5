"""Characters that hide or reorder others are written out."""

from __future__ import annotations

import pytest

from environments.display.visible import visible
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
        ("gpt\u3164\u115f\uffa0\u2800", "gpt⟦U+3164⟧⟦U+115F⟧⟦U+FFA0⟧⟦U+2800⟧"),
        ("a\u034fb\u17b4\u2065", "a⟦CGJ⟧b⟦U+17B4⟧⟦U+2065⟧"),
        ("a\ufe0f \u2764\ufe0f\ufe0f", "a⟦VS16⟧ \u2764\ufe0f⟦VS16⟧"),
        ("\U0001f600\U000e0141\U000e0152", "\U0001f600⟦U+E0141⟧⟦U+E0152⟧"),
        ("a\u200db\u200cc \u200d", "a⟦ZWJ⟧b⟦ZWNJ⟧c ⟦ZWJ⟧"),
        ("\u0639\u200d\u200d\u0639", "\u0639⟦ZWJ⟧⟦ZWJ⟧\u0639"),
        ("\U0001f3f4\U000e0067\U000e0062\U000e007f", "\U0001f3f4⟦U+E0067⟧⟦U+E0062⟧⟦U+E007F⟧"),
    ],
)
def test_it_names_what_is_not_seen(hidden: str, shown: str) -> None:
    assert visible(hidden) == shown


IGNORABLE = (
    *(0xAD, 0x34F, 0x61C, *range(0x115F, 0x1161), *range(0x17B4, 0x17B6), *range(0x180B, 0x1810)),
    *(
        *range(0x200B, 0x2010),
        *range(0x202A, 0x202F),
        *range(0x2060, 0x2070),
        0x3164,
        *range(0xFE00, 0xFE10),
    ),
    *(0xFEFF, 0xFFA0, *range(0xFFF0, 0xFFF9), *range(0x1BCA0, 0x1BCA4), *range(0x1D173, 0x1D17B)),
    *range(0xE0000, 0xE1000),
)
"""Default_Ignorable_Code_Point, from DerivedCoreProperties.txt of Unicode 16."""


def test_it_names_every_character_that_unicode_ignores() -> None:
    assert not [hex(code) for code in IGNORABLE if chr(code) in visible(f"a{chr(code)}b")]


@pytest.mark.parametrize(
    "text",
    [
        *(
            "a\tb\nc",
            "naïve 漢字 \U0001f469\u200d\U0001f680",
            "שלום عربى",
            "\u0645\u06cc\u200c\u062e",
            "\u0915\u094d\u200d",
        ),
        *(
            "\u2764\ufe0f",
            "1\ufe0f\u20e3",
            "\U0001f3f3\ufe0f\u200d\U0001f308",
            "\u845b\U000e0100",
            "\u1820\u180b",
        ),
        *(
            "\U0001f469\U0001f3fd\u200d\u2764\ufe0f\u200d\U0001f468\U0001f3ff",
            "\U0001f3f4",
            "\u2800\u28c0\u2800",
        ),
        "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
    ],
)
def test_it_leaves_writing_alone(text: str) -> None:
    assert visible(text) == text


def test_it_ends_lines_in_one_way() -> None:
    assert visible("a\r\nb") == "a\nb"
