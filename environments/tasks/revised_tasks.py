"""Recognizes new content of a class that is earlier content with another label, hint, answer or
spelling. Part of sync."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from typing import Any

from environments.display.text_normalization import as_read, as_same, question_of
from environments.models.task_hash import content_hash

MIN_TEXT_CHARACTERS = 12
"""Where a question has a value as long as this, what is left of it must have one, too: a level
alone tells little."""
Member = tuple[str, str]
Question = frozenset[Member]
_encode = json.JSONEncoder(sort_keys=True).encode


def new_versions(
    olds: Mapping[str, Sequence[str]],
    dropped_texts: Mapping[str, str],
    new_texts: Mapping[str, str],
    class_texts: Iterable[str],
    *,
    still: Set[str] = frozenset(),
    edits: Set[str] = frozenset(),
    beside: Callable[[Collection[str]], Collection[str]],
) -> dict[str, str]:
    """Return hash of new content -> hash of the old content that it is a version of.

    Two contents are versions of one task if they have the same question, or agree in all but one
    member of it, and people left no content that is as alike beside the old one. Of several equally
    alike new ones each gets an old one; if there are too few, all are versions of the first, and
    the caller sees several copies of it.

    olds: hash of a content that is looked for -> the texts that it had; dropped_texts: all that the
    class lists no longer, by hash; new_texts: contents by hash that it lists newly, in order;
    class_texts: all that it lists now in any split; still: those of `olds` that it still lists, so
    that a new one is a copy beside it; edits: what people made of those; beside: returns which of
    some hashes people left beside what they decided about.
    """
    questions = KnownQuestions([text for texts in olds.values() for text in texts])
    if not any(map(questions.of, new_texts.values())):
        return {}
    others = [(content, [text]) for content, text in dropped_texts.items() if content not in olds]
    holders, other_questions = questions.holders(olds.items()), set(questions.holders(others))
    by_content = {
        content_hash(text): alike for text in class_texts if (alike := questions.of(text))
    }
    left_alone = beside(by_content.keys() - olds.keys() - edits)
    other_questions.update(question for content in left_alone for question in by_content[content])
    news = defaultdict[Question, list[str]](list)
    for content in new_texts:
        if content not in left_alone and content not in edits:
            for question in by_content.get(content, ()):
                news[question].append(content)
    versions = dict[str, str]()
    # whole questions first
    for question in sorted(
        news.keys() - other_questions, key=lambda question: (-len(question), sorted(question))
    ):
        copies = [content for content in news[question] if content not in versions]
        free = [
            content
            for content in holders[question]
            if content not in still and content not in versions.values()
        ]
        if len(copies) <= len(free):
            versions |= zip(copies, free, strict=False)
        else:
            versions |= dict.fromkeys(copies, holders[question][0])
    return versions


class KnownQuestions:
    """The questions of some contents, by which others are recognized."""

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
        holders = defaultdict[Question, list[str]](list)
        for content, texts in contents:
            for question in {question for text in texts for question in self.of(text)}:
                holders[question].append(content)
        return holders


def _members(text: str) -> Question:
    """Return the members of the question of a content, apart from their spelling."""
    spec = _read(text)
    if not isinstance(spec, dict):
        return frozenset()
    return frozenset((name, _value(value)) for name, value in question_of(spec).items())


def _value(value: Any) -> str:
    """Return a text that values have in common apart from their spelling. For a text it takes a
    third of the time."""
    return f'"{as_read(value)}"' if isinstance(value, str) else _encode(as_same(value))


def _questions(whole: Question) -> list[Question]:
    """Return the question, and then what is left of it without each of its members."""
    rests = [whole - {member} for member in whole if len(whole) > 1]
    if _has_text(whole):
        rests = [*filter(_has_text, rests)]
    return [whole, *rests] if whole else []


def _has_text(question: Question) -> bool:
    return any(len(value) >= MIN_TEXT_CHARACTERS for _, value in question)


def apart_from_spelling(text: str) -> str:
    """Return what two contents have in common that say the same in another spelling, such as 3.0
    for 3."""
    return _encode(as_same(_read(text)))


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
