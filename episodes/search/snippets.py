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
from operator import and_, or_

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
    step: int | None
    """Index of the step; None for the prompt and for messages."""
    pieces: Sequence[SnippetPiece]
    terms: int
    """Number of different terms in it."""
    message: RolloutMessage | None = None
    """The uploaded message, without its content; None for steps and prompts."""

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces)

    @property
    def matches(self) -> list[tuple[int, int]]:
        """Where each match begins and ends in `text`."""
        found, end = list[tuple[int, int]](), 0
        for piece in self.pieces:
            start, end = end, end + len(piece.text)
            if piece.is_match:
                found.append((start, end))
        return found


def snippets_of(episodes: Sequence[Episode], text: str) -> dict[int, Snippet]:
    """Return snippets by the id of the episode. Six queries at most, and one for each blob that is
    read."""
    if not (terms := terms_of(text)):
        return {}
    found = _in_steps(_steps_with(terms, _first(episodes, MAX_STEPS)), terms)
    rest = [one for one in episodes if one.pk not in found]
    if further := _first(rest, MAX_STEPS_READ):
        found |= _in_steps(Step.objects.filter(episode__in=further), terms)
    found |= _in_prompts([one for one in rest if one.pk not in found], terms)
    if left := [one.pk for one in rest if one.pk not in found]:
        found |= _in_messages(
            Rollout.objects.filter(episode__in=left), "episode_id", terms, has_calls=False
        )
    return found


def snippets_of_rollouts(rollouts: Sequence[Rollout], text: str) -> dict[int, Snippet]:
    """Return snippets of uploaded messages by the id of the rollout. Two queries, and one for each
    blob."""
    rows, terms = (
        Rollout.objects.filter(pk__in=[rollout.pk for rollout in rollouts]),
        terms_of(text),
    )
    return _in_messages(rows, "pk", terms, has_calls=True) if terms and rollouts else {}


def _first(episodes: Iterable[Episode], most: int) -> list[int]:
    """Return the ids of the episodes that have up to `most` steps together, without those that
    would be too many."""
    ids = list[int]()
    for one in episodes:
        if (calls := one.steps_count + one.refused_count) <= most:
            ids.append(one.pk)
            most -= calls
    return ids


def _steps_with(terms: Sequence[Term], episodes: Collection[int]) -> QuerySet[Step]:
    """Return the first step with all terms of each episode, and the first with any, as far as the
    database can tell."""
    by_term = [one for term in terms[:MAX_TERMS_LOOKED_FOR] if (one := _contains(term)) is not None]
    if not episodes or not by_term:
        return Step.objects.none()
    rows = (
        Step.objects.filter(reduce(or_, by_term), episode__in=episodes).order_by().values("episode")
    )
    firsts = rows.annotate(all=Min("pk", filter=reduce(and_, by_term)), any=Min("pk")).values_list(
        "all", "any"
    )
    return Step.objects.filter(pk__in={pk for pair in firsts for pk in pair if pk is not None})


def _contains(term: Term) -> Q | None:
    """Return the condition that a step may contain `term`: its longest words that are ASCII; None
    if it has none."""
    last, known = term.words[-1], {word for word in term.words if word.isascii()}
    longest = sorted(known, key=lambda word: (-len(word), word))[:MAX_WORDS_OF_TERM]
    each = [
        _has(word, is_prefix=len(word) == MAX_CHARACTERS or (term.is_prefix and word == last))
        for word in longest
    ]
    return reduce(and_, each) if each else None


def _has(word: str, *, is_prefix: bool) -> Q:
    """Return the condition that a step may contain `word`.

    It has to end there, so that "test" is not looked for in all "tests". A letter of JSON may
    precede it.
    """
    operator, pattern = (
        ("GLOB", f"*{word}[^a-z0-9]*")
        if connection.vendor == "sqlite"
        else ("~", f"{word}[^a-z0-9]")
    )
    found = Q(tool__icontains=word) | Q(error__icontains=word)
    for column in ("input", "output"):
        if is_prefix:
            found |= Q(**{f"{column}__icontains": word})
            continue
        parts = Lower(column), Value(pattern)
        found |= Q(
            Func(
                *parts,
                template="(%(expressions)s)",
                arg_joiner=f" {operator} ",
                output_field=BooleanField(),
            )
        )
    return found


def _in_steps(steps: QuerySet[Step], terms: Sequence[Term]) -> dict[int, Snippet]:
    """Return the best snippet of each episode in `steps`, of which up to MAX_CHARACTERS_READ are
    read."""
    found, blobs, left = dict[int, Snippet](), BlobTexts(), MAX_CHARACTERS_READ
    for step in steps.order_by("episode_id", "index").values_list(*STEP_FACTS).iterator(100):
        episode, index = step[:2]
        known = found.get(episode)
        if known and known.terms == len(terms):
            continue
        for text in texts_of_step(step, SearchDocument(episode), blobs):
            left -= len(text)
            one = snippet_in(text, terms, index)
            if one and (not (known := found.get(episode)) or one.terms > known.terms):
                found[episode] = one
        if left < 0:
            break
    return found


