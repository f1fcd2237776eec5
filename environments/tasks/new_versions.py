"""Which new content of a class is an earlier one with another label, hint, answer or spelling. Part of sync."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from environments.display.text_comparison import as_read, as_same, question_of

MIN_TEXT_CHARACTERS = 12
"""Where a question has a value that is written so long, what is left of it has one, too: a level alone tells little."""
Member = tuple[str, str]
Question = frozenset[Member]
_written = json.JSONEncoder(sort_keys=True).encode


def new_versions(
    wanted: Mapping[str, Sequence[str]], gone: Mapping[str, str], added: Mapping[str, str], listed: Iterable[str]
) -> dict[str, str]:
    """Return earlier hash -> hash of the content that the class lists instead, where there is one.

    Two contents are versions of one task if they have the same question, or agree in all but one member of it, and the
    class has no other content, earlier or now, that is as alike. Several that are wanted may be as alike; then the new
    ones are versions of the first of them.

    wanted: texts that a content had, by the hash of the content that is looked for; gone: all that the class lists no
    longer; added: contents by hash that it lists newly; listed: all that it lists now.
    """
    known = _Known([text for texts in wanted.values() for text in texts])
    news = known.holders((content, [text]) for content, text in added.items())
    if not news:
        return {}
    others = ((content, [text]) for content, text in gone.items() if content not in wanted)
    olds, taken = known.holders(wanted.items()), set(known.holders(others))
    own = {_identity(text) for texts in [*wanted.values(), added.values()] for text in texts}
    for text in listed:
        if (questions := known.of(text)) and _identity(text) not in own:
            taken.update(questions)
    found = dict[str, str]()
    for question in sorted(news, key=len, reverse=True):  # the whole ones first
        left = [content for content in news[question] if content not in found.values()]
        free = [content for content in olds[question] if content not in found]
        if question not in taken and len(left) <= len(free):
            found |= zip(free, left, strict=False)
    return found


class _Known:
    """The questions of some contents."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._members = {member for text in texts for member in _members(text)}
        self._questions = {question for text in texts for question in _questions(_members(text))}

    def of(self, text: str) -> list[Question]:
        """Return the known questions of a content, the whole one first."""
        members = _members(text)
        if len(members - self._members) > 1:
            return []
        return [question for question in _questions(members) if question in self._questions]

    def holders(self, contents: Iterable[tuple[str, Sequence[str]]]) -> defaultdict[Question, list[str]]:
        """Return question -> the contents that have it, in order."""
        found = defaultdict[Question, list[str]](list)
        for content, texts in contents:
            for question in {question for text in texts for question in self.of(text)}:
                found[question].append(content)
        return found


def _members(text: str) -> Question:
    """Return the members of the question of a content, apart from their spelling."""
    spec = _read(text)
    if not isinstance(spec, dict):
        return frozenset()
    return frozenset((name, _value(value)) for name, value in question_of(spec).items())


def _value(value: Any) -> str:
    """Return a text that values have in common apart from their spelling. For a text it takes a third of the time."""
    return f'"{as_read(value)}"' if isinstance(value, str) else _written(as_same(value))


def _questions(whole: Question) -> list[Question]:
    """Return the question, and then what is left of it without each of its members."""
    rests = [whole - {member} for member in whole if len(whole) > 1]
    if any(len(value) >= MIN_TEXT_CHARACTERS for _, value in whole):
        rests = [rest for rest in rests if any(len(value) >= MIN_TEXT_CHARACTERS for _, value in rest)]
    return [whole, *rests] if whole else []


def apart_from_spelling(text: str) -> str:
    """Return what two contents have in common that say the same in another spelling, such as 3.0 for 3."""
    return _written(as_same(_read(text)))


def _identity(text: str) -> str:
    return _written(_read(text))


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
