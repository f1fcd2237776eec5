"""What agents can read of a task's content, for comparisons: the same words in another spelling, and answers in them.

A class makes the prompt from the content, so two contents with the same words give two prompts with the same words.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sized
from functools import lru_cache
from typing import Any

from environments.invisible import without_invisible

ANSWER_NAME = re.compile(r"(.*_)?(answer|answers|solution|target|expected|secret|hidden|hidden_tests)")
"""Names of fields, in lower case, that mostly hold answers."""
MIN_LEAK_CHARACTERS = 12
"""Length from which a hidden text in a prompt cannot be a coincidence."""
_ANNOUNCED = re.compile(r"\b(?:answers?|solutions?|target)(?: (?:is|are|was))?\W{1,4}", re.IGNORECASE)
"""The words before an answer that is given away."""
_LABELS = frozenset(("id", "uuid", "index", "seed", "split", "source", "topic", "difficulty", "metadata"))
"""Names of fields, in lower case, that tell tasks apart but that no prompt shows."""
_MARKS = re.compile(r"[\"'`\u2018\u2019\u201c\u201d]|[.,;:!?]+(?=\s|$)")


def normalized(spec: Mapping[str, Any]) -> str:
    """Return the content without answers, labels, case, spaces, invisible characters, and punctuation of words.

    Two tasks with the same text are near-duplicates; see `tells_apart`.
    """
    question = question_of(spec)
    return as_read(" ".join(_words({name: question[name] for name in sorted(question)})))


def as_read(text: str) -> str:
    """Return a text without case, spaces, invisible characters, and punctuation of words."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", without_invisible(text))
    return " ".join(_MARKS.sub(" ", text.casefold()).split())


def as_same(value: Any) -> Any:
    """Return a JSON value with its texts as they are read, and 3.0 as 3."""
    if isinstance(value, str):
        return as_read(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [as_same(item) for item in value]
    return {name: as_same(member) for name, member in value.items()} if isinstance(value, dict) else value


def question_of(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of the content whose names say neither that they are answers nor that they are labels."""
    return {name: spec[name] for name in spec if _is_of_question(name)}


@lru_cache(1000)
def _is_of_question(name: str) -> bool:
    return name.lower() not in _LABELS and not ANSWER_NAME.fullmatch(name.lower())


def answers_of(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of the content whose names say that they are answers."""
    return {name: spec[name] for name in spec if ANSWER_NAME.fullmatch(name.lower())}


def tells_apart(tasks: Mapping[Any, Sized]) -> bool:
    """Return whether normalized contents tell the tasks of a split apart: most contents have one task.

    Otherwise something that no text says makes their prompts, such as a seed, and the same text means nothing.
    """
    return 2 * len(tasks) > sum(map(len, tasks.values()))


def _words(value: Any) -> Iterator[str]:
    """Yield the names and values of the content, one after the other."""
    if isinstance(value, dict):
        for name, member in value.items():
            yield name
            yield from _words(member)
    elif isinstance(value, list):
        for item in value:
            yield from _words(item)
    else:
        yield value if isinstance(value, str) else json.dumps(as_same(value))


def readable_answer(spec: Mapping[str, Any], hidden: Collection[str] = ()) -> str:
    """Return the name of an answer that a text that agents get `tells`; empty if none does."""
    shown = [value for name, value in spec.items() if isinstance(value, str) and not _is_hidden(name, hidden)]
    for name, value in spec.items():
        answer = as_answer(value) if _is_hidden(name, hidden) else ""
        if answer and any(tells(text, answer) for text in shown):
            return name
    return ""


def as_answer(value: Any) -> str:
    """Return a text or a number as it would stand in a prompt; empty for other values."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    return without_invisible(str(value)).strip()


def tells(text: str, answer: str) -> bool:
    """Return whether a text gives an answer away.

    A short answer may be in a text by coincidence, so it has to follow words such as "the answer is".
    """
    text = without_invisible(text)
    if len(answer) >= MIN_LEAK_CHARACTERS:
        return answer in text
    if answer not in text or _ANNOUNCED.search(text) is None:  # compiling a pattern for each answer takes 200 µs
        return False
    return re.search(rf"{_ANNOUNCED.pattern}{re.escape(answer)}(?!\w)", text, re.IGNORECASE) is not None


def _is_hidden(name: str, hidden: Collection[str]) -> bool:
    return name in hidden or ANSWER_NAME.fullmatch(name.lower()) is not None
