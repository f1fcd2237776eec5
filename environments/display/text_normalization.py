"""Compares what agents can read of tasks: the same words in another spelling, and answers in them.

A class makes the prompt from the content, so two contents with the same words give two prompts with
the same words.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from environments.invisible import without_invisible

ANSWER_NAME = re.compile(
    r"(.*_)?(answer|answers|solution|target|expected|secret|hidden|hidden_tests)"
)
"""Names of fields, in lower case, that mostly hold answers."""
MIN_LEAK_CHARACTERS = 12
"""Length from which a hidden text in a prompt cannot be a coincidence."""
_ANNOUNCED = re.compile(
    r"\b(?:answers?|solutions?|target)(?: (?:is|are|was))?\W{1,4}", re.IGNORECASE
)
"""The words before an answer that is given away."""
_LABELS = frozenset(
    ("id", "uuid", "index", "seed", "split", "source", "topic", "difficulty", "metadata")
)
"""Names of fields, in lower case, that tell tasks apart but that no prompt shows."""
_MARKS = re.compile(r"[\"'`\u2018\u2019\u201c\u201d]|(?<![.,;:!?])[.,;:!?]+(?=\s|$)")
_ANSWER = re.compile(rf"{ANSWER_NAME.pattern}|ground_truth|expected_.*|label")
_ANSWER_IN_LIST = re.compile(r"(.*_)?(answers?|solutions?)")
"""An item of a list may have a target or a source that is no answer and no label, such as an edge
of a graph."""
_LABEL = re.compile(
    r"(.*_)?(id|uid|uuid|guid|hash|index|idx|seed)|(task_)?(name|title)|split|subset|dataset|(data_)?source|topic|category"
    r"|difficulty|tags?|version|author|license|(created|updated)(_at)?|comments?|notes?|meta|metadata|extra_info"
)
"""Names of fields that are labels in most environments; in others `tells_apart` says that they are
not."""
_WORD_BREAK = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[-. ]")
_DASHES = dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"), "-")
_QUOTES = "\"'`\xab\xbb\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f\u2039\u203a\xa1\xbf"
_MARKS_OF_SENTENCES = re.compile(f"[{_QUOTES}.,;:!?\u3001\u3002]+")
_OPENING, _CLOSING = " ([{*_#\u2022", " )]}*_-"


@dataclass(slots=True)
class Words:
    """What a content says, without case, spaces, punctuation, invisible characters and fields
    without a value."""

    question: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    answers: set[str] = field(default_factory=set)
    """As they are written, because an answer may differ from another by a sign alone."""


def words_of(spec: Mapping[str, Any]) -> Words:
    """Return what the content says. Raises: RecursionError."""
    words = Words()
    _add(spec, words, words.question)
    return words


def normalized(spec: Mapping[str, Any]) -> str:
    """Return what the content says without answers and labels; with these if it says nothing else.

    Two tasks with the same text are near-duplicates; see `tells_apart`.
    """
    words = words_of(spec)
    return " ".join(words.question or words.labels)


def _add(value: Any, words: Words, texts: list[str], *, in_list: bool = False) -> None:
    """Add a value to the words. `texts`: where what is neither answer nor label belongs."""
    if isinstance(value, str):
        texts.append(_as_compared(value))
    elif isinstance(value, list):
        for item in value:
            _add(item, words, texts, in_list=True)
    elif not isinstance(value, dict):
        texts.append(str(value) if type(value) is int else json.dumps(as_same(value)))
    else:
        for name in sorted(value):
            if _is_blank(member := value[name]):
                continue
            kind = _kind_of(name)
            if in_list:
                kind = "answer" if _ANSWER_IN_LIST.fullmatch(name.lower()) else "question"
            if kind == "answer":
                words.answers.add(_as_written(member))
                continue
            own_texts = words.labels if kind == "label" else texts
            own_texts.append(name.casefold())
            count = len(own_texts)
            _add(member, words, own_texts, in_list=in_list)
            if len(own_texts) == count:  # it holds only answers
                own_texts.pop()


def _as_written(answer: Any) -> str:
    if not isinstance(answer, str):
        answer = json.dumps(as_same(answer), ensure_ascii=False, sort_keys=True)
    return without_invisible(answer).strip()


def _is_blank(value: Any) -> bool:
    if isinstance(value, str):
        return not without_invisible(value).strip()
    if isinstance(value, dict):
        return all(map(_is_blank, value.values()))
    return all(map(_is_blank, value)) if isinstance(value, list) else value is None


@lru_cache(1000)
def _kind_of(name: str) -> str:
    name = _WORD_BREAK.sub("_", name).lower()
    if _ANSWER.fullmatch(name):
        return "answer"
    return "label" if _LABEL.fullmatch(name) else "question"


def _as_compared(text: str) -> str:
    """Return a text as it is read, also without punctuation at its ends and marks that are
    repeated."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", without_invisible(text)).translate(_DASHES)
    text = text.casefold().strip()
    plain = " ".join(_MARKS_OF_SENTENCES.sub(_unless_in_word, text).split())
    return plain.lstrip(_OPENING).removeprefix("- ").rstrip(_CLOSING) or " ".join(text.split())


def _unless_in_word(match: re.Match[str]) -> str:
    """Return the marks if they are a single one within a word or a number, such as in 3.5, .5 and
    a:b."""
    marks, text, end = match[0], match.string, match.end()
    if len(marks) > 1 or marks in _QUOTES or end == len(text) or text[end] in " \n\t\r)]}*_":
        return " "
    is_first = not text[match.start() - 1 : match.start()].strip()
    return " " if is_first and text[end].isalpha() else marks


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
    if isinstance(value, dict):
        return {name: as_same(member) for name, member in value.items()}
    return value


def question_of(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of the content whose names say neither that they are answers nor that they
    are labels."""
    return {name: spec[name] for name in spec if _is_of_question(name)}


@lru_cache(1000)
def _is_of_question(name: str) -> bool:
    return name.lower() not in _LABELS and not ANSWER_NAME.fullmatch(name.lower())


def tells_apart(words: int, contents: int) -> bool:
    """Return whether what the tasks of a split say tells them apart: so many different words in so
    many contents.

    Otherwise something that no text says makes their prompts, such as a seed, and the same text
    means nothing. That many tasks are there twice is no sign of it.
    """
    return 2 * words >= contents


def readable_answer(spec: Mapping[str, Any], hidden_fields: Collection[str] = ()) -> str:
    """Return the name of an answer that one of the texts for agents `tells`; empty if none does."""
    answers, texts = dict[str, str](), list[str]()
    for name, value in spec.items():
        if name in hidden_fields or ANSWER_NAME.fullmatch(name.lower()):
            answers[name] = as_answer(value)
        elif isinstance(value, str):
            texts.append(value)
    for name, answer in answers.items():
        if answer and any(tells(text, answer) for text in texts):
            return name
    return ""


def as_answer(value: Any) -> str:
    """Return a text or a number as it would stand in a prompt; empty for other values."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    return without_invisible(str(value)).strip()


def tells(text: str, answer: str) -> bool:
    """Return whether a text gives an answer away.

    A short answer may be in a text by coincidence, so it has to follow words such as "the answer
    is".
    """
    text = without_invisible(text)
    if len(answer) >= MIN_LEAK_CHARACTERS:
        return answer in text
    # compiling a pattern for each answer takes 200 µs
    if answer not in text or _ANNOUNCED.search(text) is None:
        return False
    pattern = rf"{_ANNOUNCED.pattern}{re.escape(answer)}(?!\w)"
    return re.search(pattern, text, re.IGNORECASE) is not None
