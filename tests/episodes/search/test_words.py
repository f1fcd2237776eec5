"""Tests of how texts and search terms are split into words."""

from __future__ import annotations

from episodes.search.words import (
    MAX_CHARACTERS,
    MAX_TERMS,
    Term,
    spaced_words_of,
    terms_of,
    words_of,
)
from tests.rows import each


@each(
    ("text", "words"),
    [
        ("The Cat", ["the", "cat"]),
        ("a_b/c.txt", ["a", "b", "c", "txt"]),
        ("x = -1.5e3", ["x", "1", "5e3"]),
        ("Caf\u00e9 na\u00efve STRASSE Stra\u00dfe", ["cafe", "naive", "strasse", "strasse"]),
        ("\u6771\u4eac tower", ["\u6771", "\u4eac", "tower"]),
        ("\ud55c\uad6d", ["\ud55c", "\uad6d"]),
        ("a\0b \ud800c \x1b[31mred", ["a", "b", "c", "31mred"]),
        ("\u202ee\u200bvil\u202c", ["evil"]),
        ("", []),
    ],
)
def test_a_text_is_cut_where_letters_and_digits_end(text: str, words: list[str]) -> None:
    assert words_of(text) == words


def test_a_long_word_is_known_by_its_beginning() -> None:
    assert words_of("x" * 1000) == ["x" * MAX_CHARACTERS]


@each(
    ("text", "terms"),
    [
        ("cat dog", [Term(("cat",)), Term(("dog",))]),
        ('"black cat" dog', [Term(("black", "cat")), Term(("dog",))]),
        ("data.txt", [Term(("data", "txt"))]),
        ("beg*", [Term(("beg",), is_prefix=True)]),
        ('"how to beg*"', [Term(("how", "to", "beg"), is_prefix=True)]),
        ('"how to beg"*', [Term(("how", "to", "beg"), is_prefix=True)]),
        ("be* \u4eac*", [Term(("be",)), Term(("\u4eac",))]),
        ('"never closed', [Term(("never", "closed"))]),
        ("cat cat", [Term(("cat",))]),
        ("a OR b NOT c", [Term((word,)) for word in ("a", "or", "b", "not", "c")]),
        ('"" * " ( ) : ^ \' \\ --', []),
    ],
)
def test_a_search_is_words_phrases_and_beginnings(text: str, terms: list[Term]) -> None:
    assert terms_of(text) == terms


def test_a_search_has_so_many_terms_at_most() -> None:
    assert len(terms_of(" ".join(f"word{n}" for n in range(1000)))) == MAX_TERMS


@each("word", ["x" * MAX_CHARACTERS, "x" * (MAX_CHARACTERS + 1), "x" * 1000, "x-" * 100, "Łódź"])
@each("text", ["{}", "{} b", "a {}", "A, {}!\n{}", ""])
def test_words_with_blanks_are_the_same_words(text: str, word: str) -> None:
    text = text.format(word, word)
    assert spaced_words_of(text).split() == words_of(text)
