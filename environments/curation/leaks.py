"""Tasks that splits of different types share, and copies within a split.

A task is its content, so the database finds the same content in any number of tasks.
Near-duplicates, which say the same apart from case, spaces, punctuation, invisible characters,
empty fields, answers and labels, are found by reading contents. Whoever asks says how many may be
read; where that is too few, a sentence says so.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from django.db.models import Count, QuerySet
from django.db.models.functions import Left

from environments.curation.split_counts import tasks as counted
from environments.display.task_line import MAX_READ_CHARACTERS
from environments.display.text_normalization import readable_answer, tells_apart, words_of
from environments.models import Split, SplitEntry, Task
from environments.tasks.task_places import places_of

MAX_READ_BY_PAGE = 3000
"""Tasks that the page of a split reads without being asked to, with those of the splits that they
are compared with."""
MAX_READ = 25_000
"""Tasks that a preview of an action reads, with those that they are compared with: about a
second."""
MAX_READ_ON_REQUEST = 100_000
MAX_EXAMPLES = 5


@dataclass(frozen=True, slots=True)
class SplitWarning:
    sentence: str
    tasks: tuple[int, ...] = ()
    """Ids of some of the tasks that it is about."""


@dataclass(frozen=True, slots=True)
class LeakReport:
    """What is to be known of some tasks beside those of splits of another type."""

    warnings: tuple[SplitWarning, ...]
    unread: str = ""
    """Sentence that says what was not compared, because it is too much; empty if all was."""

    @property
    def sentences(self) -> list[str]:
        """All of it, a sentence each."""
        sentences = [warning.sentence for warning in self.warnings]
        return [*sentences, self.unread] if self.unread else sentences


class Contents:
    """What the contents of tasks say, and the answers that agents can read in them."""

    def __init__(
        self,
        specs: Iterable[tuple[int, dict[str, Any] | None]] = (),
        hidden_fields: Collection[str] = (),
    ) -> None:
        """Read `specs`: tasks with their contents. `hidden_fields`: fields that agents do not get."""
        self._long, self._contents, self._hidden = 0, set[bytes](), hidden_fields
        self._tasks_by_words = defaultdict[bytes, list[int]](list)
        self._tasks_with_labels = defaultdict[bytes, list[int]](list)
        self._answers = dict[int, int]()
        self._tasks_by_answer = defaultdict[str, list[int]](list)
        for task, spec in specs:
            self.add(task, spec)

    def add(self, task: int, spec: dict[str, Any] | None) -> None:
        """Read a content; None: it is too long. It need not be a task yet: `task` is a negative
        number then."""
        try:
            words = words_of(spec) if spec is not None else None
        except RecursionError:
            words = None
        if spec is None or words is None:
            self._long += 1
            return
        with_labels, answers = [*words.question, "", *words.labels], sorted(words.answers)
        self._tasks_by_words[_digest(words.question or words.labels)].append(task)
        self._tasks_with_labels[_digest(with_labels)].append(task)
        self._contents.add(_digest([*with_labels, "", *answers]))
        self._answers[task] = hash(tuple(answers))
        if name := readable_answer(spec, self._hidden):
            self._tasks_by_answer[name].append(task)

    def warnings(
        self,
        others: Iterable[Split],
        where: str,
        target: Split | None = None,
        leaving: Collection[int] = (),
    ) -> Iterator[SplitWarning]:
        """Yield a warning for each of the splits `others` in which other tasks say the same, for
        answers that agents can read, and for copies among the tasks and in the split `target`.

        where: words for the place of the tasks; leaving: tasks that leave every split that is not
        frozen.
        """
        for other in others:
            yield from self.near(other, () if other.frozen else leaving)
        yield from self._unread()
        for name, tasks in sorted(self._tasks_by_answer.items()):
            sentence = f"The field {name!r} of {counted(len(tasks))} shows in another field that "
            yield SplitWarning(f"{sentence}agents see.", _examples(tasks))
        yield from self._shared(self, where, (), is_within=True)
        if target is not None:
            contents, where = _contents_of(_served(target)), f"in split {target.name!r} itself"
            yield from self._shared(contents, where, leaving, is_within=True)

    def near(self, other: Split, leaving: Collection[int]) -> Iterator[SplitWarning]:
        """Yield a warning if some of the tasks say the same as tasks in a split, which are not the
        same. `leaving`: tasks that are in the split no longer."""
        contents = _contents_of(_served(other))
        yield from contents._unread(f" {_named(other)}")
        yield from self._shared(contents, _named(other), leaving, is_within=False)

    def _unread(self, where: str = "") -> Iterator[SplitWarning]:
        if self._long:
            is_long = "is too long or too deep" if self._long == 1 else "are too long or too deep"
            sentence = f"{counted(self._long)}{where} {is_long} to be read: only the same content "
            yield SplitWarning(f"{sentence}was looked for.")

    def _shared(
        self, others: Contents, where: str, leaving: Collection[int], *, is_within: bool
    ) -> Iterator[SplitWarning]:
        """Yield a warning if some of the tasks say the same as some of the others.

        `is_within`: both are of one split, where a task with another answer, as of a number to be
        guessed, is another task.
        """
        for own, other in (
            (self._tasks_by_words, others._tasks_by_words),
            (self._tasks_with_labels, others._tasks_with_labels),
        ):
            if tells_apart(len(own), len(self._contents)) and tells_apart(
                len(other), len(others._contents)
            ):
                break
        else:
            return
        near = list[int]()
        for words in own.keys() & other.keys():
            theirs = set(other[words]).difference(leaving)
            answers = Counter(others._answers[task] for task in theirs)
            for task in set(own[words]):
                same = answers[self._answers[task]] if is_within else len(theirs)
                # in another split the task itself is no near-duplicate, whatever is beside it
                if same > (task in theirs) and (is_within or task not in theirs):
                    near.append(task)
        if near:
            apart = " and labels" if is_within else ", answers and labels"
            yield SplitWarning(
                f"{counted(len(near), 'says', 'say')} the same as another {where}, apart from "
                f"case, spaces, punctuation, empty fields{apart}.",
                _examples(near),
            )

    @property
    def tasks(self) -> Collection[int]:
        """The tasks that were read."""
        return self._answers.keys()


def opposite_splits(environment: int, type: str) -> QuerySet[Split]:
    """Return the served splits of an environment that have another type."""
    rows = Split.objects.filter(environment=environment, is_served=True).exclude(type=type)
    return rows.order_by("position", "name")


def leaks_of_split(
    split: Split, *, hidden_fields: Collection[str] = (), most: int | None = None
) -> LeakReport:
    """Return what a split shares with those of another type, and what it has twice. `hidden_fields`: as
    for `Contents`.

    At most `most` tasks are read, MAX_READ by default.
    """
    places = _served(split)
    others = list(opposite_splits(split.environment_id, split.type).exclude(pk=split.pk))
    warnings = list[SplitWarning]()
    rows = places.order_by("task").values("task").annotate(places=Count("pk"))
    copies = rows.filter(places__gt=1)
    if count := copies.count():
        examples = tuple(row["task"] for row in copies[:MAX_EXAMPLES])
        warnings.append(
            SplitWarning(f"{counted(count, 'is', 'are')} in it more than once.", examples)
        )
    warnings += _same_contents(places.values("task"), others)
    if unread := unread_sentence(split.size, others, most):
        return LeakReport(tuple(warnings), unread)
    warnings += _contents_of(places, hidden_fields).warnings(others, "in the same split")
    return LeakReport(tuple(warnings))


def leaks_of_tasks(
    tasks: QuerySet[Task],
    others: Collection[Split],
    *,
    target: Split | None = None,
    source: Split | None = None,
) -> LeakReport:
    """Return what tasks share with the splits `others`, and what they have twice among themselves.

    target: the split that they are put into; copies are looked for in it, too.
    source: a split of another type that they leave, and where copies of them may stay.
    """
    warnings = list(_same_contents(tasks.values("pk"), others))
    splits = [*others, *(split for split in (target, source) if split)]
    if unread := unread_sentence(tasks.count(), splits):
        return LeakReport(tuple(warnings), unread)
    own = Contents(_read_contents(tasks, "pk", "spec"))
    warnings += own.warnings(others, "of them", target)
    if source is not None:
        warnings += own.near(source, own.tasks)
    return LeakReport(tuple(warnings))


def _same_contents(tasks: QuerySet[Any], others: Iterable[Split]) -> Iterator[SplitWarning]:
    """Yield a warning for each of the splits that serves some of the tasks, of which `tasks` has
    the ids alone."""
    for other in others:
        common = (
            _served(other).filter(task__in=tasks).order_by("task").values_list("task", flat=True)
        )
        if count := common.aggregate(count=Count("task", distinct=True))["count"]:
            yield same_warning(count, other, tuple(common.distinct()[:MAX_EXAMPLES]))


def same_warning(count: int, other: Split, examples: tuple[int, ...] = ()) -> SplitWarning:
    which = counted(count, "is", "are")
    return SplitWarning(f"{which} also {_named(other)}, so one cannot test the other.", examples)


def _digest(words: Sequence[str]) -> bytes:
    return blake2b(" ".join(words).encode("utf-8", "surrogatepass"), digest_size=12).digest()


def unread_sentence(count: int, others: Iterable[Split], most: int | None = None) -> str:
    """Return what is not looked for, where `count` tasks and those of `others` are more than
    `most`; or empty."""
    most = MAX_READ if most is None else most
    total = count + sum(other.size for other in others)
    if total <= most:
        return ""
    more = f" The page of a split reads up to {MAX_READ_ON_REQUEST:,} on request." * (
        most < MAX_READ_ON_REQUEST
    )
    return (
        "Tasks with the same content were looked for. Near-duplicates and readable answers were "
        "not, because "
        f"that takes reading {total:,} tasks, and at most {most:,} are read here.{more}"
    )


def _read_contents(
    rows: QuerySet[Any], task: str, spec: str
) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """Yield each task with its content; None: that has more than MAX_READ_CHARACTERS. `task`,
    `spec`: columns."""
    heads = rows.annotate(head=Left(spec, MAX_READ_CHARACTERS + 1)).values_list(task, "head")
    for pk, head in heads.iterator(2000):
        try:
            value = json.loads(head) if len(head) <= MAX_READ_CHARACTERS else None
        except (ValueError, RecursionError):
            value = None
        yield pk, value if isinstance(value, dict) else None


def _served(split: Split) -> QuerySet[SplitEntry]:
    return places_of(split).filter(is_hidden=False).order_by("position")


def _contents_of(places: QuerySet[SplitEntry], hidden_fields: Collection[str] = ()) -> Contents:
    return Contents(_read_contents(places, "task_id", "task__spec"), hidden_fields)


def _named(split: Split) -> str:
    return f"in the {split.type} split {split.name!r}"


def _examples(tasks: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(task for task in set(tasks) if task > 0)[:MAX_EXAMPLES])
