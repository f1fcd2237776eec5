"""Terms: how a transcript's texts, and what people search for in them, are cut into words. The same on every database.

Databases cut texts each in its own way (PostgreSQL's parser takes `a/b.txt` for one path, SQLite's for three words), so
both get words that were cut here and differ in nothing that they find.

A word is a run of letters and digits, in lower case and without accents; a character of a script that writes no blanks
between words is one by itself. Everything else separates, so `file_name.txt` is three words in a row.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

MAX_CHARACTERS = 64
"""Of a word; what is longer is known by its beginning."""
SHORTEST_PREFIX = 3
"""Characters; what begins with fewer is too much to be read (one letter among 1,000,000 documents: 7 s)."""
MAX_TERMS = 32
"""Of one search; what follows is left out."""

_ALONE = "\u2e80-\u2fff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(rf"[{_ALONE}]|[^\W_{_ALONE}]+")
_ASCII_WORD = re.compile("[a-z0-9]+")
_ACCENT = re.compile("[\u0300-\u036f]")
_TERM = re.compile(r'"([^"]*)(?:"(\*?)|$)|([^\s"]+)')


@dataclass(frozen=True, slots=True)
class Term:
    """Words that have to follow each other."""

    words: tuple[str, ...]
    """At least one; letters and digits only."""
    is_prefix: bool = False
    """Whether the last word may go on."""


def words_of(text: str) -> list[str]:
    """In order. Each consists of letters and digits alone, so it needs no quoting anywhere."""
    if text.isascii():
        found = _ASCII_WORD.findall(text.lower())
    else:
        plain = _ACCENT.sub("", unicodedata.normalize("NFKD", text).casefold())
        found = _WORD.findall(unicodedata.normalize("NFC", plain))
    return [word[:MAX_CHARACTERS] for word in found]


def terms_of(text: str) -> list[Term]:
    """What `text` asks for: words, "words in a row", begin*. All have to be found; empty: it names none.

    Fewer than SHORTEST_PREFIX characters before a star are a whole word.
    """
    terms = []
    for quoted, star, bare in _TERM.findall(text):
        if words := words_of(quoted or bare):
            has_star = bool(star) or (quoted or bare).endswith("*")
            terms.append(Term(tuple(words), is_prefix=has_star and len(words[-1]) >= SHORTEST_PREFIX))
    return list(dict.fromkeys(terms))[:MAX_TERMS]
