"""Spellings that searches take for the same, and texts that are folded alike in one piece and in
slices."""

from __future__ import annotations

import random
import unicodedata

import pytest

from environments.models import folding
from environments.models.folding import fold
from tests.rows import each


@each(
    ("text", "folded"),
    [
        ("\u00c4PFEL", "apfel"),
        ("A\u0308pfel", "apfel"),
        ("Stra\u00dfe", "strasse"),
        ("STRA\u1e9eE", "strasse"),
        ("\ufb01nden", "finden"),
        ("\ufb03", "ffi"),
        ("\uff21\uff22\uff11", "ab1"),
        ("\u0395\u03bb\u03bb\u03ac\u03c2", "\u03b5\u03bb\u03bb\u03b1\u03c3"),
        ("\u0130stanbul", "istanbul"),
        ("D\u0131\u015f", "d\u0131s"),  # a letter of its own, which is no i
        ("\uff76\uff9e", "\u30ac"),
        ("\u1112\u1161\u11ab", "\ud55c"),
        ("\ufeffA\u200bp\xadf\u3164e\U000e0041l\ufe0f", "apfel"),  # what nobody sees
    ],
)
def test_case_accents_and_forms_of_letters_do_not_matter(text: str, folded: str) -> None:
    assert fold(text) == folded == fold(folded)


LETTERS = (
    *(
        "a",
        "Z",
        "\u00c4",
        "\u00df",
        "\ufb01",
        "\u0130",
        "\u0308",
        "\u0301",
        "\u0323",
        "\u1112",
        "\u1161",
        "\u11ab",
        "\ud55c",
    ),
    *(
        "\uff76",
        "\uff9e",
        "\u3099",
        "\u0bc6",
        "\u0bbe",
        "\u0915",
        "\u093c",
        "\uffa1",
        "\uffc2",
        "\u4eac",
        "\U0001f600",
    ),
)


@pytest.mark.parametrize("seed", range(20))
def test_slices_fold_as_the_whole_does(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    text = "".join(random.Random(seed).choices(LETTERS, k=400))
    whole = fold(text)
    assert unicodedata.is_normalized("NFC", whole)
    monkeypatch.setattr(folding, "SLICE_CHARACTERS", 30)
    assert fold(text) == whole
