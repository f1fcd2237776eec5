"""Warnings about splits: tasks that train and test share, answers that agents can read, and quoted splits that change.

Reading every task of a large split takes long, so a page reads at most MAX_READ tasks, and more only when it is asked.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from django.db.models import Q, QuerySet
from django.db.models.functions import Left

from environments.curation.action import Plan
from environments.curation.history_rows import object_of
from environments.curation.quotations import QUOTATIONS
from environments.curation.split_counts import tasks as counted
from environments.curation.splits import content_digest
from environments.display.task_line import MAX_READ_CHARACTERS
from environments.display.text_comparison import normalized, readable_answer, tells_apart
from environments.models import CurationAction, SecurityEvent, Split, Task, TaskStatistics
from environments.tasks.task_places import places, places_of

MAX_READ = 3000
"""Tasks of a split, and of the splits it is compared with, that are read without being asked for."""
MAX_READ_ON_REQUEST = 100_000
MAX_PLAYED = 500
"""First tasks of a split that are looked at for attempts."""
MAX_EXAMPLES = 5


@dataclass(frozen=True, slots=True)
class SplitWarning:
    sentence: str
    tasks: tuple[int, ...] = ()
    """Ids of some of the tasks that it is about."""


@dataclass(frozen=True, slots=True)
class SplitReview:
    warnings: tuple[SplitWarning, ...]
    is_whole: bool
    """Whether all tasks were read; otherwise only quotations were looked for."""


def review_of_split(split: Split, hidden: Collection[str], most: int = MAX_READ) -> SplitReview:
    """Return what to know before the split is used. `hidden`: fields that agents do not get.

    Tasks are read only if there are at most `most`, with those of the splits of another type.
    """
    others = list(opposite_splits(split.environment_id, split.type).exclude(pk=split.pk))
    quoted = [SplitWarning(sentence) for sentence in (_changed_since_frozen(split),) if sentence]
    if split.size + sum(other.size for other in others) > most:
        return SplitReview(tuple(quoted), is_whole=False)
    own, found = _contents_of(split), list[SplitWarning]()
    for other in others:
        found += _shared(own, _contents_of(other), other)
    return SplitReview((*quoted, *found, *_readable(_served(split), hidden)), is_whole=True)


def opposite_splits(environment: int, type: str) -> QuerySet[Split]:
    """Return the served splits of an environment that have another type."""
    found = Split.objects.filter(environment=environment, is_served=True).exclude(type=type)
    return found.order_by("position", "name")


def warnings_of_plan(plan: Plan | None) -> list[str]:
    """Return a sentence for each test split whose content an action will change although it was quoted."""
    shares = {share.split: share for share in plan.splits if share.tasks} if plan else {}
    return warnings_of_changing(Split.objects.filter(pk__in=shares))


def warnings_of_changing(splits: QuerySet[Split]) -> list[str]:
    """Return a sentence for each of the splits that is a test split and was quoted."""
    rows = splits.filter(type="test", frozen=None).select_related("environment")
    return [
        f"{split.name!r} is a test split, and {reason}. Figures from before and after the change can't be compared. "
        "To keep them comparable, change a copy under another name."
        for split in rows.order_by("position", "name")
        if (reason := _quoted(split))
    ]


def warnings_of_adding(chosen: Q, opposite: QuerySet[Split]) -> list[str]:
    """Return a sentence for each split of another type that holds some of the tasks to be added, or their like, and for
    answers that agents can read in them.
    """
    tasks, others = Task.objects.filter(chosen), list(opposite)
    count = tasks.count()
    specs = list(_heads(tasks, "pk", "spec")) if count <= MAX_READ else []
    if count + sum(other.size for other in others) <= MAX_READ:
        return warnings_of_contents(specs, others)
    sentences = [warning.sentence for warning in _readable(specs)]
    for other in others:
        if both := places(other.pk).filter(task__in=tasks.values("pk")).values("task").distinct().count():
            sentences.append(_also_in(both, other))
    return sentences


def warnings_of_contents(specs: Collection[tuple[int, dict[str, Any]]], opposite: Iterable[Split]) -> list[str]:
    """Return the same for contents, which need not be tasks yet: those have a negative number for the id of a task.

    Nothing is compared if that would take more than MAX_READ tasks.
    """
    others, sentences = list(opposite), [warning.sentence for warning in _readable(specs)]
    if len(specs) + sum(other.size for other in others) <= MAX_READ:
        own = _contents(specs)
        for other in others:
            sentences += [warning.sentence for warning in _shared(own, _contents_of(other), other)]
    return sentences


def _quoted(split: Split) -> str:
    """Return where figures of the split may have been quoted; empty if nowhere."""
    if frozen := _last_freezing(split):
        return f"it was frozen on {frozen.created:%Y-%m-%d}, so somebody may have cited it"
    for quotation in (*QUOTATIONS, _exported):
        if found := quotation(split):
            return found
    first = list(places_of(split).order_by("position").values_list("task", flat=True)[:MAX_PLAYED])
    played = TaskStatistics.objects.filter(by="all", attempts__gt=0, task__in=first)
    return "leaderboards and curves have attempts at it" if played.exists() else ""


def _exported(split: Split) -> str:
    """Return when the split was exported last, as far as the security log goes back."""
    by_page = Q(what__regex=rf"[ &]split={split.pk}(&|$)")
    by_command = Q(what__endswith=f" environment={split.environment.name} split={split.name}")
    exports = SecurityEvent.objects.filter(by_page | by_command, kind="exported", what__startswith="tasks as ")
    last = exports.order_by("-pk").first()
    return f"it was exported on {last.at:%Y-%m-%d}, so somebody may have cited it" if last else ""


def _last_freezing(split: Split) -> CurationAction | None:
    return CurationAction.objects.filter(split=split, kind="freeze").order_by("-pk").first()


def _changed_since_frozen(split: Split) -> str:
    """Return that the split is no longer what it was when it was frozen; empty if it is, or never was."""
    frozen = None if split.frozen or split.type != "test" or split.size > MAX_READ_ON_REQUEST else _last_freezing(split)
    cited = object_of(frozen.after).get("frozen_hash", "") if frozen else ""
    if frozen is None or not cited or content_digest(split) == cited:
        return ""
    return (
        f"It was frozen on {frozen.created:%Y-%m-%d} with the hash {cited[:12]}… and has other tasks or another order "
        "now. Figures that cite that hash can't be compared with new ones."
    )


Contents = Mapping[bytes, list[int]]
"""Digest of a normalized content -> the tasks that have it."""


def _contents_of(split: Split) -> Contents:
    return _contents(_served(split))


def _contents(specs: Iterable[tuple[int, dict[str, Any]]]) -> Contents:
    found = defaultdict[bytes, list[int]](list)
    for task, spec in specs:
        digest = blake2b(normalized(spec).encode("utf-8", "surrogatepass"), digest_size=12)
        found[digest.digest()].append(task)
    return found


def _served(split: Split) -> Iterator[tuple[int, dict[str, Any]]]:
    return _heads(places_of(split).filter(is_hidden=False).order_by("position"), "task_id", "task__spec")


def _heads(rows: QuerySet[Any], task: str, spec: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield each task with its content, without contents longer than MAX_READ_CHARACTERS."""
    heads = rows.annotate(head=Left(spec, MAX_READ_CHARACTERS + 1)).values_list(task, "head")
    for pk, head in heads.iterator(2000):
        if len(head) <= MAX_READ_CHARACTERS and isinstance(value := _json(head), dict):
            yield pk, value


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _shared(own: Contents, theirs: Contents, other: Split) -> Iterator[SplitWarning]:
    same, near = list[int](), list[int]()
    can_tell = tells_apart(own) and tells_apart(theirs)
    for text in own.keys() & theirs.keys():
        twins = set(theirs[text])
        for task in own[text]:
            (same if task in twins else near).append(task)
    if same:
        yield SplitWarning(_also_in(len(same), other), _some(same))
    if near and can_tell:
        which = counted(len(near), "says", "say")
        where = f"in the {other.type} split {other.name!r}"
        words = f"{which} the same as another {where}, apart from case, spaces, punctuation, answers and labels."
        yield SplitWarning(words, _some(near))


def _also_in(count: int, other: Split) -> str:
    which = counted(count, "is", "are")
    return f"{which} also in the {other.type} split {other.name!r}, so one cannot test the other."


def _readable(specs: Iterable[tuple[int, dict[str, Any]]], hidden: Collection[str] = ()) -> Iterator[SplitWarning]:
    found = defaultdict[str, list[int]](list)
    for task, spec in specs:
        if name := readable_answer(spec, hidden):
            found[name].append(task)
    for name, tasks in sorted(found.items()):
        words = f"The field {name!r} of {counted(len(tasks))} can be read in a field that agents get."
        yield SplitWarning(words, _some(tasks))


def _some(tasks: list[int]) -> tuple[int, ...]:
    return tuple(sorted(tasks)[:MAX_EXAMPLES])
