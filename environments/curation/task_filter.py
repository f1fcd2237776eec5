"""The filters of a selection of tasks, as parameters of an address or a form and as a condition on
Task."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Self

from django.db.models import Exists, OuterRef, Q, QuerySet

from environments import conf
from environments.curation.searchable_fields import problem_of
from environments.curation.task_search import empty_term, field_tests, matches
from environments.database.storable import id_in, is_storable
from environments.filtering.filters import Filters, choice, parameter
from environments.filtering.parameters import BadFilter, unknown_name
from environments.models import Environment, Task, TaskFlag, TaskTag, Viewer
from environments.models.viewer import visible_tasks
from environments.scoring.task_buckets import LABELS, tasks_in
from environments.tasks.task_places import places
from environments.tasks.task_states import SERVED, STATES, is_in_state

MAX_IDS = 10_000
SOURCES = {
    **{source: source for source, _ in Task.SOURCES},
    "dropped": "dropped from the code",
}
"""Labels of the values of `source`."""
ANY_STATE = "any"
STATE_CHOICES = (*STATES, "active", ANY_STATE)
"""Values of the parameter `state`; without it, a list means what is served."""
FLAGS = ("open",)
SORTS = ("attempts", "return", "success", "bucket")


def is_in_split(split: int, *, is_served: bool = False) -> Q:
    """Return the condition for tasks in the split, as one subquery of all of them: for queries over
    whole sets.

    `is_served`: only those that it serves.
    """
    rows = places(split)
    return Q(pk__in=(rows.filter(is_hidden=False) if is_served else rows).values("task"))


def is_tagged(tag: str) -> Q:
    if not is_storable(tag):
        return Q(pk__in=())
    return Q(Exists(TaskTag.objects.filter(name=tag, task=OuterRef("pk"))))


def _number_of(what: str) -> Callable[[str, str], int]:
    def parse(name: str, text: str) -> int:
        if (number := id_in(text)) is None:
            raise BadFilter(name, text, f"it has to be the number of {what}")
        return number

    return parse


def _ids(name: str, text: str) -> tuple[int, ...]:
    numbers = [id_in(part) for part in text.split(",")[:MAX_IDS] if part]
    if None in numbers:
        raise BadFilter(name, text, "they have to be numbers of tasks, separated by commas")
    return tuple(number for number in numbers if number is not None)


def _sort(name: str, text: str) -> str:
    if text.removeprefix("-") not in SORTS:
        choices = f"allowed are {', '.join(SORTS)}, with - before it for the greatest first"
        raise BadFilter(name, text, choices)
    return text


def _as_it_is(name: str, text: str) -> str:
    return text


@dataclass(frozen=True)
class TaskFilter(Filters):
    """Tasks that satisfy every given filter; with `ids` only these tasks, of the environment if one
    is given."""

    environment: int | None = parameter(_number_of("an environment"))
    split: int | None = parameter(_number_of("a split"))
    """Tasks in this split, quarantined ones included unless the state is `served`."""
    tag: str = parameter(
        _as_it_is, "Only tasks with this tag", default="", narrow=lambda tag, viewer: is_tagged(tag)
    )
    state: str = choice(
        STATE_CHOICES, "Tasks in this state; by default what is served now", default=""
    )
    """State of the task, as `task_states` defines them; with a split, `served` means by that split.
    `active`: every task that is not quarantined. Empty: any state, which an address writes as
    `any`."""
    source: str = choice(
        SOURCES,
        "Only tasks from this source",
        default="",
        narrow=lambda source, viewer: (
            Q(dropped__isnull=False) if source == "dropped" else Q(source=source)
        ),
    )
    """Where the task came from first; or `dropped`: a class listed it once and no longer does."""
    bucket: str = choice(
        LABELS,
        "Only tasks in this bucket of difficulty",
        default="",
        narrow=lambda bucket, viewer: tasks_in(bucket, conf.thresholds()),
    )
    """Bucket of its success rate, by the thresholds in the settings."""
    search: str = parameter(
        _as_it_is,
        "Only tasks with these words or fields, such as size:3",
        default="",
        narrow=lambda search, viewer: matches(search),
    )
    """Words that the spec holds, in any order, as written or as JSON escapes them, with phrases in
    double quotes; upper and lower case of ASCII letters are the same. Tests of fields such as
    `difficulty:3` or `answer>10`; see `task_search`. Or the hash of the task, or its first eight
    digits or more."""
    sort: str = parameter(_sort, default="", is_condition=False)
    """Column of SORTS by which batches are sorted, with `-` before it for the greatest first.
    Empty: the order of the split, or the newest task first. It does not change which tasks are
    selected."""
    ids: tuple[int, ...] = parameter(_ids, default=())
    flags: str = choice(
        FLAGS,
        default="",
        narrow=lambda flags, viewer: Q(
            Exists(TaskFlag.objects.filter(task=OuterRef("pk"), settled=None))
        ),
    )
    """`open` selects tasks that were flagged as broken and that no curator has settled."""

    @classmethod
    def unknown(cls, name: str, value: str, also: Collection[str]) -> BadFilter:
        # a mistyped filter would select everything; forms have too many fields to list them
        return unknown_name(name, value, sorted(cls.parameters()), "filter of tasks", "filters")

    @classmethod
    def of(cls, values: Mapping[str, Any], viewer: Viewer) -> Self:
        """Return the filter in an address, which without `ids` and `state` selects what is
        served."""
        state = values.get("state") or ("" if values.get("ids") else SERVED)
        return super().of({**values, "state": "" if state == ANY_STATE else state}, viewer)

    def text_of(self, name: str) -> str:
        if name != "state":
            return super().text_of(name)
        default, any_state = ("", "") if self.ids else (SERVED, ANY_STATE)
        return "" if self.state == default else self.state or any_state

    def check(self) -> None:
        """Refuse terms of the search that every task has, and tests of fields that no task has.

        Raises: BadFilter.
        """
        if empty := empty_term(self.search):
            raise BadFilter("search", empty, "it has no character to look for")
        tests = field_tests(self.search)
        for test in tests:
            if test.is_order and test.number is None:
                raise BadFilter("search", str(test), f"after {test.operator} comes a number")
        for environment in self._environments() if tests else ():
            for test in tests:
                if problem := problem_of(test, environment):
                    raise BadFilter("search", str(test), problem)

    def _environments(self) -> QuerySet[Environment]:
        """Return the environment that all the tasks belong to; nothing if they may belong to
        several."""
        rows = Environment.objects.seen_by(self.viewer)
        if self.environment is not None:
            return rows.filter(pk=self.environment)
        return rows.none() if self.split is None else rows.filter(splits=self.split)

    @property
    def is_of_served(self) -> bool:
        """Return whether it leaves out tasks because they are not served."""
        return self.state == SERVED and not self.ids

    @property
    def is_served_by_split(self) -> bool:
        """Return whether it means the tasks that one split serves, which its places say."""
        return self.split is not None and self.is_of_served

    def condition(self) -> Q:
        """Return all filters as one condition on a queryset of Task."""
        condition = visible_tasks(self.viewer)
        if self.environment is not None:
            condition &= Q(environment=self.environment)
        if self.ids:
            return condition & Q(pk__in=self.ids)
        if self.split is not None:
            condition &= is_in_split(self.split, is_served=self.is_served_by_split)
        if self.state and not self.is_served_by_split:
            condition &= is_in_state(self.state)
        return condition & self.condition_and_unknown_names()[0]
