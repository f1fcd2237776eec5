"""Which new content of a class is an earlier one with another label, hint, answer or spelling. Part
of sync."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from typing import Any

from environments.display.text_comparison import as_read, as_same, question_of

MIN_TEXT_CHARACTERS = 12
"""Where a question has a value that is written so long, what is left of it has one, too: a level
alone tells little."""
Member = tuple[str, str]
Question = frozenset[Member]
_written = json.JSONEncoder(sort_keys=True).encode


def new_versions(
    wanted: Mapping[str, Sequence[str]],
    gone: Mapping[str, str],
    added: Mapping[str, str],
    listed: Iterable[str],
    *,
    still: Set[str] = frozenset(),
    edits: Set[str] = frozenset(),
    beside: Callable[[Collection[str]], Collection[str]],
) -> dict[str, str]:
    """Return content that the class lists newly -> the wanted one that it is a version of, by hash.

    Two contents are versions of one task if they have the same question, or agree in all but one
    member of it, and people left no content that is as alike beside the wanted one. As many new
    ones as are as alike get a wanted one each; if they are more, all of them are versions of the
    first one, and the caller sees several copies of it.

    wanted: texts that a content had, by the hash of the content that is looked for; gone: all that
    the class lists no longer; added: contents by hash that it lists newly, in order; listed: all
    that it lists now in any split; still: those of `wanted` that it lists still, so that a new one
    is a copy beside it; edits: what people made of those; beside: returns which of some hashes
    people left beside what they decided about.
    """
    known = KnownQuestions([text for texts in wanted.values() for text in texts])
    if not any(map(known.of, added.values())):
        return {}
    others = ((content, [text]) for content, text in gone.items() if content not in wanted)
    olds, taken = known.holders(wanted.items()), set(known.holders(others))
    questions = {_hash(text): alike for text in listed if (alike := known.of(text))}
    left_alone = beside(questions.keys() - wanted.keys() - edits)
    taken.update(question for content in left_alone for question in questions[content])
    news = defaultdict[Question, list[str]](list)
    for content in added:
        if content not in left_alone and content not in edits:
            for question in questions.get(content, ()):
                news[question].append(content)
    found = dict[str, str]()
    # whole first
    for question in sorted(
        news.keys() - taken, key=lambda question: (-len(question), sorted(question))
    ):
        left = [content for content in news[question] if content not in found]
        free = [
            content
            for content in olds[question]
            if content not in still and content not in found.values()
        ]
        is_enough = len(left) <= len(free)
        found |= (
            dict(zip(left, free, strict=False))
            if is_enough
            else dict.fromkeys(left, olds[question][0])
        )
    return found


class KnownQuestions:
    """The questions of some contents, by which others are recognized. Used by sync and imports."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._members = {member for text in texts for member in _members(text)}
        self._questions = {question for text in texts for question in _questions(_members(text))}

    def of(self, text: str) -> list[Question]:
        """Return the known questions of a content, the whole one first."""
        members = _members(text)
        if len(members - self._members) > 1:
            return []
        return [question for question in _questions(members) if question in self._questions]

    def holders(
        self, contents: Iterable[tuple[str, Sequence[str]]]
    ) -> defaultdict[Question, list[str]]:
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
    """Return a text that values have in common apart from their spelling. For a text it takes a
    third of the time."""
    return f'"{as_read(value)}"' if isinstance(value, str) else _written(as_same(value))


def _questions(whole: Question) -> list[Question]:
    """Return the question, and then what is left of it without each of its members."""
    rests = [whole - {member} for member in whole if len(whole) > 1]
    if any(len(value) >= MIN_TEXT_CHARACTERS for _, value in whole):
        rests = [
            rest for rest in rests if any(len(value) >= MIN_TEXT_CHARACTERS for _, value in rest)
        ]
    return [whole, *rests] if whole else []


def apart_from_spelling(text: str) -> str:
    """Return what two contents have in common that say the same in another spelling, such as 3.0
    for 3."""
    return _written(as_same(_read(text)))


def _hash(text: str) -> str:
    """Return the content hash, as `environments.tasks.sync.content_hash` does."""
    return hashlib.sha256(_written(_read(text)).encode()).hexdigest()


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
