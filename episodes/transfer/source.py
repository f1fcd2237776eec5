"""Source: recorded episodes as plain data, in memory that does not grow with them. Blocking; driven by `exporting.py`.

Every query reads a bounded piece to its end, so SQLite keeps no read transaction while somebody takes the file slowly,
and a running server goes on writing. Steps of one piece of episodes are read together; an episode with many is read
in pieces of its own. Plain rows, for models of Django cost several times as much.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from django.db.models import QuerySet

from episodes.models import Episode, Step
from episodes.transfer.additions import Additions
from episodes.transfer.blobs import Blobs

BATCH_IDS = 20_000
"""Looked up by one query, which on some filters costs as much for a few as for all."""
BATCH_EPISODES = 250
BATCH_STEPS = 1000
"""Read by one query. What stands in a step itself has two times 8,192 characters at most."""


class Facts(NamedTuple):
    """What one row of an episode says, with the names that its ids stand for."""

    id: int
    environment: str
    default_return: str
    reward_low: float
    reward_high: float
    success_threshold: float
    split: str | None
    split_type: str | None
    task_index: int | None
    spec: str
    content_hash: str
    session_id: str
    user_agent: str
    key_label: str
    player: str
    run: str | None
    run_model: str | None
    run_created: datetime | None
    run_step: int | None
    model: str
    labels: str
    prompt: str | None
    """Digest of the blob, as the next."""
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

    def return_by(self, definition: str | None) -> float | None:
        """By sum, last, max or mean; None: the environment's own definition."""
        value: float | None = getattr(self, f"return_{definition or self.default_return}")
        return value


_PATHS = {
    "environment": "environment__name",
    **{name: f"environment__{name}" for name in ("default_return", "reward_low", "reward_high", "success_threshold")},
    **{"split": "split__name", "split_type": "split__type", "spec": "task__spec", "content_hash": "task__content_hash"},
    **{"run": "run__name", "run_model": "run__model", "run_created": "run__created"},
    **{"prompt": "prompt_id", "tools": "tools_id"},
}
_EPISODE_COLUMNS = [_PATHS.get(name, name) for name in Facts._fields]


class Taken(NamedTuple):
    """One step with its texts whole."""

    number: int
    """Step.index: 0-based, in order of completion."""
    tool: str
    input: str
    """Exact JSON text."""
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


_STEP_COLUMNS = ("episode_id", "index", *Taken._fields[1:], "input_blob_id", "output_blob_id")
_INPUT, _OUTPUT = _STEP_COLUMNS.index("input"), _STEP_COLUMNS.index("output")
NONE = Additions(())
_Row = tuple[object, ...]
"""Values of _STEP_COLUMNS."""


@dataclass(frozen=True, slots=True)
class Recorded:
    facts: Facts
    prompt: str
    """Exact JSON text, as the next; empty: the agent did not ask."""
    tools: str
    steps: Iterator[Taken]
    """In order; to be used up, or left, before the next episode is taken."""
    additions: Additions = NONE
    """What people added to it and to its neighbours."""


def ids_of(episodes: QuerySet[Episode]) -> Iterator[Sequence[int]]:
    """Ids in rising order, some thousands at a time. Episodes that begin meanwhile may be among them."""
    ordered, last = episodes.order_by("pk").values_list("pk", flat=True), 0
    while ids := array("q", ordered.filter(pk__gt=last)[:BATCH_IDS]):
        yield ids
        last = ids[-1]


def facts_of(ids: Sequence[int]) -> Iterator[Facts]:
    """In the order of `ids`; an episode that has gone is left out."""
    for start in range(0, len(ids), BATCH_EPISODES):
        batch = ids[start : start + BATCH_EPISODES]
        rows = Episode.objects.filter(pk__in=list(batch)).order_by().values_list(*_EPISODE_COLUMNS)
        found = {row[0]: Facts._make(row) for row in rows}
        yield from (found[number] for number in batch if number in found)


def recorded(ids: Sequence[int]) -> Iterator[Recorded]:
    """In the order of `ids`; an episode that has gone is left out."""
    blobs = Blobs()
    for group in _groups(facts_of(ids)):
        blobs.prepare(digest for facts in group for digest in (facts.prompt, facts.tools))
        additions = Additions([facts.id for facts in group])
        rows = {} if _is_long(group[0]) else _steps_of(group, blobs)
        for facts in group:
            steps = _long_steps(facts.id, blobs) if _is_long(facts) else iter(rows.get(facts.id, ()))
            texts = blobs.text(facts.prompt), blobs.text(facts.tools)
            yield Recorded(facts, *texts, _taken(steps, blobs), additions)


def _groups(episodes: Iterator[Facts]) -> Iterator[list[Facts]]:
    """Episodes whose steps are read together; one with many stands alone."""
    group, steps = list[Facts](), 0
    for facts in episodes:
        more = facts.steps_count + facts.refused_count
        if group and (_is_long(facts) or _is_long(group[0]) or steps + more > BATCH_STEPS):
            yield group
            group, steps = [], 0
        group.append(facts)
        steps += more
    if group:
        yield group


def _is_long(facts: Facts) -> bool:
    """Whether its steps are too many for one query. Nobody has counted those of a running episode."""
    return facts.status == "running" or facts.steps_count + facts.refused_count > BATCH_STEPS


def _steps_of(group: list[Facts], blobs: Blobs) -> dict[int, list[_Row]]:
    steps = Step.objects.filter(episode__in=[facts.id for facts in group]).order_by("episode_id", "index")
    rows: dict[int, list[_Row]] = {}
    for row in _prepared(list(steps.values_list(*_STEP_COLUMNS)), blobs):
        rows.setdefault(row[0], []).append(row)  # type: ignore[arg-type]  # the episode's id
    return rows


def _long_steps(episode: int, blobs: Blobs) -> Iterator[_Row]:
    steps, last = Step.objects.filter(episode=episode).order_by("index").values_list(*_STEP_COLUMNS), -1
    while rows := list(steps.filter(index__gt=last)[:BATCH_STEPS]):
        yield from _prepared(rows, blobs)
        last = rows[-1][1]


def _prepared(rows: list[_Row], blobs: Blobs) -> list[_Row]:
    blobs.prepare(digest for row in rows for digest in row[-2:] if digest)  # type: ignore[misc]  # text or None
    return rows


def _taken(rows: Iterator[_Row], blobs: Blobs) -> Iterator[Taken]:
    for row in rows:
        *values, input_blob, output_blob = row
        if input_blob:
            values[_INPUT] = blobs.text(input_blob)  # type: ignore[arg-type]
        if output_blob:
            values[_OUTPUT] = blobs.text(output_blob)  # type: ignore[arg-type]
        yield Taken._make(values[1:])
