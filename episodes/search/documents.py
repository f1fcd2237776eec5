"""The searchable words of the transcripts of episodes, and of uploaded messages. `index.py`,
`rollouts.py` store them.

A document of an episode holds the prompt, then for each step the name of the tool, the input, the
texts of the output and the error; then what the client uploaded about the model's side of it,
except the calls and their results. Images are left out, and terminal sequences are removed as where
texts are shown. Values that are masked in the record are masked here too.

A long document has several parts. All words of a search must be in one part, so the first part also
has the words that only later ones contain.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any

from environments.database.json_rows import rows_among
from environments.display.parts import read_json
from episodes.models import RolloutMessage
from episodes.models.blobs import texts_of_blobs
from episodes.rendering.ansi import plain
from episodes.search.words import spaced_words_of, words_of

MAX_CHARACTERS = 32 * 1024 * 1024
"""Number of characters of one document, before it is split into words."""
NEAR_CHARACTERS = 200
"""Number of characters before the end of a part in which an end between words is looked for."""
PART_CHARACTERS = 64 * 1024
"""Number of characters of one part: about as many words as PostgreSQL stores positions of
(16,383)."""
MAX_OTHER_BYTES = 256 * 1024
"""Size of the words of later parts that the first part has, too. PostgreSQL allows 1 MB with its
own words."""
MAX_BLOB_BYTES = 4 * 1024 * 1024
"""Size of a prompt, input or output; a larger one is left out, because it would have to be read
whole."""
SMALL_BLOB_BYTES = 16 * 1024
"""Blobs up to this size are read many at a time."""
MAX_STEPS_PER_QUERY = 1_000
MAX_TEXTS_AT_ONCE = 100
_EPISODES = (
    "SELECT id, steps_count + refused_count, prompt_id FROM episodes_episode WHERE id {among} "
    "ORDER BY id"
)
_ROLLOUTS = "SELECT id, episode_id FROM episodes_rollout WHERE episode_id {among}"
_STEPS = """
    SELECT episode_id, "index", tool, input, input_blob_id, output, output_blob_id, error FROM episodes_step
    WHERE "index" >= %s AND "index" < %s AND episode_id {among} ORDER BY episode_id, "index"
