"""Tasks that splits of different types share, and copies within a split.

A task is its content, so the database finds the same content in any number of tasks, and that with
other invisible characters. Near-duplicates, which say the same apart from case, spaces,
punctuation, empty fields, answers and
labels, are found by reading contents. Whoever asks says how many may be read; where that is too
few, a sentence says so.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from django.db.models import Count, QuerySet
from django.db.models.functions import Left

from environments.curation.split_counts import tasks as counted
from environments.database.json_rows import among
from environments.display.task_line import MAX_READ_CHARACTERS
from environments.display.text_comparison import readable_answer, tells_apart, words_of
from environments.invisible import IGNORABLE_IN_JSON, without_invisible
from environments.models import Split, SplitEntry, Task
from environments.tasks.task_hash import content_hash
from environments.tasks.task_places import places_of

MAX_READ_BY_PAGE = 3000
"""Tasks that the page of a split reads without being asked to, with those of the splits that they
are compared with."""
MAX_READ = 25_000
"""Tasks that a preview of an action reads, with those that they are compared with: about a
second."""
MAX_READ_ON_REQUEST = 100_000
MAX_EXAMPLES = 5
_INVISIBLE = re.compile(IGNORABLE_IN_JSON, re.IGNORECASE)
_APART = "apart from case, spaces, punctuation, empty fields"


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
        self._long, self._contents = 0, set[bytes]()
        self._tasks_by_words = defaultdict[bytes, list[int]](list)
        self._tasks_with_labels = defaultdict[bytes, list[int]](list)
        self._answers = dict[int, int]()
        self._tasks_by_answer, self._hidden = defaultdict[str, list[int]](list), hidden_fields
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

    def unread(self, where: str = "") -> Iterator[SplitWarning]:
        """Yield a warning if some of the tasks were too long. `where`: words for their place."""
        if self._long:
            is_long = "is too long or too deep" if self._long == 1 else "are too long or too deep"
            words = (
                f"{counted(self._long)}{where} {is_long} to be read: only the same content was "
                "looked for."
            )
            yield SplitWarning(words)

    def readable(self) -> Iterator[SplitWarning]:
        """Yield a warning for each field with answers that agents can read in another one, and what
        `unread` does."""
        yield from self.unread()
        for name, tasks in sorted(self._tasks_by_answer.items()):
            words = (
                f"The field {name!r} of {counted(len(tasks))} shows in another field that agents "
                "see."
            )
            yield SplitWarning(words, _examples(tasks))

    def near(
        self, others: Contents, where: str, leaving: Collection[int] = ()
    ) -> Iterator[SplitWarning]:
        """Yield a warning if some of the tasks say the same as tasks in the split `others`, which
        are not the same.

        where: words for the place of `others`; leaving: tasks that are in `others` no longer.
        """
        yield from self._near(others, where, leaving, is_within=False)

    def copies(
        self, others: Contents, where: str, leaving: Collection[int] = ()
    ) -> Iterator[SplitWarning]:
        """Yield the same about tasks of one split, which may be these.

        With another answer, as of a number to be guessed, a task of the same split is another task.
        """
        yield from self._near(others, where, leaving, is_within=True)

    def _near(
        self, others: Contents, where: str, leaving: Collection[int], *, is_within: bool
    ) -> Iterator[SplitWarning]:
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
            answers = Counter(others._answers[task] for task in theirs) if is_within else Counter()
            for task in set(own[words]):
                if is_within:
                    is_near = answers[self._answers[task]] > (task in theirs)
                else:
                    is_near = bool(theirs) and task not in theirs
                near += [task] * is_near
        if near:
            says, apart = (
                counted(len(near), "says", "say"),
                " and labels" if is_within else ", answers and labels",
            )
            yield SplitWarning(
                f"{says} the same as another {where}, {_APART}{apart}.", _examples(near)
            )

    @property
    def tasks(self) -> set[int]:
        return {task for tasks in self._tasks_by_words.values() for task in tasks}


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
    warnings = [*_repeated(places), *same_contents(places.values("task"), others)]
    warnings += InvisibleCopies(others).of(places.values("task"), "in the same split")
    if unread := unread_sentence(split.size, others, most):
        return LeakReport(tuple(warnings), unread)
    own = _contents_of(places, hidden_fields)
    warnings += [
        *near_contents(own, others),
        *own.copies(own, "in the same split"),
        *own.readable(),
    ]
    return LeakReport(tuple(warnings))


def leaks_of_tasks(
    tasks: QuerySet[Task],
    others: Collection[Split],
    *,
    target: Split | None = None,
    source: Split | None = None,
    most: int | None = None,
) -> LeakReport:
    """Return what tasks share with the splits `others`, and what they have twice among themselves.

    target: the split that they are put into; copies are looked for in it, too.
    source: a split of another type that they leave, and where copies of them may stay.
    """
    warnings = list(same_contents(tasks.values("pk"), others))
    warnings += InvisibleCopies([*others, *([source] if source else [])], target).of(
        tasks.values("pk"), "of them", source
    )
    splits = [*others, *(split for split in (target, source) if split)]
    if unread := unread_sentence(tasks.count(), splits, most):
        return LeakReport(tuple(warnings), unread)
    own = Contents(read_contents(tasks, "pk", "spec"))
    warnings += near_contents(own, others)
    if source is not None:
        warnings += own.near(_contents_of(_served(source)), _named(source), own.tasks)
    warnings += [*own.readable(), *copies_within(own, target)]
    return LeakReport(tuple(warnings))


def _repeated(places: QuerySet[SplitEntry]) -> Iterator[SplitWarning]:
    copies = (
        places.order_by("task").values("task").annotate(places=Count("pk")).filter(places__gt=1)
    )
    if count := copies.count():
        examples = tuple(row["task"] for row in copies[:MAX_EXAMPLES])
        yield SplitWarning(f"{counted(count, 'is', 'are')} in it more than once.", examples)


def copies_within(
    own: Contents, target: Split | None, leaving: Collection[int] = ()
) -> Iterator[SplitWarning]:
    """Yield the near-duplicates of tasks among themselves, and in the split that they are put
    into."""
    yield from own.copies(own, "of them")
    if target is not None:
        yield from own.copies(
            _contents_of(_served(target)), f"in split {target.name!r} itself", leaving
        )


def same_contents(tasks: QuerySet[Any], others: Iterable[Split]) -> Iterator[SplitWarning]:
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


class InvisibleCopies:
    """Finds tasks that differ from others by invisible characters alone, by the hash that they have
    without."""

    def __init__(self, others: Iterable[Split], target: Split | None = None) -> None:
        """Compare with the splits `others`, and with the one that tasks are put into."""
        self._target, self._own = target, defaultdict[str, set[int]](set)
        splits = [*others, *([target] if target else [])]
        self._marked = {other: _by_plain_hash(_served(other).values("task")) for other in splits}
        self._known = {digest for tasks in self._marked.values() for digest in tasks}

    def add(self, task: int, digest: str, text: str) -> None:
        """Compare a content with that hash. It need not be a task yet: `task` is a negative number
        then."""
        plain = plain_hash(text) or digest
        if plain != digest or plain in self._known:
            self._own[plain].add(task)

    def of(
        self, tasks: QuerySet[Any], where: str, source: Split | None = None
    ) -> Iterator[SplitWarning]:
        """Yield the warnings of tasks that exist, also of copies among them. The queryset has their
        ids alone.

        where: words for their place; source: one of the splits that they are compared with, which
        they leave.
        """
        self._own = _by_plain_hash(tasks)
        for digest, task in _with_hashes(tasks, self._known | self._own.keys()):
            self._own[digest].add(task)
        copies = [task for same in self._own.values() if len(same) > 1 for task in same]
        if copies:
            yield _invisible_warning(copies, where)
        yield from self.warnings({source: set().union(*self._own.values())} if source else {})

    def warnings(self, leaving: Mapping[Split, Collection[int]]) -> Iterator[SplitWarning]:
        """Yield a warning for each split with copies. `leaving`: tasks that are in a split no
        longer."""
        for other, tasks_by_hash in self._marked.items():
            theirs = defaultdict[str, set[int]](
                set, {digest: set(same) for digest, same in tasks_by_hash.items()}
            )
            for digest, task in _with_hashes(_served(other).values("task"), self._own):
                theirs[digest].add(task)
            departures = leaving.get(other, ())
            own = (
                (task, theirs[digest].difference(departures))
                for digest, same in self._own.items()
                for task in same
            )
            if copies := [task for task, same in own if same - {task}]:
                where = (
                    f"in split {other.name!r} itself" if other == self._target else _named(other)
                )
                yield _invisible_warning(copies, where)


def _digest(words: Sequence[str]) -> bytes:
    return blake2b(" ".join(words).encode("utf-8", "surrogatepass"), digest_size=12).digest()


def plain_hash(text: str) -> str:
    """Return the hash of the JSON text of a content without invisible characters; empty if it has
    none."""
    if not _INVISIBLE.search(text) or (value := _json(text)) is None:
        return ""
    return content_hash(without_invisible(json.dumps(value, ensure_ascii=False)))


def _by_plain_hash(tasks: QuerySet[Any]) -> defaultdict[str, set[int]]:
    """Return those of the tasks, of which the queryset has the ids alone, that have invisible
    characters.

    At most MAX_READ_ON_REQUEST are read.
    """
    rows = Task.objects.filter(pk__in=tasks, folded__isnull=False, spec__iregex=IGNORABLE_IN_JSON)
    tasks_by_hash = defaultdict[str, set[int]](set)
    for pk, text in rows.values_list("pk", "spec")[:MAX_READ_ON_REQUEST].iterator(2000):
        if plain := plain_hash(text):
            tasks_by_hash[plain].add(pk)
    return tasks_by_hash


def _with_hashes(tasks: QuerySet[Any], hashes: Iterable[str]) -> Iterable[tuple[str, int]]:
    rows = (
        Task.objects.filter(among("content_hash", hashes), pk__in=tasks)
        if hashes
        else Task.objects.none()
    )
    return rows.values_list("content_hash", "pk")


def _invisible_warning(tasks: Collection[int], where: str) -> SplitWarning:
    says = counted(len(tasks), "is a copy", "are copies")
    return SplitWarning(
        f"{says} of another {where}, apart from invisible characters.", _examples(tasks)
    )


def near_contents(
    own: Contents, others: Iterable[Split], leaving: Collection[int] = ()
) -> Iterator[SplitWarning]:
    """Yield a warning for each of the splits in which other tasks say the same as some of `own`.

    `leaving`: tasks that leave every split that is not frozen.
    """
    for other in others:
        contents = _contents_of(_served(other))
        yield from contents.unread(f" {_named(other)}")
        yield from own.near(contents, _named(other), () if other.frozen else leaving)


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


def mark_of(sentences: Collection[str]) -> str:
    """Return what a form sends back to say that these warnings were shown; empty without any."""
    return hashlib.sha256("\n".join(sentences).encode()).hexdigest() if sentences else ""


def read_contents(
    rows: QuerySet[Any], task: str, spec: str
) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """Yield each task with its content; None: that has more than MAX_READ_CHARACTERS. `task`,
    `spec`: columns."""
    heads = rows.annotate(head=Left(spec, MAX_READ_CHARACTERS + 1)).values_list(task, "head")
    for pk, head in heads.iterator(2000):
        value = _json(head) if len(head) <= MAX_READ_CHARACTERS else None
        yield pk, value if isinstance(value, dict) else None


def _served(split: Split) -> QuerySet[SplitEntry]:
    return places_of(split).filter(is_hidden=False).order_by("position")


def _contents_of(places: QuerySet[SplitEntry], hidden_fields: Collection[str] = ()) -> Contents:
    return Contents(read_contents(places, "task_id", "task__spec"), hidden_fields)


def _named(split: Split) -> str:
    return f"in the {split.type} split {split.name!r}"


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _examples(tasks: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(task for task in set(tasks) if task > 0)[:MAX_EXAMPLES])
