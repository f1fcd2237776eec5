"""What a filter means in the database: the rows that it names, and the episodes that it finds, as
plain conditions.

Used by lists, counts, curves and exports. A name that does not exist gets a sentence with the
nearest ones.

Most indexes of episodes are partial, and a database takes one only where the query repeats what the
index is limited to, so a condition repeats that too (`~Q(model="")`, `ENDED`). SQLite prefers the
index of an equality to all others. It gets no statistics (`ANALYZE`), because with them it takes
worse indexes (docs/decisions/0017-plain-filters.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import F, Func, Q, Value
from django.db.models.functions import StrIndex
from django.db.models.lookups import Exact, GreaterThan
from django.db.models.sql.compiler import SQLCompiler
from django.utils import timezone

from environments.errors import OrsError, nearest
from environments.models import Environment, Split, Task
from environments.models.viewer import visible_environments
from environments.scoring.returns import RETURNS, Return
from environments.tasks.task_places import places
from environments.tasks.unknown_environment import unknown_environment
from environments.wire import value_json
from episodes.attempts.conventions import ConventionsInForce
from episodes.attempts.rule import ENDED, FAILURES, IS_UNCOUNTED_PLAY, AttemptQuerySet, is_attempt
from episodes.filtering.filters import BOUNDS, EpisodeFilter
from episodes.filtering.names import (
    MAX_NAMES,
    REVISION_DIGITS,
    models,
    people,
    revisions,
    runs,
    studies,
)
from episodes.models import (
    EnvironmentRevision,
    Episode,
    Play,
    Run,
    Study,
    Suite,
    SuiteMember,
    SuiteTask,
    SuiteVersion,
)
from episodes.models.privacy import (
    outside_open_studies,
    outside_seals,
    own_records,
    played_with,
)
from episodes.search.index import MAX_MATCHES, transcript_contains

MAX_NEAREST = 5
"""Number of names in the sentence about an unknown one."""
COUNTED_CAUSES = [cause for cause, _ in Episode.CAUSES if is_attempt(cause)]
"""Causes of the endings of attempts, and of probes."""


class Unindexed(Func):
    """A column that SQLite does not look up in an index. Of two equalities SQLite may choose the
    index of the one that most episodes meet, such as the environment instead of people. PostgreSQL
    has statistics and uses the plain column.
    """

    template = "%(expressions)s"
    arity = 1

    def as_sqlite(
        self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **extra: Any
    ) -> Any:
        return self.as_sql(compiler, connection, template="+%(expressions)s", **extra)


@dataclass(frozen=True, slots=True)
class NamedRows:
    """The rows that a filter names. Each is None when the filter names none, or one that does not
    exist."""

    environment: Environment | None
    split: Split | None
    run: Run | None
    members: Sequence[int]
    """Ids of the members of the version of a suite that the filter names, or of the one that it
    names."""
    revisions: Sequence[int]
    """Ids of the rows of the revision that the filter names; empty if it names none."""
    unknown: str
    """One sentence for each name that does not exist; empty when all exist."""

    @classmethod
    def of(cls, asked: EpisodeFilter) -> NamedRows:
        """Read the rows: one query for each name, and one more for each that is unknown."""
        sentences = list[str]()
        environment = split = run = None
        if asked.environment is not None:
            rows = Environment.objects.defer("card", "description").seen_by(asked.viewer)
            environment = rows.filter(name=asked.environment).first()
            if environment is None:
                sentences.append(unknown_environment(asked.environment, asked.viewer))
        if asked.split is not None and environment is not None:
            split = environment.splits.filter(name=asked.split).first()
            if split is None:
                names = environment.splits.values_list("name", flat=True)
                sentences.append(_unknown(f"split of {environment.name}", asked.split, names))
        if asked.run is not None:
            run = Run.objects.seen_by(asked.viewer).filter(name=asked.run).first()
            if run is None:
                sentences.append(_unknown("run", asked.run, runs(asked.viewer)))
        members = _members(asked)
        if asked.suite is not None and not members:
            sentences.append(_unknown("version of a suite", str(asked.suite), _suites(asked)))
        code = _revisions(asked)
        if asked.revision is not None and not code:
            sentences.append(_unknown("revision", asked.revision, revisions(asked.viewer)))
        sentences += (
            _unknown_task(asked)
            + _unknown_model(asked)
            + _unknown_person(asked)
            + _unknown_study(asked)
        )
        return cls(environment, split, run, members, code, " ".join(sentences))

    def conventions(self, asked: EpisodeFilter) -> ConventionsInForce:
        """Return the convention of the environment, or of each, with the filter's parts. One query
        at most."""
        return ConventionsInForce.of(self.environment, asked.asked)

    def definition(self, asked: EpisodeFilter) -> Return:
        """Return the definition of the return: the filter's, else the environment's, else the
        sum."""
        if asked.definition or self.environment is None:
            return asked.definition or "sum"
        own: Return | None = next(
            (known for known in RETURNS if known == self.environment.default_return), None
        )
        return own or "sum"


def _revisions(asked: EpisodeFilter) -> list[int]:
    """Return the ids of the rows whose code begins with the filter's name; none for a shorter one
    than pages show."""
    if asked.revision is None or len(asked.revision) < REVISION_DIGITS:
        return []
    rows = EnvironmentRevision.objects.filter(
        visible_environments(asked.viewer), code__startswith=asked.revision
    )
    return list(rows.values_list("pk", flat=True)[:MAX_NAMES])


def _members(asked: EpisodeFilter) -> list[int]:
    """Return the ids of the members of a suite that the filter names; none if there is no such
    suite or version."""
    if asked.suite is None:
        return []
    suites = Suite.objects.seen_by(asked.viewer).filter(name=asked.suite.suite)
    rows = SuiteMember.objects.filter(
        version__suite__in=suites, version__number=asked.suite.version
    )
    rows = rows if asked.suite.member is None else rows.filter(number=asked.suite.member)
    return list(rows.values_list("pk", flat=True))


def _suites(asked: EpisodeFilter) -> list[str]:
    suites = Suite.objects.seen_by(asked.viewer)
    rows = SuiteVersion.objects.filter(suite__in=suites).order_by("suite__name", "-number")
    return [
        f"{name}/v{number}"
        for name, number in rows.values_list("suite__name", "number")[:MAX_NAMES]
    ]


def episodes_of(
    asked: EpisodeFilter,
    named: NamedRows | None = None,
    most_texts: int | None = MAX_MATCHES,
    *,
    for_figures: bool = False,
) -> AttemptQuerySet[Episode]:
    """Return every episode that the filter finds, in no order; none if it names something that does
    not exist.

    `named`: the rows that the filter names, if the caller has them already; otherwise queries read
    them. `most_texts`: number of the newest transcripts with the filter's text that are considered;
    None: all, however long that takes. `for_figures`: also those of splits that are sealed for the
    reader, unless their number would tell what was said.
    """
    named = named or NamedRows.of(asked)
    if named.unknown:
        return Episode.objects.none()
    found = _references(asked, named) & _labels(asked) & _played_by(asked)
    found &= _ending(asked, named) & _error(asked.error)
    if asked.text is not None:
        found &= transcript_contains(asked.text, most_texts)
    found &= _figures(asked, named) & _time(asked)
    found &= own_records(asked.viewer) & outside_open_studies(asked.viewer)
    if not for_figures or asked.text is not None:
        found &= outside_seals(asked.viewer)
    if named.environment is None:  # a filter by an environment finds no episodes of others
        found &= visible_environments(asked.viewer)
    return Episode.objects.filter(found).order_by()


def refuse_all(asked: EpisodeFilter, advice: str) -> None:
    """Refuse a filter that leaves no ended episode out, before all are removed or played again.
    Raises: OrsError.

    It is empty, or has only bounds that every episode is within, such as `steps_from=0` or
    `since=1970-01-01`. `advice`: the sentence that says what to do instead.
    """
    if asked.is_empty:
        raise OrsError(advice)
    if not BOUNDS.issuperset(asked.conditions):
        return
    ended = episodes_of(EpisodeFilter(viewer=asked.viewer)).ended()
    if not ended.exclude(pk__in=episodes_of(asked).values("pk")).exists():
        bounds = " and ".join(
            f"{name}={value}" for name, value in asked.values().items() if name in BOUNDS
        )
        raise OrsError(f"No ended episode is outside of {bounds}. {advice}")


def parts_of(asked: EpisodeFilter) -> frozenset[str]:
    """Return the names of what the filter sets conditions for.

    They are parameters, without `_from` and `_to` for a range, and `time` for since and until. What
    one index holds together counts once: a split and its environment, a run and one of its training
    steps.
    """
    names = {
        "time" if name in ("since", "until") else name.partition("_")[0]
        for name in asked.conditions
    }
    implied = {"environment"} if "split" in names else set()
    if asked.run is not None and asked.step is not None and asked.step.low == asked.step.high:
        implied.add("step")
    return frozenset(names - implied)


def _references(asked: EpisodeFilter, named: NamedRows) -> Q:
    found = Q()
    if asked.task is not None:
        found &= Q(task=asked.task)
    if named.members:
        found &= Q(task__in=SuiteTask.objects.filter(member__in=named.members).values("task"))
    if named.run:
        found &= _of_place("run_id", named.run.pk, asked)
    if len(named.revisions) == 1:  # an index gives the episodes of one row in order
        found &= Q(revision=named.revisions[0])
    elif named.revisions:
        found &= Q(revision__in=named.revisions)
    if asked.step is not None:
        low, high = asked.step
        found &= Q(run_step=low) if low == high else Q(run_step__gte=low, run_step__lte=high)
    # it belongs to one environment, so that is not checked
    if named.split and not named.split.is_curated:
        return found & _of_place("split_id", named.split.pk, asked)
    if named.split:  # clients do not name the splits that people make, so what they hold now counts
        found &= Q(task__in=places(named.split.pk).values("task"))
    if not named.environment:
        return found
    return found & _of_place("environment_id", named.environment.pk, asked)


def _of_place(column: str, pk: int, asked: EpisodeFilter) -> Q:
    """Return the condition on a column that may have the same value in very many episodes."""
    if asked.is_of_people:  # SQLite would use the column's index, but people are few
        return Q(Exact(Unindexed(F(column)), pk))
    return Q(**{column: pk})


def _labels(asked: EpisodeFilter) -> Q:
    """Return the condition on labels, which are stored as compact JSON: a pair of name and value is
    a part of it."""
    found = Q()
    for label in asked.label or ():
        pairs = [value_json({label.name: value})[1:-1] for value in label.values]
        found &= reduce(or_, (Q(GreaterThan(StrIndex("labels", Value(pair)), 0)) for pair in pairs))
    return found


def _played_by(asked: EpisodeFilter) -> Q:
    found = Q()
    if asked.model is not None:
        found &= Q(model=asked.model) & ~Q(model="")
    player = "human" if asked.is_of_people else asked.player
    if asked.study is not None:
        found &= Q(pk__in=Play.objects.filter(guest__invite__study__name=asked.study).values("pk"))
    if player == "others":
        found &= ~Q(player="human")
    elif player is not None:
        found &= Q(player=player) if player == "agent" else Q(player=player) & ~Q(player="agent")
    return found if asked.who is None else found & played_with(asked.who)


def _ending(asked: EpisodeFilter, named: NamedRows) -> Q:
    ending = asked.ending
    # lists of one value are deliberate: Django writes `is_probe=False` as NOT is_probe, which
    # SQLite does not look up
    if ending is None:
        return Q()
    if ending == "running":  # named by their ids, because figures ask for the ended ones among them
        return Q(pk__in=Episode.objects.filter(status="running").values("pk"), status="running")
    if ending == "failure":
        return ENDED & Q(cause__in=FAILURES, is_probe__in=[False])
    if ending == "probe":
        return ENDED & Q(cause__in=COUNTED_CAUSES, is_probe__in=[True])
    if ending == "attempt":
        return named.conventions(asked).attempts
    if ending == "continued":
        return (
            ENDED
            & Q(cause__in=COUNTED_CAUSES, is_probe__in=[False])
            & ~Q(player="agent")
            & IS_UNCOUNTED_PLAY
        )
    found = ENDED & Q(cause=ending, is_probe__in=[False])
    return found if ending in FAILURES else found & ~IS_UNCOUNTED_PLAY


def _error(has_error: bool | None) -> Q:
    if has_error is None:
        return Q()
    either = Q(refused_count__gt=0) | Q(failed_count__gt=0)
    return either if has_error else ENDED & Q(refused_count=0, failed_count=0)


def _figures(asked: EpisodeFilter, named: NamedRows) -> Q:
    """Return the conditions on figures. They find only ended episodes: a running episode has no
    figures yet."""
    found = _returns(asked, named)
    found &= _between("steps_count", asked.steps_from, asked.steps_to)
    found &= _between("end_number", asked.ends_from, asked.ends_to)
    if asked.ends:
        within = Q(
            end_number__range=(
                min(part.low for part in asked.ends),
                max(part.high for part in asked.ends),
            )
        )
        found &= ENDED & within & reduce(or_, (Q(end_number__range=part) for part in asked.ends))
    return found


def _returns(asked: EpisodeFilter, named: NamedRows) -> Q:
    """Return the condition on the return that counts, which is 0 for rollouts that the convention
    counts as 0."""
    low, high = asked.return_from, asked.return_to
    found = _between(f"return_{named.definition(asked)}", low, high)
    if not found or (zeros := named.conventions(asked).zeros) is None:
        return found
    is_zero_within = (low is None or low <= 0) and (high is None or high >= 0)
    return (found & ~zeros) | zeros if is_zero_within else found & ~zeros


def _between(column: str, low: float | None, high: float | None) -> Q:
    found = Q()
    if low is not None:
        found &= ENDED & Q(**{f"{column}__gte": low})
    if high is not None:
        found &= ENDED & Q(**{f"{column}__lte": high})
    return found


def _time(asked: EpisodeFilter) -> Q:
    since, until = asked.span(timezone.now())
    found = Q() if since is None else Q(created__gte=since)
    return found if until is None else found & Q(created__lt=until)


# --- names that do not exist ----------------------------------------------------------------------


def _unknown(kind: str, name: str, known: Iterable[str]) -> str:
    names = list(known)
    first = (
        f" There are {', '.join(map(repr, names[:MAX_NEAREST]))}."
        if names
        else " There is none yet."
    )
    return f"No {kind} is named {name!r}.{nearest(name, names, MAX_NEAREST) or first}"


def _unknown_task(asked: EpisodeFilter) -> list[str]:
    is_known = (
        asked.task is None or Task.objects.seen_by(asked.viewer).filter(pk=asked.task).exists()
    )
    return (
        []
        if is_known
        else [f"There is no task {asked.task}; a task's number is in the address of its page."]
    )


def _unknown_model(asked: EpisodeFilter) -> list[str]:
    if asked.model is None:
        return []
    played = Episode.objects.filter(visible_environments(asked.viewer), model=asked.model).exclude(
        model=""
    )
    return [] if played.exists() else [_unknown("model", asked.model, models(asked.viewer))]


def _unknown_person(asked: EpisodeFilter) -> list[str]:
    if asked.who is None:
        return []
    played = Episode.objects.by_people().seen_by(asked.viewer).filter(key_label=asked.who)
    return [] if played.exists() else [_unknown("player", asked.who, people(asked.viewer))]


def _unknown_study(asked: EpisodeFilter) -> list[str]:
    if asked.study is None:
        return []
    known = Study.objects.seen_by(asked.viewer).filter(name=asked.study)
    return [] if known.exists() else [_unknown("study", asked.study, studies(asked.viewer))]