"""

STEP_FACTS = (
    "episode_id",
    "index",
    "tool",
    "input",
    "input_blob_id",
    "output",
    "output_blob_id",
    "error",
)
StepFacts = tuple[int, int, str, str, str | None, str, str | None, str]


@dataclass(frozen=True, slots=True)
class DocumentPart:
    """The words of one part of a document."""

    text: str
    """Words in order, with blanks between them."""
    others: Sequence[str] = ()
    """Words of the other parts, in no order."""


@dataclass(slots=True)
class SearchDocument:
    """The words of one episode or rollout."""

    subject: int
    """Id of the episode or rollout."""
    is_cut: bool = False
    """Whether some of the text is not found, because it is too long or has too many different
    words."""
    has_later_parts_written: bool = False
    """Whether all parts but the first are stored already."""
    characters_left: int = MAX_CHARACTERS
    """Number of characters that can still be added."""
    _texts: list[list[str]] = field(default_factory=lambda: [[]])
    """Words of the texts of each part, with blanks between them."""
    _unsplit: list[str] = field(default_factory=list)
    """Texts of the first part that are not split into words yet."""
    _room: int = field(default_factory=lambda: PART_CHARACTERS)
    """Number of characters that can still be added to the last part."""
    _others: dict[str, None] = field(default_factory=dict)
    """Words that only later parts contain."""
    _room_of_others: int = MAX_OTHER_BYTES
    _first: frozenset[str] = frozenset()
    """Words of the first part, once there is another one."""

    @property
    def is_full(self) -> bool:
        return self.is_cut and self.characters_left <= 0

    def add(self, text: str) -> None:
        self.add_all([text])

    def add_all(self, texts: Iterable[str]) -> None:
        """Add texts in order. Those for which the first part has room are split into words later,
        together."""
        texts = [plain(text) if "\x1b" in text else text for text in texts if text]
        size = sum(map(len, texts))
        if len(self._texts) == 1 and size <= min(self._room, self.characters_left):
            self._unsplit += texts
            self._room -= size
            self.characters_left -= size
            return
        self._split()
        for text in texts:
            self.is_cut = self.is_cut or len(text) > self.characters_left
            for piece in pieces_of(text[: self.characters_left]):
                self._add_piece(piece)
            self.characters_left -= min(len(text), self.characters_left)

    def _split(self) -> None:
        """Split the texts that wait for it into words of the first part."""
        if words := spaced_words_of("\n".join(self._unsplit)):
            self._texts[0].append(words)
        self._unsplit.clear()

    def _add_piece(self, piece: str) -> None:
        words = words_of(piece)
        if len(piece) > self._room:
            self._first = self._first or frozenset(self.parts()[0].text.split())
            self._texts.append([])
            self._room = PART_CHARACTERS
        if words:
            self._texts[-1].append(" ".join(words))
        self._room -= len(piece)
        if len(self._texts) > 1:
            self._add_others(words)

    def _add_others(self, words: Iterable[str]) -> None:
        for word in dict.fromkeys(words):
            if word not in self._first and word not in self._others:
                self._room_of_others -= len(word.encode()) + 1
                if self._room_of_others < 0:
                    self.is_cut = True
                    return
                self._others[word] = None

    def parts(self) -> list[DocumentPart]:
        """Return the parts in order, at least one."""
        self._split()
        first, *later = [" ".join(texts) for texts in self._texts]
        return [DocumentPart(first, list(self._others)), *map(DocumentPart, later)]


def pieces_of(text: str) -> Iterator[str]:
    """Yield `text` in pieces of up to PART_CHARACTERS, which end between words where one is
    near."""
    start = 0
    while start < len(text):
        end = start + PART_CHARACTERS
        if end < len(text):
            blank = max(text.rfind(blank, end - NEAR_CHARACTERS, end) for blank in " \n")
            end = blank + 1 or end
        yield text[start:end]
        start = end


def documents_of(episodes: Collection[int]) -> list[SearchDocument]:
    """Return the documents of the `episodes` that exist, in order of id."""
    facts = rows_among(_EPISODES, [], episodes)
    documents = {pk: SearchDocument(pk) for pk, _, _ in facts}
    blobs = BlobTexts()
    blobs.fetch(digest for _, _, digest in facts if digest)
    having = defaultdict[str, list[SearchDocument]](list)
    for pk, _, digest in facts:
        if digest:
            having[digest].append(documents[pk])
    for digest, group in having.items():
        prompt = texts_in(read_json(blobs.read(group[0], digest)))
        for document in group:
            document.is_cut = group[0].is_cut
            document.add_all(prompt)
    for part in _parts({pk: calls for pk, calls, _ in facts}):
        _add_steps({pk: documents[pk] for pk in part}, blobs)
    # what clients uploaded, except calls and results, which the steps hold
    if rollouts := {pk: documents[episode] for pk, episode in rows_among(_ROLLOUTS, [], documents)}:
        add_messages(rollouts, has_calls=False)
    return list(documents.values())


# --- texts of JSON values -------------------------------------------------------------------------


def texts_in(value: Any) -> list[str]:
    """Return the texts of blocks or of messages with blocks; of other values what `values_in`
    returns. Images are skipped.
    """
    if not isinstance(value, list):
        return values_in(value)
    texts = list[str]()
    for block in value:
        kind = block.get("type") if isinstance(block, dict) else None
        if kind in ("text", "reasoning"):
            _add_values(block.get("text"), texts)
        elif isinstance(block, dict) and isinstance(block.get("blocks"), list):
            texts += texts_in(block["blocks"])
        elif kind != "image":
            _add_values(block, texts)
    return texts


def values_in(value: Any) -> list[str]:
    """Return the scalars of a value as text, in order, and the names of members below the first
    level.

    The names at the first level are left out, because they belong to the tool.
    """
    texts = list[str]()
    _add_values(value, texts)
    return texts


def _add_values(value: Any, texts: list[str], depth: int = 0) -> None:
    if isinstance(value, str):
        texts.append(value)
    elif isinstance(value, dict):
        for name, member in value.items():
            if depth:
                texts.append(name)
            if isinstance(member, str):  # as most are, which saves a call for each
                texts.append(member)
            else:
                _add_values(member, texts, depth + 1)
    elif isinstance(value, list):
        for member in value:
            _add_values(member, texts, depth + 1)
    elif value is not None:
        texts.append(str(value))


# --- steps ----------------------------------------------------------------------------------------


def _parts(calls: Mapping[int, int]) -> Iterator[list[int]]:
    """Yield groups of episodes whose steps are read together: up to MAX_STEPS_PER_QUERY, or a
    single longer episode."""
    part, total = list[int](), 0
    for episode, count in calls.items():
        if part and total + count > MAX_STEPS_PER_QUERY:
            yield part
            part, total = [], 0
        part.append(episode)
        total += count
    if part:
        yield part


def _add_steps(documents: Mapping[int, SearchDocument], blobs: BlobTexts) -> None:
    """Add the steps to the documents, page by page, until each document is complete, or cut because
    it is full."""
    first = 0
    while documents:
        steps: list[Any] = rows_among(_STEPS, [first, first + MAX_STEPS_PER_QUERY], documents)
        blobs.fetch(digest for step in steps for digest in (step[4], step[6]) if digest)
        for episode, calls in groupby(steps, key=itemgetter(0)):
            _add_calls(documents[episode], calls, blobs)
        first += MAX_STEPS_PER_QUERY
        longer = {step[0] for step in steps if step[1] == first - 1}
        documents = {
            pk: document
            for pk, document in documents.items()
            if pk in longer and not document.is_full
        }


def _add_calls(document: SearchDocument, steps: Iterable[StepFacts], blobs: BlobTexts) -> None:
    """Add the steps, those with small texts together."""
    texts = list[str]()
    for step in steps:
        texts += texts_of_step(step, document, blobs)
        # or large texts would wait in memory
        if step[4] or step[6] or len(texts) > MAX_TEXTS_AT_ONCE:
            document.add_all(texts)
            texts = []
    document.add_all(texts)


def texts_of_step(step: StepFacts, document: SearchDocument, blobs: BlobTexts) -> list[str]:
    """Return the name of the tool, the input, the texts of the output and the error.

    Those in blobs are read for `document`, as BlobTexts.read says.
    """
    _, _, tool, input_, input_blob, output, output_blob, error = step
    input_ = blobs.read(document, input_blob, input_)
    output = blobs.read(document, output_blob, output)
    texts = [tool]
    if input_:
        _add_values(read_json(input_), texts)
    if output:
        value = read_json(output)
        texts += texts_in(value.get("blocks") if isinstance(value, dict) else value)
    texts.append(error)
    return texts


# --- uploaded messages ----------------------------------------------------------------------------

CALLS = ("tool_call", "tool_result")
MESSAGE_FACTS = ("rollout_id", "name", "content", "content_blob_id", "summary", "summary_blob_id")


def add_messages(documents: Mapping[int, SearchDocument], *, has_calls: bool) -> None:
    """Add the messages of each rollout, given by id, to its document. One query."""
    blobs = BlobTexts()
    rows = RolloutMessage.objects.filter(rollout__in=documents).order_by(
        "rollout_id", "index", "id"
    )
    if not has_calls:
        rows = rows.exclude(kind__in=CALLS)
    for rollout, name, content, content_blob, summary, summary_blob in rows.values_list(
        *MESSAGE_FACTS
    ).iterator(500):
        document = documents[rollout]
        document.add(name)
        document.add(blobs.read(document, summary_blob, summary))
        document.add(blobs.read(document, content_blob, content))


class BlobTexts:
    """Contents of blobs. Small ones are read together in advance, others one by one and not
    stored."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def fetch(self, digests: Iterable[str]) -> None:
        """Read the small blobs among `digests` and forget those read before."""
        unique = set(digests)
        self._texts = dict(texts_of_blobs(unique, SMALL_BLOB_BYTES, len(unique)) if unique else ())

    def read(self, document: SearchDocument, digest: str | None, text: str = "") -> str:
        """Return `text`, or that of a blob; empty if that is too large, which the document then
        says."""
        if digest is None:
            return text
        if digest in self._texts:
            return self._texts[digest]
        for _, content in texts_of_blobs([digest], MAX_BLOB_BYTES):
            return content
        document.is_cut = True
        return ""
