"""Which new content of a class is an earlier one with another label, hint or answer. Part of sync."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from environments.display.text_comparison import question_of

MIN_TEXT_CHARACTERS = 12
"""Where a question has a value that is written so long, what is left of it has one, too: a level alone tells little."""
Question = frozenset[tuple[str, str]]


def new_versions(
    wanted: Mapping[str, str], gone: Mapping[str, str], added: Mapping[str, str], listed: Iterable[str]
) -> dict[str, str]:
    """Return earlier hash -> hash of the content that the class lists instead, where there is one.

    Two contents are versions of one task if they have the same question, or agree in all but one member of it, and no
    other content of the class, earlier or now, is as alike.

    wanted: contents by hash that are looked for; gone: all that the class lists no longer; added: those that it lists
    newly; listed: all that it lists now.
    """
    questions = {content: _questions(text) for content, text in wanted.items()}
    known = {question for some in questions.values() for question in some}
    news = _holders(added, known)
    if not news:
        return {}
    olds = _holders(gone, known)
    counts = Counter(question for text in listed for question in known.intersection(_questions(text)))
    found = dict[str, str]()
    for content, some in questions.items():
        for question in some:
            if counts[question] == 1 and len(olds[question]) == 1 and len(news[question]) == 1:
                [new] = news[question]
                if new not in found.values():
                    found[content] = new
                    break
    return found


def _holders(contents: Mapping[str, str], known: set[Question]) -> dict[Question, set[str]]:
    found = defaultdict[Question, set[str]](set)
    for content, text in contents.items():
        for question in known.intersection(_questions(text)):
            found[question].add(content)
    return found


def _questions(text: str) -> list[Question]:
    """Return the question of a content, and then what is left of it without each of its members."""
    try:
        spec = json.loads(text)
    except (ValueError, RecursionError):
        return []
    members = question_of(spec) if isinstance(spec, dict) else {}
    whole = frozenset((name, json.dumps(value, sort_keys=True)) for name, value in members.items())
    rests = [whole - {member} for member in whole if len(whole) > 1]
    if any(len(value) >= MIN_TEXT_CHARACTERS for _, value in whole):
        rests = [rest for rest in rests if any(len(value) >= MIN_TEXT_CHARACTERS for _, value in rest)]
    return [whole, *rests] if whole else []
