"""Splits transcripts and search terms into words, for every database in the same way.

Databases split texts differently (the parser of PostgreSQL reads `a/b.txt` as one path, that of
SQLite as three words), so both receive words that were split here and find the same episodes.

A word is a run of letters and digits, in lower case and without accents and invisible characters. A
character of a script without spaces between words is a word by itself. All other characters
separate words, so `file_name.txt` is three words in a row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from environments.invisible import IGNORABLE
from environments.models.folding import fold

MAX_CHARACTERS = 64
"""Maximum length of a word in characters; longer words are truncated."""
MIN_PREFIX_CHARACTERS = 3
"""Length of a prefix. Shorter ones match too much (one letter among 1,000,000 documents takes 7
s)."""
MAX_TERMS = 32
"""Number of terms of one search; further terms are ignored."""

_ALONE = "\u2e80-\u2fff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(rf"[{_ALONE}]|[^\W_{_ALONE}]+")
_ASCII = "".join(chr(code).lower() if chr(code).isalnum() else " " for code in range(128))
"""What `words_of` makes of each character, for `str.translate`, which takes a third of the time of
a pattern."""
_LONG = re.compile(rf" [^ ]{{{MAX_CHARACTERS + 1}}}")
_SPAN = re.compile(rf"[{_ALONE}]|(?:[^\W_{_ALONE}]|[\u0300-\u036f{IGNORABLE}])+")
_TERM = re.compile(r'"([^"]*)(?:"(\*?)|$)|([^\s"]+)')


@dataclass(frozen=True, slots=True)
class Term:
    """One or more words that must follow each other."""

    words: tuple[str, ...]
    """At least one word; each consists of letters and digits only."""
    is_prefix: bool = False
    """Whether the last word is a prefix of the words to find."""


def words_of(text: str) -> list[str]:
    """Return the words of `text` in order. They consist of letters and digits, so they never need
    quoting."""
    words = text.translate(_ASCII).split() if text.isascii() else _WORD.findall(fold(text))
    if max(map(len, words), default=0) > MAX_CHARACTERS:
        words = [word[:MAX_CHARACTERS] for word in words]
    return words


def spaced_words_of(text: str) -> str:
    """Return the words of `text` in order, with blanks between them, in a quarter of the time of a
    list of them."""
    if text.isascii():
        words = f" {text.translate(_ASCII)}"
        if not _LONG.search(words):
            return words.strip()
    return " ".join(words_of(text))


def placed_words_of(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield the words of `text` in order, each with where it begins and ends there.

    Rare signs of which `words_of` makes letters, such as ™, are left out.
    """
    for span in _SPAN.finditer(text):
        for word in words_of(span[0]):
            yield word, span.start(), span.end()


def terms_of(text: str) -> list[Term]:
    """Return the terms of a search, which must all be found: words, "words in a row" and prefix*.

    With fewer than MIN_PREFIX_CHARACTERS before the star, the text is a whole word.
    """
    terms = []
    for phrase, star, word in _TERM.findall(text):
        if words := words_of(phrase or word):
            has_star = bool(star) or (phrase or word).endswith("*")
            is_prefix = has_star and len(words[-1]) >= MIN_PREFIX_CHARACTERS
            terms.append(Term(tuple(words), is_prefix))
    return list(dict.fromkeys(terms))[:MAX_TERMS]
