"""The filters of a selection, as parameters of an address or a form and as a condition on Task."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, Self

from django.db.models import Q, QuerySet

from environments.curation.filter_conditions import (
    is_flagged,
    is_from,
    is_in_bucket,
    is_in_split,
    is_tagged,
)
from environments.curation.spec_fields import problem_of
from environments.curation.task_search import empty_term, field_tests, matches
from environments.curation.task_states import STATES, is_in_state
from environments.database.storable import id_in
from environments.display.addresses import no_such
from environments.errors import OrsError, shorten
from environments.models import Environment, Viewer
from environments.models.viewer import visible_tasks
from environments.scoring.task_buckets import BUCKETS

MAX_IDS = 10_000
SOURCES = ("code", "import", "edit", "played", "dropped")
SERVED = "served"
ANY_STATE = "any"
STATES_ASKED = (*STATES, "active", ANY_STATE)
"""Values of the parameter `state`; without it, a list means what is served."""
FLAGS = ("open",)
SORTS = (
    "index",
    "task",
    "environment",
    "tags",
    "splits",
    "attempts",
    "return",
    "success",
    "bucket",
)


class InvalidFilter(OrsError):
    """A parameter whose value cannot be used, and what is allowed. Without it, a selection would
    hold more tasks."""

    def __init__(self, name: str, value: str, allowed: str) -> None:
        super().__init__(f"{name}={shorten(value, 80)!r} cannot be used: {allowed}.")


@dataclass(frozen=True, slots=True)
class Filters:
    """Tasks that satisfy every given filter; with `ids` only these tasks, of the environment if one
    is given."""

    environment: int | None = None
    split: int | None = None
    """Tasks in this split, quarantined ones included unless the state is `served`."""
    tag: str = ""
    state: (
        Literal["", "served", "quarantined", "superseded", "removed", "pasted", "active"] | str
    ) = ""
    """State of the task, as `task_states` defines them; with a split, `served` means by that split.
    `active`: every task that is not quarantined. Empty: any state, which an address writes as
    `any`."""
    source: Literal["", "code", "import", "edit", "played", "dropped"] | str = ""
    """Where the task came from first; or `dropped`: a class listed it once and no longer does."""
    bucket: Literal["", "unseen", "hopeless", "learnable", "saturated"] | str = ""
    """Bucket of its success rate, by the thresholds in the settings."""
    search: str = ""
    """Words that the spec holds, in any order, as written or as JSON escapes them, with phrases in
    double quotes; upper and lower case of ASCII letters are the same. Tests of fields such as
    `difficulty:3` or `answer>10`; see `task_search`. Or the hash of the task, or its first eight
    digits or more."""
    sort: str = ""
    """Column of SORTS by which batches are sorted, with `-` before it for the greatest first.
    Empty: the order of the split, or the newest task first. It does not change which tasks are
    selected."""
    ids: tuple[int, ...] = ()
    flags: Literal["", "open"] | str = ""
    """`open` selects tasks that were flagged as broken and that no curator has settled."""
    viewer: Viewer = field(kw_only=True)
    """Who asks. Not a parameter."""

    @classmethod
    def parse(
        cls, values: Mapping[str, str], viewer: Viewer, *, also: Collection[str] = ()
    ) -> Self:
        """Return the filters in the parameters of an address or a form, named like the fields;
        commas join `ids`.

        Without `ids` and `state` they select what is served. `also`: names of the page's own
        parameters; others are refused, because a mistyped filter would select everything. Raises:
        InvalidFilter.
        """
        for name, value in values.items():
            if name not in PARAMETERS and name not in also:
                raise InvalidFilter(
                    name, value, no_such(name, sorted(PARAMETERS), "filter of tasks", "filters")
                )
        found = cls(
            environment=_number(values, "environment"),
            split=_number(values, "split"),
            tag=values.get("tag", ""),
            state=_state(values),
            source=_one_of(SOURCES, values, "source"),
            bucket=_one_of(BUCKETS, values, "bucket"),
            flags=_one_of(FLAGS, values, "flags"),
            search=values.get("search", "").strip(),
            sort=_sort(values),
            ids=_ids(values.get("ids", "")),
            viewer=viewer,
        )
        found.check_search()
        return found

    def check_search(self) -> None:
        """Refuse terms of the search that every task has, and tests of fields that no task has.

        Raises: InvalidFilter.
        """
        if empty := empty_term(self.search):
            raise InvalidFilter("search", empty, "it has no character to look for")
        tests = field_tests(self.search)
        for test in tests:
            if test.is_order and test.number is None:
                raise InvalidFilter("search", str(test), f"after {test.operator} comes a number")
        for environment in self._environments() if tests else ():
            for test in tests:
                if problem := problem_of(test, environment):
                    raise InvalidFilter("search", str(test), problem)

    def _environments(self) -> QuerySet[Environment]:
        """Return the environment that all the tasks belong to; nothing if they may belong to
        several."""
        shown = Environment.objects.seen_by(self.viewer)
        if self.environment is not None:
            return shown.filter(pk=self.environment)
        return shown.none() if self.split is None else shown.filter(splits=self.split)

    def values(self) -> dict[str, str]:
        """Return the parameters that `parse` reads, without fields that are not given."""
        given = {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if field.name != "viewer"
        }
        default, unlimited = ("", "") if self.ids else (SERVED, ANY_STATE)
        given["state"] = "" if self.state == default else self.state or unlimited
        return {
            name: _written(value) for name, value in given.items() if value not in (None, "", ())
        }

    @property
    def is_served_by_split(self) -> bool:
        """Return whether it means the tasks that one split serves, which its places say."""
        return self.split is not None and not self.ids and self.state == SERVED

    def condition(self) -> Q:
        """Return all filters as one condition on a queryset of Task."""
        wanted = visible_tasks(self.viewer)
        wanted &= Q() if self.environment is None else Q(environment=self.environment)
        if self.ids:
            return wanted & Q(pk__in=self.ids)
        wanted &= (
            Q()
            if self.split is None
            else is_in_split(self.split, is_served=self.is_served_by_split)
        )
        wanted &= is_tagged(self.tag) if self.tag else Q()
        wanted &= is_in_state(self.state) if self.state and not self.is_served_by_split else Q()
        wanted &= is_from(self.source) if self.source else Q()
        wanted &= is_in_bucket(self.bucket) if self.bucket else Q()
        wanted &= is_flagged() if self.flags else Q()
        return wanted & (matches(self.search) if self.search else Q())


PARAMETERS = frozenset(field.name for field in fields(Filters)) - {"viewer"}
"""Names of the parameters that `Filters.parse` reads."""


def refuse_blanks(values: Mapping[str, str]) -> None:
    """Refuse blank filters where ignoring them would take more tasks than were meant. Raises:
    InvalidFilter."""
    for name in sorted(PARAMETERS & values.keys()):
        if not values[name].replace(",", " ").strip():
            raise InvalidFilter(name, values[name], "it is blank; give it a value or leave it out")


def _number(values: Mapping[str, str], name: str) -> int | None:
    if not (text := values.get(name, "")):
        return None
    if (number := id_in(text)) is None:
        article = "an" if name == "environment" else "a"
        raise InvalidFilter(name, text, f"it has to be the number of {article} {name}")
    return number


def _ids(text: str) -> tuple[int, ...]:
    found = [id_in(part) for part in text.split(",")[:MAX_IDS] if part]
    if None in found:
        raise InvalidFilter("ids", text, "they have to be numbers of tasks, separated by commas")
    return tuple(number for number in found if number is not None)


def _one_of(names: tuple[str, ...], values: Mapping[str, str], name: str) -> str:
    text = values.get(name, "")
    if text and text not in names:
        raise InvalidFilter(name, text, f"allowed are {', '.join(names)}")
    return text


def _state(values: Mapping[str, str]) -> str:
    asked = _one_of(STATES_ASKED, values, "state")
    default = "" if values.get("ids") else SERVED
    return "" if asked == ANY_STATE else asked or default


def _sort(values: Mapping[str, str]) -> str:
    if (text := values.get("sort", "")) and text.removeprefix("-") not in SORTS:
        raise InvalidFilter(
            "sort", text, f"allowed are {', '.join(SORTS)}, with - before it for the greatest first"
        )
    return text


def _written(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
