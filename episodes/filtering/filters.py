"""EpisodeFilter: the filter of episodes that the addresses of pages, of the API and of exports have
in common. Each parameter is declared with the condition on episodes that it means; `conditions.py`
has those that depend on several parameters.

Most indexes of episodes are partial, and a database takes one only where the query repeats what the
index is limited to, so a condition repeats that too (`~Q(model="")`, `ENDED`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import reduce
from operator import or_
from typing import Any, Self

from django.db.models import Q, Value
from django.db.models.functions import StrIndex
from django.db.models.lookups import GreaterThan
from django.utils import timezone

from environments import features
from environments.filtering.filters import Filters, Parameter, choice, parameter
from environments.filtering.parameters import (
    BadFilter,
    LabelValues,
    WholeRange,
    WholeRanges,
    any_text,
    count_in,
    flag,
    label_values,
    moment,
    person,
    real,
    stretch,
    stretches,
)
from environments.models import Task, Viewer
from environments.models.viewer import visible_environments
from environments.scoring.convention import CONVENTION_PARTS, Treatment
from environments.scoring.definition import DEFINITION_PARAMETERS, DefinitionOverrides
from environments.scoring.returns import RETURNS, Return
from environments.wire import value_json
from episodes.attempts.rule import ENDED
from episodes.filtering.names import models, people, revision_ids, revisions, studies, unknown
from episodes.models import Episode, Play, Study
from episodes.models.privacy import played_with

_CAUSES = dict(Episode.CAUSES)
ENDINGS: Mapping[str, str] = {
    "running": "running",
    "finished": _CAUSES["finished"],
    "abandoned": _CAUSES["abandoned"],
    "expired": _CAUSES["expired"],
    "no_call": _CAUSES["no_call"],
    "setup_failed": _CAUSES["setup_failed"],
    "env_error": _CAUSES["env_error"],
    "interrupted": _CAUSES["interrupted"],
    "failure": "infrastructure failure",
    "probe": "not played",
    "continued": "continued",
    "attempt": "attempt",
}
"""Labels of the values of `ending`. Each cause finds the endings that figures count under it:
without probes and, unless the infrastructure failed, without plays of people that no figure counts.
`failure` finds all infrastructure failures, `continued` finds people's plays that no figure counts
(continuations, repeats, and what was left in a study that does not count it), and `attempt` finds
what statistics count."""
PLAYERS = {"agent": "agents", "human": "people", "script": "scripted players"}
"""Labels of the kinds of players, as pages show them."""
PLAYER_CHOICES = {**PLAYERS, "others": "agents and scripted players"}
"""Labels of the values of `player`. `others` finds everyone except people."""
SPLIT_NEEDS_ENVIRONMENT = "splits belong to an environment; name it too, as environment="


def _treatment(part: str, episodes: str, usual: str) -> Any:
    """Return the field of a part of the convention that decides which episodes are attempts; None
    leaves it to the environment."""
    labels = {"keep": "with its return", "zero": "as 0", "out": "not"}
    return choice(
        {treatment: labels[treatment] for treatment in CONVENTION_PARTS[part]},
        f"How {episodes} count; default: as the environment declares, else `{usual}`",
        label=f"{_CAUSES[part]} counts",
        is_condition=False,
    )


def by_task(pk: int, viewer: Viewer) -> Q | str:
    if Task.objects.seen_by(viewer).filter(pk=pk).exists():
        return Q(task=pk)
    return f"There is no task {pk}; a task's number is in the address of its page."


def by_step(steps: WholeRange, viewer: Viewer) -> Q:
    if steps.low == steps.high:
        return Q(run_step=steps.low)
    return Q(run_step__gte=steps.low, run_step__lte=steps.high)


def by_model(name: str, viewer: Viewer) -> Q | str:
    condition = Q(model=name) & ~Q(model="")
    if Episode.objects.filter(visible_environments(viewer), condition).exists():
        return condition
    return unknown("model", name, models(viewer))


def by_revision(code: str, viewer: Viewer) -> Q | str:
    rows = revision_ids(code, viewer)
    if not rows:
        return unknown("revision", code, revisions(viewer))
    # an index gives the episodes of one row in order
    return Q(revision=rows[0]) if len(rows) == 1 else Q(revision__in=rows)


def by_labels(labels: LabelValues, viewer: Viewer) -> Q:
    """Return the condition on labels, which are stored as compact JSON: a pair of name and value is
    a part of it."""
    condition = Q()
    for label in labels:
        pairs = [value_json({label.name: value})[1:-1] for value in label.values]
        condition &= reduce(
            or_, (Q(GreaterThan(StrIndex("labels", Value(pair)), 0)) for pair in pairs)
        )
    return condition


def by_person(label: str, viewer: Viewer) -> Q | str:
    if Episode.objects.by_people().seen_by(viewer).filter(key_label=label).exists():
        return played_with(label)
    return unknown("player", label, people(viewer))


def by_study(name: str, viewer: Viewer) -> Q | str:
    if Study.objects.seen_by(viewer).filter(name=name).exists():
        return Q(pk__in=Play.objects.filter(guest__invite__study__name=name).values("pk"))
    return unknown("study", name, studies(viewer))


def by_error(has_error: bool, viewer: Viewer) -> Q:
    if has_error:
        return Q(refused_count__gt=0) | Q(failed_count__gt=0)
    return ENDED & Q(refused_count=0, failed_count=0)


def by_bound(lookup: str) -> Callable[[float, Viewer], Q]:
    """Return what narrows by a figure, which only ended episodes have, such as
    `steps_count__gte`."""
    return lambda limit, viewer: ENDED & Q(**{lookup: limit})


def by_endings(ranges: WholeRanges, viewer: Viewer) -> Q:
    # the range around all of them is what leads to the index
    around = min(part.low for part in ranges), max(part.high for part in ranges)
    parts = reduce(or_, (Q(end_number__range=part) for part in ranges))
    return ENDED & Q(end_number__range=around) & parts


def moment_of(text: str, now: datetime, *, is_end: bool = False) -> datetime:
    """Return the moment that a value of `since` or `until` names. The end of a day is that of the
    whole day."""
    if (span := _span_of(text)) is not None:
        return now - span
    time = datetime.fromisoformat(text)
    time = time if time.tzinfo else time.replace(tzinfo=UTC)
    is_day = len(text) <= len("2026-01-31")
    try:
        return time.astimezone(UTC) + timedelta(days=1 if is_end and is_day else 0)
    except OverflowError:  # beyond the first or last moment that a database and Python can name
        return (datetime.min if time.year == 1 else datetime.max).replace(tzinfo=UTC)


def _span_of(text: str) -> timedelta | None:
    """Return the span that `text` names, such as 24h; None for a date or time."""
    if text[-1] not in "mhdw" or not text[:-1].isdecimal():
        return None
    unit = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}[text[-1]]
    return timedelta(**{unit: int(text[:-1])})


@dataclass(frozen=True)
class EpisodeFilter(Filters):
    """A filter of episodes, which `Filters.parse` reads from an address. Every field is None where
    the address does not set it. Ranges include both ends."""

    environment: str | None = parameter(any_text, "Name of an environment")
    split: str | None = parameter(any_text, "Name of one of its splits; needs `environment`")
    task: int | None = parameter(
        count_in, "Number of a task", kind=int, narrow=by_task, is_of_tasks=True
    )
    run: str | None = parameter(any_text, "Name of a run")
    step: WholeRange | None = parameter(
        stretch,
        "Training step, such as `7`, or several, such as `7..9`",
        label="training step",
        narrow=by_step,
        is_bound=True,
        is_indexed=False,
    )
    model: str | None = parameter(any_text, "Name of a model", narrow=by_model)
    revision: str | None = parameter(
        any_text,
        "Revision of the environment's code: eight or more digits of its `code`",
        narrow=by_revision,
    )
    label: LabelValues | None = parameter(
        label_values,
        "A label and its value, or several, such as `seed=3,4;arm=b`",
        example="seed=3,4;arm=b",
        narrow=by_labels,
        is_indexed=False,
    )
    """Values of labels, which are further `orsweb_…` values of the client."""
    ending: str | None = choice(
        ENDINGS,
        "`running`, a cause, `failure` (an infrastructure failure), `probe` (not played: without "
        "a tool call, and nothing says that an agent was given the task), `continued` (a "
        "person's repeat, or from another episode), or `attempt` (what statistics count)",
    )
    player: str | None = choice(PLAYER_CHOICES, "Kind of player")
    who: str | None = parameter(
        person, "The person who played, such as `@alice`", label="played by", narrow=by_person
    )
    study: str | None = parameter(any_text, "Name of a study, whose people played", narrow=by_study)
    definition: Return | None = choice(
        RETURNS,
        "Definition of the return for `return_from`, `return_to` and sorting; default: that of the "
        "environment, else the sum",
        name="return",
        is_condition=False,
    )
    threshold: float | None = parameter(
        real,
        "A return above it is a success; default: that of the environment, else 0.9",
        label="success",
        kind=float,
        is_condition=False,
    )
    no_call: Treatment | None = _treatment(
        "no_call", "agents' episodes without a tool call", "zero"
    )
    expired: Treatment | None = _treatment("expired", "expired episodes", "keep")
    interrupted: Treatment | None = _treatment("interrupted", "interrupted episodes", "out")
    env_error: Treatment | None = _treatment(
        "env_error", "episodes with a failed environment", "out"
    )
    success: bool | None = parameter(
        flag,
        "Whether an attempt is a success; what no figure counts is neither",
        choices={"yes": "yes", "no": "no"},
        is_indexed=False,
    )
    return_from: float | None = parameter(real, "Minimum return", kind=float, is_bound=True)
    return_to: float | None = parameter(real, "Maximum return", kind=float, is_bound=True)
    steps_from: int | None = parameter(
        count_in,
        "Minimum number of steps",
        kind=int,
        narrow=by_bound("steps_count__gte"),
        is_bound=True,
    )
    steps_to: int | None = parameter(
        count_in,
        "Maximum number of steps",
        kind=int,
        narrow=by_bound("steps_count__lte"),
        is_bound=True,
    )
    error: bool | None = parameter(
        flag,
        "Whether a call was refused or failed",
        label="tool error",
        choices={"yes": "yes", "no": "no"},
        narrow=by_error,
    )
    since: str | None = parameter(
        moment,
        "Started at this time or later: an ISO date or time, or a span before now such as `24h` or "
        "`7d`",
        narrow=lambda text, viewer: Q(created__gte=moment_of(text, timezone.now())),
        is_bound=True,
    )
    """ISO date or time, UTC unless it says otherwise; or a span before now, such as 24h."""
    until: str | None = parameter(
        moment,
        "Started before this time, in the same format as `since`",
        narrow=lambda text, viewer: Q(created__lt=moment_of(text, timezone.now(), is_end=True)),
    )
    """Exclusive end, in the same format as `since`; a date includes its day. No bound: that every
    episode is older is reason to remove them, and `refuse_future` knows an end that leaves nothing
    out."""
    text: str | None = parameter(
        any_text,
        'Words, "words in a row" and prefix* in the transcript; finds the newest 50,000 episodes',
    )
    ends_from: int | None = parameter(
        count_in,
        "Minimum `end_number`",
        label="ending order",
        kind=int,
        narrow=by_bound("end_number__gte"),
        is_bound=True,
    )
    ends_to: int | None = parameter(
        count_in,
        "Maximum `end_number`",
        label="ending order",
        kind=int,
        narrow=by_bound("end_number__lte"),
        is_bound=True,
    )
    ends: WholeRanges | None = parameter(
        stretches,
        "Ranges of `end_number`, both ends included, such as `3..5,9`",
        label="ending order",
        narrow=by_endings,
        is_bound=True,
    )

    @classmethod
    def of_features(cls) -> Sequence[Parameter]:
        return features.named("episode_filters")

    @property
    def definition_alone(self) -> EpisodeFilter:
        """The filter of all episodes, with the parts of a definition that this one gives."""
        names = DEFINITION_PARAMETERS
        return self.of({name: self.value(name) for name in names}, self.viewer)

    def check(self) -> None:
        if self.split is not None and self.environment is None:
            raise BadFilter("split", self.split, SPLIT_NEEDS_ENVIRONMENT)
        if self.player not in (None, "human"):
            for name, what in (("who", "have names"), ("study", "play studies")):
                if (value := self.value(name)) is not None:
                    reason = f"only people {what}; remove player={self.player}"
                    raise BadFilter(name, value, reason)
        super().check()

    def without(self, name: str) -> Self:
        """Return the filter without a parameter. Without the environment there is no split
        either."""
        rest = super().without(name)
        return replace(rest, split=None) if name == "environment" else rest

    def words_of(self, name: str, text: str) -> tuple[str, str]:
        label, value = super().words_of(name, text)
        if name in ("return_from", "return_to") and self.definition:
            return f"return ({self.definition})", value
        if name == "threshold":
            return label, f"> {value}"
        if name == "ends" and self.ends and len(self.ends) > 3:
            return label, f"{self.ends[0]} and {len(self.ends) - 1} more ranges"
        if name == "since" and _span_of(text) is not None:
            return "within", text
        return label, value

    @property
    def overrides(self) -> DefinitionOverrides:
        """The parts of the definition that the filter gives."""
        return DefinitionOverrides(
            self.definition,
            self.threshold,
            self.no_call,
            self.expired,
            self.interrupted,
            self.env_error,
        )

    @property
    def is_of_people(self) -> bool:
        """Return whether the filter finds only episodes that people played, who are few."""
        return self.player == "human" or self.who is not None or self.study is not None

    @property
    def is_of_tasks(self) -> bool:
        """Whether the filter names tasks."""
        return any(row.is_of_tasks for row in self.parameters_in_address)

    def refuse_future(self) -> None:
        """Refuse an end in the future, by which everything would be deleted or played again.
        Raises: BadFilter."""
        now = datetime.now(UTC)
        if self.until is not None and moment_of(self.until, now, is_end=True) > now:
            raise BadFilter(
                "until",
                self.until,
                f"it is after now ({now:%Y-%m-%dT%H:%M} UTC), so it leaves nothing out",
            )