def _in_prompts(episodes: Sequence[Episode], terms: Sequence[Term]) -> dict[int, Snippet]:
    """Return the best snippet of each prompt, of which up to MAX_CHARACTERS_READ are read."""
    blobs, found, left = BlobTexts(), dict[str, Snippet](), MAX_CHARACTERS_READ
    for digest in {one.prompt_id: None for one in episodes if one.prompt_id}:
        prompt = blobs.read(SearchDocument(0), digest)
        texts = texts_in(read_json(prompt))
        if each := [one for text in texts if (one := snippet_in(text, terms))]:
            found[digest] = max(each, key=lambda one: one.terms)
        left -= len(prompt)
        if left < 0:
            break
    return {one.pk: found[one.prompt_id] for one in episodes if one.prompt_id in found}


def _in_messages(
    rows: QuerySet[Rollout], key: str, terms: Sequence[Term], *, has_calls: bool
) -> dict[int, Snippet]:
    """Return the best snippet of the messages of `rows`, by their column `key`. `has_calls`: also
    of calls and results.

    Reads up to MAX_CHARACTERS_READ of the messages of rollouts that have up to MAX_STEPS messages
    together.
    """
    subjects, room = dict[int, int](), MAX_STEPS
    for pk, subject, count in rows.order_by("-pk").values_list("pk", key, "messages_count"):
        if count <= room:
            subjects[pk] = subject
            room -= count
    messages = RolloutMessage.objects.filter(_may_contain(terms), rollout__in=subjects)
    messages = messages if has_calls else messages.exclude(kind__in=CALLS)
    found, blobs, left = dict[int, Snippet](), BlobTexts(), MAX_CHARACTERS_READ
    for one in (
        messages.order_by("rollout_id", "index", "pk").only("index", *MESSAGE_FACTS).iterator(100)
    ):
        subject, document = subjects[one.rollout_id], SearchDocument(0)
        content = blobs.read(document, one.content_blob_id, one.content)
        for text in (one.name, blobs.read(document, one.summary_blob_id, one.summary), content):
            left -= len(text)
            snippet = snippet_in(text, terms)
            if snippet and (not (known := found.get(subject)) or snippet.terms > known.terms):
                found[subject] = replace(snippet, message=one)
        if left < 0:
            break
    return found


def _may_contain(terms: Sequence[Term]) -> Q:
    """Return the condition that a message may contain a term: the longest word of one, letters that
    a database cannot fold, or a large text.
    """
    longest = [
        max((word for word in term.words if word.isascii()), key=len, default="") for term in terms
    ]
    words = list(filter(None, longest))[:MAX_TERMS_LOOKED_FOR]
    columns = ("name", "content", "summary")
    holds = reduce(
        or_, (Q(**{f"{column}__icontains": word}) for word in words for column in columns), Q()
    )
    holds |= reduce(or_, map(is_foreign, columns))
    return holds | Q(content_blob__isnull=False) | Q(summary_blob__isnull=False) if words else Q()


# --- one text -------------------------------------------------------------------------------------


def snippet_in(text: str, terms: Sequence[Term], step: int | None = None) -> Snippet | None:
    """Return the part of `text` with the most different terms, as it is read; None if it has
    none."""
    words = {term.words[0] for term in terms if len(term.words) > 1 or not term.is_prefix}
    prefixes = tuple(term.words[0] for term in terms if len(term.words) == 1 and term.is_prefix)
    for piece in pieces_of(plain(text)):
        known = set(words_of(piece))
        if words.isdisjoint(known) and not any(word.startswith(prefixes) for word in known):
            continue
        if places := _places(piece, terms):
            return _snippet(piece, places, step)
    return None


def _places(text: str, terms: Sequence[Term]) -> list[tuple[int, int, Term]]:
    """Return where terms begin and end in `text`, in order."""
    placed = list(placed_words_of(text))
    words = [word for word, _, _ in placed]
    found = list[tuple[int, int, Term]]()
    for number, (word, start, _) in enumerate(placed):
        for term in terms:
            if len(term.words) > 1 and word != term.words[0]:
                continue
            end = number + len(term.words)
            if end <= len(placed) and _is(term, words[number:end]):
                found.append((start, placed[end - 1][2], term))
        if len(found) >= _MAX_MATCHES:
            break
    return found


def _is(term: Term, words: list[str]) -> bool:
    *first, last = term.words
    return first == words[:-1] and (
        words[-1].startswith(last) if term.is_prefix else words[-1] == last
    )


def _snippet(text: str, places: Sequence[tuple[int, int, Term]], step: int | None) -> Snippet:
    def terms_from(start: int) -> int:
        return len(
            {
                term
                for begin, end, term in places
                if begin >= start and end <= start + CHARACTERS_AFTER
            }
        )

    best = max((begin for begin, _, _ in places), key=terms_from)
    start, end = _between_words(text, best - CHARACTERS_BEFORE, best), best + CHARACTERS_AFTER
    at, pieces = start, [("\u2026 ", False)] if start else []
    for begin, finish, _ in places:
        if at <= begin and finish <= end:
            pieces += [(text[at:begin], False), (text[begin:finish], True)]
            at = finish
    rest = text[at:end]
    if end < len(text):
        rest = f"{rest.rpartition(' ')[0] or rest} \u2026"
    pieces.append((rest, False))
    shown = [
        SnippetPiece(_BLANKS.sub(" ", visible(piece)), is_match)
        for piece, is_match in pieces
        if piece
    ]
    return Snippet(step, shown, terms_from(best))


def _between_words(text: str, start: int, end: int) -> int:
    """Return where the first word after `start` begins, `start` if none does before `end`."""
    blank = _BLANKS.search(text, max(0, start), end)
    return 0 if start <= 0 else blank.end() if blank else start
