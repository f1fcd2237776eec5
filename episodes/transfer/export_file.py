"""ExportFile: a file while it is written. A format reads from it what goes into the file.

Memory use is bounded: each query reads a batch completely, so SQLite holds no read transaction while
a client downloads slowly, and a running server can keep writing. The steps of several episodes are
read together; those of a long episode in batches of their own.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby, islice
from operator import itemgetter

from django.db.models import QuerySet

from environments.models import UNRESTRICTED
from episodes.attempts.rule import KIND
from episodes.models import Episode, Rollout, Step
from episodes.transfer.conversations import ReportedConversations
from episodes.transfer.export_rows import (
    BATCH_STEPS,
    FACTS_COLUMNS,
    STEP_COLUMNS,
    Additions,
    BlobTexts,
    EpisodeFacts,
    ExportedStep,
    Recorded,
    Row,
)
from episodes.transfer.prompt_sources import Ask, PromptSources
from episodes.transfer.training_options import TrainingOptions
from episodes.visibility import TaskGuard

BATCH_IDS = 20_000
"""Ids that one query reads. With some filters a query costs the same for few as for many."""
BATCH_EPISODES = 250


@dataclass
class ExportFile:
    """What goes into a file, and how. Formats call `recorded`, or `facts` where they need no steps."""

    episodes: QuerySet[Episode]
    options: TrainingOptions = field(default_factory=TrainingOptions)
    readable: QuerySet[Episode] = field(default_factory=Episode.objects.all)
    """Episodes that the reader of the file may see, whose prompts and tools may be in the file."""
    ask: Ask | None = None
    """Asks hosted environments for prompts; None: the open service does."""
    has_additions: bool = True
    """Whether the file includes what people added, such as notes."""
    guard: TaskGuard = field(default_factory=lambda: TaskGuard(UNRESTRICTED))
    """Takes out of the tasks what the reader of the file must not see."""
    progress: Callable[[int], None] | None = None
    """Called with the number of episodes read so far."""
    count: int = 0
    """Number of conversations or pairs that were written so far."""
    left_out: int = 0
    """Number of conversations or pairs that were left out so far because the input of a call is no
    object."""
    _read_count: int = 0
    _conversations: ReportedConversations = field(default_factory=ReportedConversations)

    def recorded(self, ids: Iterable[int] | None = None) -> Iterator[Recorded]:
        """Yield each episode with its steps, without those deleted meanwhile. By default all, in
        ascending order of ids; else those of `ids` in their order."""
        blobs = BlobTexts()
        for group in _groups_of_few_steps(self.facts(ids)):
            blobs.prepare(digest for facts in group for digest in (facts.prompt, facts.tools))
            additions = Additions([facts.id for facts in group])
            rows: Iterable[Row] = _step_rows(group, blobs)
            if group[0].is_long:
                by_episode = {group[0].id: rows}
            else:
                by_episode = {number: list(steps) for number, steps in groupby(rows, itemgetter(0))}
            for facts in group:
                prompt, tools = blobs.text(facts.prompt), blobs.text(facts.tools)
                steps = (ExportedStep.of(row, blobs) for row in by_episode.get(facts.id, ()))
                yield Recorded(facts, prompt, tools, steps, additions)

    def facts(self, ids: Iterable[int] | None = None) -> Iterator[EpisodeFacts]:
        """Yield the columns of the same episodes, of their tasks only what the guard shows."""
        numbers = self._ids() if ids is None else iter(ids)
        while batch := list(islice(numbers, BATCH_EPISODES)):
            rows = Episode.objects.filter(pk__in=batch).annotate(ending_kind=KIND).order_by()
            columns = rows.values_list(*FACTS_COLUMNS)
            episodes = {row[0]: EpisodeFacts._make(row) for row in columns}
            for facts in (episodes[number] for number in batch if number in episodes):
                yield facts._replace(
                    spec=self.guard.spec(facts.task_id, facts.environment, facts.spec),
                    content_hash=self.guard.hash(facts.content_hash),
                )
                self._read_count += 1
                if self.progress:
                    self.progress(self._read_count)

    def _ids(self) -> Iterator[int]:
        """Yield all ids in ascending order. Episodes that start in the meantime may be included."""
        rows, last = self.episodes.order_by("pk").values_list("pk", flat=True), 0
        while ids := array("q", rows.filter(pk__gt=last)[:BATCH_IDS]):
            yield from ids
            last = ids[-1]

    @cached_property
    def sources(self) -> PromptSources:
        """Where prompts and tools are from that clients did not ask for."""
        return PromptSources(self.readable, self.ask)

    def rollout_of(self, episode: int) -> Rollout | None:
        """Return the rollout whose conversation takes the place of the recorded one; None: there is
        none."""
        return self._conversations.of(episode) if self.options.is_reported else None


def _groups_of_few_steps(episodes: Iterator[EpisodeFacts]) -> Iterator[list[EpisodeFacts]]:
    """Yield groups of episodes whose steps one query reads. A long episode is a group of its
    own."""
    group, steps = list[EpisodeFacts](), 0
    for facts in episodes:
        more = facts.steps_count + facts.refused_count
        if group and (facts.is_long or group[0].is_long or steps + more > BATCH_STEPS):
            yield group
            group, steps = [], 0
        group.append(facts)
        steps += more
    if group:
        yield group


def _step_rows(group: list[EpisodeFacts], blobs: BlobTexts) -> Iterator[Row]:
    """Yield the rows of steps by episode and index. One query, or one for every BATCH_STEPS of a
    long episode."""
    rows = Step.objects.filter(episode__in=[facts.id for facts in group])
    steps = rows.order_by("episode_id", "index").values_list(*STEP_COLUMNS)
    is_long, last = group[0].is_long, -1
    while batch := list(steps.filter(index__gt=last)[:BATCH_STEPS] if is_long else steps):
        blobs.prepare(digest for row in batch for digest in row[-2:])
        yield from batch
        if not is_long:
            break
        last = batch[-1][1]
