"""Snippets: where in the transcripts of the episodes of a page the terms of a search are.

They are made from the transcripts when a page is shown, because the index has no text. What is read
for a page is bounded: the database looks for the terms in MAX_STEPS, and further steps are read
only of episodes in which it finds nothing, such as where a term is in a large output. Then follow
prompts and uploaded messages. An episode whose match is not found so has no snippet.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import accumulate, pairwise
from operator import and_, or_
from typing import Any, Generic, TypeVar

from django.db import connection
from django.db.models import BooleanField, Func, Min, Q, QuerySet, Value
from django.db.models.functions import Lower

from environments.database.folding import is_foreign
from environments.display.parts import read_json
from environments.display.visible import visible
from episodes.models import Episode, Rollout, RolloutMessage, Step
from episodes.rendering.ansi import plain
from episodes.search.documents import (
    CALLS,
    MESSAGE_FACTS,
    STEP_FACTS,
    BlobTexts,
    SearchDocument,
    pieces_of,
    texts_in,
    texts_of_step,
)
from episodes.search.words import MAX_CHARACTERS, Term, placed_words_of, terms_of, words_of

MAX_STEPS = 10_000
"""Steps of the episodes of a page in which the database looks for terms."""
MAX_TERMS_LOOKED_FOR, MAX_WORDS_OF_TERM = 8, 3
"""Number of terms, and of words of a phrase, that the database looks for."""
MAX_STEPS_READ = 1_000
"""Further steps that are read."""
MAX_CHARACTERS_READ = 2 * 1024 * 1024
"""Number of characters of steps that are read, once for those that the database finds and once for
others."""
CHARACTERS_BEFORE, CHARACTERS_AFTER = 60, 180
"""Length of a snippet before the first match and from there on."""
_MAX_MATCHES = 200
"""Matches in one text that are compared to find the best place."""
_BLANKS = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class SnippetPiece:
    text: str
    is_match: bool


@dataclass(frozen=True, slots=True)
class Snippet:
    pieces: Sequence[SnippetPiece]
    terms: int
    """Number of different terms in it."""
    step: int | None = None
    """Index of the step; None for the prompt and for messages."""
    message: RolloutMessage | None = None
    """The uploaded message, without its content; None for steps and prompts."""

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces)

    @property
    def matches(self) -> list[tuple[int, int]]:
        """Where each match begins and ends in `text`."""
        ends = list(accumulate((len(piece.text) for piece in self.pieces), initial=0))
        return [
            span for piece, span in zip(self.pieces, pairwise(ends), strict=True) if piece.is_match
        ]


def snippets_of(episodes: Sequence[Episode], text: str) -> dict[int, Snippet]:
    """Return snippets by the id of the episode. Six queries at most, and one for each blob that is
    read."""
    if not (terms := terms_of(text)):
        return {}
    snippets = _in_steps(_steps_with(terms, _first(episodes, MAX_STEPS)), terms)

    def rest() -> list[Episode]:
        return [episode for episode in episodes if episode.pk not in snippets]

    if ids := _first(rest(), MAX_STEPS_READ):
        snippets |= _in_steps(Step.objects.filter(episode__in=ids), terms)
    snippets |= _in_prompts(rest(), terms)
    if ids := [episode.pk for episode in rest()]:
        rollouts = Rollout.objects.filter(episode__in=ids)
        snippets |= _in_messages(rollouts, "episode_id", terms, has_calls=False)
    return snippets


def snippets_of_rollouts(rollouts: Sequence[Rollout], text: str) -> dict[int, Snippet]:
    """Return snippets of uploaded messages by the id of the rollout. Two queries, and one for each
    blob."""
    terms = terms_of(text)
    if not terms or not rollouts:
        return {}
    rows = Rollout.objects.filter(pk__in=[rollout.pk for rollout in rollouts])
    return _in_messages(rows, "pk", terms, has_calls=True)


def _first(episodes: Iterable[Episode], most: int) -> list[int]:
    """Return the ids of the episodes that have up to `most` steps together, without those that
    would be too many."""
    ids = list[int]()
    for episode in episodes:
        if (calls := episode.steps_count + episode.refused_count) <= most:
            ids.append(episode.pk)
            most -= calls
    return ids


def _steps_with(terms: Sequence[Term], episodes: Collection[int]) -> QuerySet[Step]:
    """Return the first step with all terms of each episode, and the first with any, as far as the
    database can tell."""
    conditions = [_contains(term) for term in terms[:MAX_TERMS_LOOKED_FOR]]
    by_term = [condition for condition in conditions if condition is not None]
    if not episodes or not by_term:
        return Step.objects.none()
    rows = Step.objects.filter(reduce(or_, by_term), episode__in=episodes).order_by()
    firsts = (
        rows.values("episode")
        .annotate(all=Min("pk", filter=reduce(and_, by_term)), any=Min("pk"))
        .values_list("all", "any")
    )
    return Step.objects.filter(pk__in={pk for pair in firsts for pk in pair if pk is not None})


def _contains(term: Term) -> Q | None:
    """Return the condition that a step may contain `term`: its longest words that are ASCII; None
    if it has none."""
    words = {word for word in term.words if word.isascii()}
    conditions = []
    for word in sorted(words, key=lambda word: (-len(word), word))[:MAX_WORDS_OF_TERM]:
        is_last = term.is_prefix and word == term.words[-1]
        conditions.append(_has(word, is_prefix=is_last or len(word) == MAX_CHARACTERS))
    return reduce(and_, conditions) if conditions else None


def _has(word: str, *, is_prefix: bool) -> Q:
    """Return the condition that a step may contain `word`.

    It has to end there, so that "test" is not looked for in all "tests". A letter of JSON may
    precede it.
    """
    operator, pattern = " ~ ", f"{word}[^a-z0-9]"
    if connection.vendor == "sqlite":
        operator, pattern = " GLOB ", f"*{pattern}*"
    condition = Q(tool__icontains=word) | Q(error__icontains=word)
    for column in ("input", "output"):
        if is_prefix:
            condition |= Q(**{f"{column}__icontains": word})
        else:
            condition |= Q(
                Func(
                    Lower(column),
                    Value(pattern),
                    template="(%(expressions)s)",
                    arg_joiner=operator,
                    output_field=BooleanField(),
                )
            )
    return condition


KeyT = TypeVar("KeyT", int, str)


class _Reading(Generic[KeyT]):
    """The best snippet of each subject of texts, of which up to MAX_CHARACTERS_READ are read."""

    def __init__(self, terms: Sequence[Term]) -> None:
        self.terms = terms
        self.snippets: dict[KeyT, Snippet] = {}
        self.blobs = BlobTexts()
        self._room = MAX_CHARACTERS_READ

    @property
    def is_over(self) -> bool:
        return self._room < 0

    def read(self, subject: KeyT, texts: Iterable[str], **place: Any) -> None:
        """Read texts of a subject. `place`: fields of its snippet."""
        for text in texts:
            self._room -= len(text)
            snippet, best = snippet_in(text, self.terms), self.snippets.get(subject)
            if snippet and (best is None or snippet.terms > best.terms):
                self.snippets[subject] = replace(snippet, **place)


def _in_steps(steps: QuerySet[Step], terms: Sequence[Term]) -> dict[int, Snippet]:
    """Return the best snippet of each episode in `steps`."""
    reading = _Reading[int](terms)
    for step in steps.order_by("episode_id", "index").values_list(*STEP_FACTS).iterator(100):
        episode, index = step[:2]
        best = reading.snippets.get(episode)
        if best is None or best.terms < len(terms):
            texts = texts_of_step(step, SearchDocument(episode), reading.blobs)
            reading.read(episode, texts, step=index)
        if reading.is_over:
            break
    return reading.snippets


def _in_prompts(episodes: Sequence[Episode], terms: Sequence[Term]) -> dict[int, Snippet]:
    """Return the best snippet of each prompt."""
    reading = _Reading[str](terms)
    for digest in dict.fromkeys(episode.prompt_id for episode in episodes if episode.prompt_id):
        prompt = reading.blobs.read(SearchDocument(0), digest)
        reading.read(digest, texts_in(read_json(prompt)))
        if reading.is_over:
            break
    snippets = reading.snippets
    return {
        episode.pk: snippets[episode.prompt_id]
        for episode in episodes
        if episode.prompt_id in snippets
    }


def _in_messages(
    rows: QuerySet[Rollout], key: str, terms: Sequence[Term], *, has_calls: bool
) -> dict[int, Snippet]:
    """Return the best snippet of the messages of `rows`, by their column `key`. `has_calls`: also
    of calls and results.

    Reads the messages of rollouts that have up to MAX_STEPS messages together.
    """
    subjects, room = dict[int, int](), MAX_STEPS
    for pk, subject, count in rows.order_by("-pk").values_list("pk", key, "messages_count"):
        if count <= room:
            subjects[pk] = subject
            room -= count
    messages = RolloutMessage.objects.filter(_may_contain(terms), rollout__in=subjects)
    if not has_calls:
        messages = messages.exclude(kind__in=CALLS)
    messages = messages.order_by("rollout_id", "index", "pk").only("index", *MESSAGE_FACTS)
    reading, document = _Reading[int](terms), SearchDocument(0)
    for message in messages.iterator(100):
        summary = reading.blobs.read(document, message.summary_blob_id, message.summary)
        content = reading.blobs.read(document, message.content_blob_id, message.content)
        subject = subjects[message.rollout_id]
        reading.read(subject, (message.name, summary, content), message=message)
        if reading.is_over:
            break
    return reading.snippets


def _may_contain(terms: Sequence[Term]) -> Q:
    """Return the condition that a message may contain a term: the longest word of one, letters that
    a database cannot fold, or a large text.
    """
    by_term = [[word for word in term.words if word.isascii()] for term in terms]
    words = [max(words, key=len) for words in by_term if words][:MAX_TERMS_LOOKED_FOR]
    if not words:
        return Q()
    condition = Q(content_blob__isnull=False) | Q(summary_blob__isnull=False)
    for column in ("name", "content", "summary"):
        condition |= is_foreign(column)
        for word in words:
            condition |= Q(**{f"{column}__icontains": word})
    return condition


# --- one text -------------------------------------------------------------------------------------


def snippet_in(text: str, terms: Sequence[Term]) -> Snippet | None:
    """Return the part of `text` with the most different terms, as it is read; None if it has
    none."""
    words = {term.words[0] for term in terms if len(term.words) > 1 or not term.is_prefix}
    prefixes = tuple(term.words[0] for term in terms if len(term.words) == 1 and term.is_prefix)
    for piece in pieces_of(plain(text)):
        in_piece = set(words_of(piece))
        if words.isdisjoint(in_piece) and not any(word.startswith(prefixes) for word in in_piece):
            continue
        if places := _places(piece, terms):
            return _snippet(piece, places)
    return None


def _places(text: str, terms: Sequence[Term]) -> list[tuple[int, int, Term]]:
    """Return where terms begin and end in `text`, in order."""
    spans = list(placed_words_of(text))
    words = [word for word, _, _ in spans]
    places = list[tuple[int, int, Term]]()
    for number, (_, start, _) in enumerate(spans):
        for term in terms:
            *first, last = term.words
            end = number + len(first)
            if end < len(spans) and words[number:end] == first:
                word = words[end]
                if word == last or (term.is_prefix and word.startswith(last)):
                    places.append((start, spans[end][2], term))
        if len(places) >= _MAX_MATCHES:
            break
    return places


def _snippet(text: str, places: Sequence[tuple[int, int, Term]]) -> Snippet:
    def terms_from(start: int) -> int:
        limit = start + CHARACTERS_AFTER
        return len({term for begin, end, term in places if begin >= start and end <= limit})

    best = max((begin for begin, _, _ in places), key=terms_from)
    start, end = max(0, best - CHARACTERS_BEFORE), best + CHARACTERS_AFTER
    # a snippet begins with a whole word
    if start and (blank := _BLANKS.search(text, start, best)):
        start = blank.end()
    at, pieces = start, [("\u2026 ", False)] if start else []
    for begin, finish, _ in places:
        if at <= begin and finish <= end:
            pieces += [(text[at:begin], False), (text[begin:finish], True)]
            at = finish
    rest = text[at:end]
    if end < len(text):
        rest = f"{rest.rpartition(' ')[0] or rest} \u2026"
    pieces.append((rest, False))
    return Snippet(
        [
            SnippetPiece(_BLANKS.sub(" ", visible(piece)), is_match)
            for piece, is_match in pieces
            if piece
        ],
        terms_from(best),
    )
