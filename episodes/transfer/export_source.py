"""Reads recorded episodes as plain data, in bounded memory. Blocking; used by `exporting.py`.

Every query reads a bounded chunk completely, so SQLite holds no read transaction while a client
downloads slowly, and a running server can keep writing. The steps of several episodes are read
together; those of a long episode in chunks of their own. Rows are plain tuples, because Django's
model instances cost several times as much.

Accounts and guests belong to their own database and are not exported; the episode's `key_label`
says who played.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import NamedTuple

from django.db.models import QuerySet

from environments.models import UNRESTRICTED
from environments.runtime.call_outcome import NO_NUMBER
from environments.scoring.convention import Convention, Treatment
from environments.scoring.definition import DefinitionAsked
from episodes.models import Blob, Episode, Note, Play, Step
from episodes.transfer.episode_rollouts import NO_UPLOADS, EpisodeUploads
from episodes.visibility import TaskGuard

BATCH_IDS = 20_000
"""Ids that one query reads. With some filters a query costs the same for few as for many."""
BATCH_EPISODES = 250
BATCH_STEPS = 1000
"""Steps that one query reads. A step holds at most twice 8,192 characters itself; longer texts are
blobs."""
MAX_PREFETCHED_BYTES = 64 * 1024
MAX_CACHED_BYTES = 8 * 1024 * 1024
LOOKUP_SIZE = 500
_PLAY_COLUMNS = (
    *(
        "is_blind",
        "is_repeat",
        "counts_left",
        "is_excluded",
        "paused_seconds",
        "differs_at",
        "parent_step",
    ),
    *("parent_id", "parent__session_id", "parent__created"),
)


class ExportedPlay(NamedTuple):
    """The facts about how a person played an episode."""

    is_blind: bool
    is_repeat: bool
    """Whether it is a further attempt of the person at the task."""
    counts_left: bool | None
    """In a study, whether it counts if its player leaves it."""
    is_excluded: bool
    """Whether its player was excluded from the study."""
    paused_seconds: float
    differs_at: int | None
    parent_step: int | None
    parent: int | None
    """Id of the episode that it continues. In another database, session and start identify that
    episode."""
    parent_session: str | None
    parent_created: datetime | None


class NoteFacts(NamedTuple):
    """A note on an episode."""

    step: int | None
    """Index of the step, or None for a note on the whole episode."""
    author: str
    text: str
    created: datetime


UNGUARDED = TaskGuard(UNRESTRICTED)


class Additions:
    """The plays and notes of `episodes`. Takes two queries on first use, and one per episode with
    notes."""

    def __init__(self, episodes: Sequence[int]) -> None:
        self._episodes = episodes

    def play(self, episode: int) -> ExportedPlay | None:
        """Return how the episode was played, or None if no person played it."""
        return self._plays.get(episode)

    def notes(self, episode: int) -> Sequence[NoteFacts]:
        """Return the notes on an episode in the order in which they were written."""
        if episode not in self._with_notes:
            return ()
        rows = Note.objects.filter(episode=episode).order_by("pk").values_list(*NoteFacts._fields)
        return [NoteFacts._make(row) for row in rows]

    @cached_property
    def _plays(self) -> dict[int, ExportedPlay]:
        rows = Play.objects.filter(episode__in=self._episodes).values_list(
            "episode", *_PLAY_COLUMNS
        )
        return {episode: ExportedPlay._make(row) for episode, *row in rows}

    @cached_property
    def _with_notes(self) -> frozenset[int]:
        return frozenset(
            Note.objects.filter(episode__in=self._episodes).values_list("episode", flat=True)
        )


class Blobs:
    """The texts of blobs during one export, in bounded memory.

    Small ones are fetched many at a time and cached, because the episodes of an environment share
    their tools. Large ones are fetched when needed and not cached.
    """

    def __init__(self) -> None:
        self._cached: dict[str, str] = {}
        self._cached_bytes = 0

    def prepare(self, digests: Iterable[str | None]) -> None:
        """Fetch the small blobs among `digests`, as many as fit into the cache."""
        missing = list({digest for digest in digests if digest and digest not in self._cached})
        for start in range(0, len(missing), LOOKUP_SIZE):
            self._fetch(self._fitting(missing[start : start + LOOKUP_SIZE]))

    def text(self, digest: str | None) -> str:
        """Return the text of a blob; empty for None."""
        if digest is None:
            return ""
        return self._cached[digest] if digest in self._cached else Blob.objects.get(pk=digest).text

    def _fitting(self, digests: list[str]) -> list[str]:
        sizes = Blob.objects.filter(
            pk__in=digests, size_bytes__lte=MAX_PREFETCHED_BYTES
        ).values_list("pk", "size_bytes")
        fitting, size_bytes = list[str](), 0
        for digest, size in sizes:
            if size_bytes + size <= MAX_CACHED_BYTES:
                fitting.append(digest)
                size_bytes += size
        if self._cached_bytes + size_bytes > MAX_CACHED_BYTES:
            self._cached.clear()
            self._cached_bytes = 0
        self._cached_bytes += size_bytes
        return fitting

    def _fetch(self, digests: list[str]) -> None:
        if digests:
            self._cached.update(
                {blob.digest: blob.text for blob in Blob.objects.filter(pk__in=digests)}
            )


DEFINING = ("default_return", "reward_low", "reward_high", "success_threshold", "convention")
"""Columns of an environment that define its figures."""


class EpisodeFacts(NamedTuple):
    """The columns of an episode, with names in place of the ids of other rows."""

    id: int
    environment: str
    default_return: str
    reward_low: float
    reward_high: float
    success_threshold: float
    convention: str
    """Code of the convention of the environment."""
    revision: int | None
    """Id of the revision of the environment; None if it is unknown."""
    split: str | None
    split_type: str | None
    task_index: int | None
    task_id: int
    spec: str
    content_hash: str
    session_id: str
    user_agent: str
    key_label: str
    player: str
    run: str | None
    run_model: str | None
    run_created: datetime | None
    run_title: str | None
    run_number: int | None
    run_own_id: str | None
    run_step: int | None
    model: str
    labels: str
    prompt: str | None
    """Digest of the blob, like `tools`."""
    tools: str | None
    status: str
    cause: str
    detail: str
    is_probe: bool
    steps_count: int
    failed_count: int
    refused_count: int
    return_sum: float
    return_last: float | None
    return_max: float | None
    return_mean: float | None
    created: datetime
    ready: datetime | None
    first_acted: datetime | None
    last_acted: datetime | None
    ended: datetime | None
    duration_seconds: float | None
    end_number: int | None

    def treatment_by(self, asked: DefinitionAsked) -> Treatment:
        """Return how the episode counts. What `asked` leaves open is as the environment defines
        it."""
        treatments = asked.convention(Convention.from_code(self.convention)).treatments
        return "out" if self.is_probe else treatments.get(self.cause, "keep")

    def return_by(self, asked: DefinitionAsked) -> float | None:
        """Return the episode's return that counts: 0 if the convention counts it as 0; None if a
        reward of it was not a number, because its sum lacks that reward.

        What `asked` leaves open is as the environment defines it.
        """
        if self.treatment_by(asked) == "zero":
            return 0.0
        if NO_NUMBER in self.detail:
            return None
        value: float | None = getattr(self, f"return_{asked.return_ or self.default_return}")
        return value


_PATHS = {
    "environment": "environment__name",
    **{name: f"environment__{name}" for name in DEFINING},
    **{
        "split": "split__name",
        "split_type": "split__type",
        "spec": "task__spec",
        "content_hash": "task__content_hash",
    },
    **{"run": "run__name", "run_model": "run__model", "run_created": "run__created"},
    **{"run_title": "run__title", "run_number": "run__number", "run_own_id": "run__own_id"},
    **{"prompt": "prompt_id", "tools": "tools_id", "revision": "revision_id"},
}
_EPISODE_COLUMNS = [_PATHS.get(name, name) for name in EpisodeFacts._fields]


class ExportedStep(NamedTuple):
    """A step with its complete texts."""

    number: int
    """`Step.index`: 0-based, in order of completion."""
    tool: str
    input: str
    """Input of the call, as exact JSON text."""
    output: str
    """Exact JSON text; empty unless status is ok."""
    reward: float | None
    finished: bool
    status: str
    error: str
    reason: str
    task_id: str
    started: datetime
    duration_ms: float
    waited_ms: float


_STEP_COLUMNS = (
    "episode_id",
    "index",
    *ExportedStep._fields[1:],
    "input_blob_id",
    "output_blob_id",
)
_INPUT, _OUTPUT = _STEP_COLUMNS.index("input"), _STEP_COLUMNS.index("output")
NO_ADDITIONS = Additions(())
_Row = tuple[object, ...]
"""A row with the values of _STEP_COLUMNS."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """An episode with the rows that are exported with it."""

    facts: EpisodeFacts
    prompt: str
    """Exact JSON text, like `tools`; empty if the agent did not ask for it."""
    tools: str
    steps: Iterator[ExportedStep]
    """The steps in order. They must be consumed before the next episode is read."""
    additions: Additions = NO_ADDITIONS
    """What people added to this episode and to those read together with it."""
    uploads: EpisodeUploads = NO_UPLOADS
    """What clients uploaded about this episode and those read together with it."""


def ids_of(episodes: QuerySet[Episode]) -> Iterator[Sequence[int]]:
    """Yield ids in ascending order, thousands at a time. Episodes that start in the meantime may be
    included."""
    ordered, last = episodes.order_by("pk").values_list("pk", flat=True), 0
    while ids := array("q", ordered.filter(pk__gt=last)[:BATCH_IDS]):
        yield ids
        last = ids[-1]


def facts_of(ids: Sequence[int], guard: TaskGuard = UNGUARDED) -> Iterator[EpisodeFacts]:
    """Yield the columns of episodes in the order of `ids`, without deleted ones; of tasks what
    `guard` shows."""
    for start in range(0, len(ids), BATCH_EPISODES):
        batch = ids[start : start + BATCH_EPISODES]
        rows = Episode.objects.filter(pk__in=list(batch)).order_by().values_list(*_EPISODE_COLUMNS)
        found = {row[0]: EpisodeFacts._make(row) for row in rows}
        yield from (_guarded(found[number], guard) for number in batch if number in found)


def _guarded(facts: EpisodeFacts, guard: TaskGuard) -> EpisodeFacts:
    spec = guard.spec(facts.task_id, facts.environment, facts.spec)
    return facts._replace(spec=spec, content_hash=guard.hash(facts.content_hash))


def recorded(ids: Sequence[int], guard: TaskGuard = UNGUARDED) -> Iterator[Recorded]:
    """Yield episodes with their steps in the order of `ids`, without deleted ones; of tasks what
    `guard` shows."""
    blobs = Blobs()
    for group in _groups(facts_of(ids, guard)):
        blobs.prepare(digest for facts in group for digest in (facts.prompt, facts.tools))
        additions, uploads = (
            Additions([one.id for one in group]),
            EpisodeUploads([one.id for one in group]),
        )
        rows = {} if _is_long(group[0]) else _steps_of(group, blobs)
        for facts in group:
            steps = (
                _long_steps(facts.id, blobs) if _is_long(facts) else iter(rows.get(facts.id, ()))
            )
            texts = blobs.text(facts.prompt), blobs.text(facts.tools)
            yield Recorded(facts, *texts, _taken(steps, blobs), additions, uploads)


def _groups(episodes: Iterator[EpisodeFacts]) -> Iterator[list[EpisodeFacts]]:
    """Yield groups of episodes whose steps are read together. A long episode is a group of its
    own."""
    group, steps = list[EpisodeFacts](), 0
    for facts in episodes:
        more = facts.steps_count + facts.refused_count
        if group and (_is_long(facts) or _is_long(group[0]) or steps + more > BATCH_STEPS):
            yield group
            group, steps = [], 0
        group.append(facts)
        steps += more
    if group:
        yield group


def _is_long(facts: EpisodeFacts) -> bool:
    """Return whether an episode may have too many steps for one query. Running ones are not counted
    yet."""
    return facts.status == "running" or facts.steps_count + facts.refused_count > BATCH_STEPS


def _steps_of(group: list[EpisodeFacts], blobs: Blobs) -> dict[int, list[_Row]]:
    steps = Step.objects.filter(episode__in=[facts.id for facts in group]).order_by(
        "episode_id", "index"
    )
    rows: dict[int, list[_Row]] = {}
    for row in _prepared(list(steps.values_list(*_STEP_COLUMNS)), blobs):
        rows.setdefault(row[0], []).append(row)  # type: ignore[arg-type]  # the episode's id
    return rows


def _long_steps(episode: int, blobs: Blobs) -> Iterator[_Row]:
    steps, last = (
        Step.objects.filter(episode=episode).order_by("index").values_list(*_STEP_COLUMNS),
        -1,
    )
    while rows := list(steps.filter(index__gt=last)[:BATCH_STEPS]):
        yield from _prepared(rows, blobs)
        last = rows[-1][1]


def _prepared(rows: list[_Row], blobs: Blobs) -> list[_Row]:
    blobs.prepare(digest for row in rows for digest in row[-2:] if digest)  # type: ignore[misc]  # text or None
    return rows


def _taken(rows: Iterator[_Row], blobs: Blobs) -> Iterator[ExportedStep]:
    for row in rows:
        *values, input_blob, output_blob = row
        if input_blob:
            values[_INPUT] = blobs.text(input_blob)  # type: ignore[arg-type]
        if output_blob:
            values[_OUTPUT] = blobs.text(output_blob)  # type: ignore[arg-type]
        yield ExportedStep._make(values[1:])
