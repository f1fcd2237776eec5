"""Scopes: whose endings a curve shows, which are those of an environment, a split, a task, a run,
or any filter.

People are left out, so that tasks for agents are not chosen by what people reach: only a scope of a
filter that names people or a run, and that of a task, has theirs.
Blocks exist for environments, runs and splits that a class declares, so all of their endings count;
those of a run
are divided by environment, so all endings of a run in one of its environments count, too. For other
scopes the newest MAX_ENDINGS episodes are read. A filter gives one scope, or one for each run,
environment or model in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from django.db.models import Count, Exists, Max, OuterRef, Q, QuerySet, Value

from environments.models import Environment, Split, Task, Viewer
from environments.scoring.definition import DEFINITION_PARAMETERS
from environments.tasks.split_indexes import served
from episodes.filtering.conditions import NamedRows
from episodes.filtering.filters import PLAYERS, EpisodeFilter
from episodes.models import Episode, Run
from episodes.models.privacy import own_records, visible_runs
from episodes.rollups.scopes import Place

MAX_COUNTED = 1_000
"""Episodes of people that are counted, of those that a curve leaves out."""
WITHOUT_PEOPLE = ~Q(player="human")
MAX_ENDINGS = 50_000
"""Maximum number of endings that are read one by one."""
CURATED_NOTE = (
    "Counts every attempt at the tasks that are in the split now, whichever split the client named."
)


@dataclass(frozen=True, slots=True)
class Scope:
    kind: Literal["environment", "split", "run", "task", "filter"]
    id: int
    """Id of the environment, split, run or task; 0 for a filter."""
    label: str
    """Name for legends and titles."""
    episodes: QuerySet[Episode] = field(compare=False, repr=False)
    within: QuerySet[Episode] | None = field(default=None, compare=False, repr=False)
    """Episodes that an index returns in order, and that hold those of the scope; None for all
    episodes, or for a scope with blocks for its own. Of a scope without blocks the newest
    MAX_ENDINGS of these are read."""
    note: str = ""
    """A sentence for pages about how the scope is read; may be empty."""

    environment: int | None = None
    """Id of the environment to which the scope of a run is limited; None for all of its
    environments."""

    split: int | None = None
    """Id of the split to which the scope of a run is limited; None for all of its splits."""

    has_groups: bool = False
    """Whether all episodes are of one run, and the rollouts at one task in one of its training
    steps are together."""

    @property
    def has_blocks(self) -> bool:
        return self.kind in ("environment", "split", "run")

    @property
    def is_part(self) -> bool:
        """Return whether the scope is a part of a run, whose blocks hold others, too."""
        return self.environment is not None or self.split is not None

    def holds(self, place: Place) -> bool:
        """Return whether the scope has what blocks of its kind and id hold of this place."""
        return self.environment in (None, place.environment) and self.split in (None, place.split)


def scope_of(of: Environment | Split | Task | Run) -> Scope:
    """Return the scope of an environment, split, task or run.

    A curated split consists of the episodes of its present tasks, because clients do not name it.
    """
    if isinstance(of, Split) and of.is_curated:
        of_environment = Episode.objects.filter(WITHOUT_PEOPLE, environment=of.environment_id)
        of_tasks = of_environment.filter(task__in=served(of).values("task"))
        return Scope("filter", 0, of.name, of_tasks, of_environment, CURATED_NOTE)
    if isinstance(of, Environment):
        return Scope(
            "environment", of.pk, of.name, Episode.objects.filter(WITHOUT_PEOPLE, environment=of)
        )
    if isinstance(of, Split):
        return Scope("split", of.pk, of.name, Episode.objects.filter(WITHOUT_PEOPLE, split=of))
    if isinstance(of, Run):
        return Scope("run", of.pk, of.name, Episode.objects.filter(run=of), has_groups=True)
    episodes = Episode.objects.filter(task=of)
    return Scope("task", of.pk, str(of), episodes, episodes)


def scope_seen_by(of: Environment | Run, viewer: Viewer) -> Scope:
    """Return the scope of an environment or run; for a key, of the newest of its own episodes
    there."""
    own = own_records(viewer)
    if not own:
        return scope_of(of)
    episodes = Episode.objects.filter(**{"run" if isinstance(of, Run) else "environment": of})
    return filtered(episodes.filter(own), "", episodes)


def part_of_run(
    run: Run, environment: Environment, label: str, split: Split | None = None
) -> Scope:
    """Return the scope of a run's episodes in one environment, or in one of its splits."""
    of_run = Episode.objects.filter(run=run)
    part = of_run.filter(environment=environment) if split is None else of_run.filter(split=split)
    return Scope(
        "run",
        run.pk,
        label,
        part,
        of_run,
        environment=environment.pk,
        split=split.pk if split else None,
        has_groups=True,
    )


def filtered(
    episodes: QuerySet[Episode], label: str, within: QuerySet[Episode] | None = None
) -> Scope:
    """Return the scope of those `episodes` that are among the newest MAX_ENDINGS of `within`.

    `within`: episodes that an index returns by id; None: all episodes.
    """
    return Scope("filter", 0, label, episodes, within)


def floor_of(scope: Scope, most: int | None = None) -> int:
    """Return the id above which a scope without blocks has `most` episodes (None: MAX_ENDINGS); 0:
    all. One query.

    Episodes are counted along an index, because ids have gaps: servers reserve them in blocks, and
    imports skip some.
    """
    most = MAX_ENDINGS if most is None else most
    # the bound leads databases to the index
    within = Episode.objects.filter(pk__gt=0) if scope.within is None else scope.within
    return next(iter(within.order_by("-pk").values_list("pk", flat=True)[most : most + 1]), 0)


Overlay = Literal["run", "environment", "model", "player"]
OVERLAYS: tuple[Overlay, ...] = ("run", "environment", "model", "player")
MAX_SERIES = 100
"""Number of curves in one chart."""
MAX_COMPARED = 12
"""Number of runs in a comparison; more of them could not be distinguished."""


@dataclass(frozen=True, slots=True)
class OverlaidPart:
    """One of the curves of a chart."""

    filter: EpisodeFilter
    label: str
    run: Run | None = None
    """The run whose curve it is, in a chart of runs."""
    split: Split | None = None
    """The split to which it is limited, because its run played several."""


@dataclass(frozen=True, slots=True)
class Overlaid:
    """The curves of a chart, of which there may be more than it draws."""

    parts: Sequence[OverlaidPart]
    count: int
    """Number of runs, environments, models or kinds of players, of which the newest are drawn."""
    missing: Sequence[int] = ()
    """Ids that were asked for and belong to no run."""
    stepless: Sequence[str] = ()
    """Names of runs that are left out because they have no training step, the newest ones."""
    unnamed_count: int = 0
    """Number of further runs without a training step."""

    @property
    def runs(self) -> list[Run]:
        return [part.run for part in self.parts if part.run]


_GROUPED = frozenset(("run", "environment", "split", "task", "suite", "step", "key"))
"""Conditions that leave out whole groups only, or, for a key, those members that it may not
read."""


def scope_of_filter(filters: EpisodeFilter, rows: NamedRows, label: str = "all episodes") -> Scope:
    """Return the scope of a filter.

    Every episode counts for an environment, split, run or task alone, and for a run in one
    environment or split; for any other filter the newest ones do. Those of people count only if the
    filter names them.
    """
    if rows.unknown:
        return filtered(Episode.objects.none(), label)
    filters = without_people(filters)
    others = {"player"} if filters.player == "others" else set[str]()
    names = set(filters.values()) - set(DEFINITION_PARAMETERS) - others
    run, environment, split = rows.run, rows.environment, rows.split
    if filters.viewer.key_label is not None:
        names = set()  # blocks also hold what this key may not read
    if names == {"run"} and run:
        return scope_of(run)
    if names == {"run", "environment"} and run and environment:
        return part_of_run(run, environment, label)
    # clients do not name curated splits
    is_declared = split is not None and not split.is_curated
    if names == {"run", "environment", "split"} and run and environment and is_declared:
        return part_of_run(run, environment, label, split)
    if names == {"environment", "split"} and split:
        return scope_of(split)
    if names == {"environment"} and environment:
        return scope_of(environment)
    has_groups = run is not None and _GROUPED.issuperset(set(filters.names_of_conditions) - others)
    episodes = replace(rows, filter=filters).episodes(for_figures=True)
    return replace(filtered(episodes, label, _within(filters, rows)), has_groups=has_groups)


def without_people(filters: EpisodeFilter) -> EpisodeFilter:
    """Return the filter with everybody except people as players, unless it says whose episodes it
    is about: a run has those of its own people.
    """
    says_whose = filters.player or filters.is_of_people or filters.run is not None
    return filters if says_whose else replace(filters, player="others")


def people_left_out(filters: EpisodeFilter, rows: NamedRows | None = None) -> str:
    """Return a sentence about the episodes of people that `without_people` leaves out; empty if
    there are none.

    `rows`: the rows that the filter names; None: they are read.
    """
    if without_people(filters) is filters:
        return ""
    rows = replace(rows or NamedRows.of(filters), filter=replace(filters, player="human"))
    of_people = rows.episodes(for_figures=True)
    number = of_people.ended().order_by()[: MAX_COUNTED + 1].count()
    if not number:
        return ""
    count = f"over {MAX_COUNTED:,}" if number > MAX_COUNTED else f"{number:,}"
    return (
        f"Without {count} ended episode{'' if number == 1 else 's'} of people (the filter "
        "player=human has them)."
    )


def overlaid(filters: EpisodeFilter, by: Overlay, *, needs_step: bool = False) -> Overlaid:
    """Return a part for each of the newest MAX_SERIES runs, environments, models or kinds of
    players among the filter's episodes, oldest first; if `needs_step`, of those with a training
    step.
    """
    if by == "player":
        parts = [
            OverlaidPart(replace(filters, player=kind), label) for kind, label in PLAYERS.items()
        ]
        parts = [
            part for part in parts if NamedRows.of(part.filter).episodes(for_figures=True).exists()
        ]
        return Overlaid(parts, len(parts))
    filters = without_people(filters)
    episodes = NamedRows.of(filters).episodes(for_figures=True)
    if by == "environment":
        # there are few, so each is asked for a first episode, which reads no table
        of_environment = episodes.order_by().filter(environment=OuterRef("pk"))
        environments = Environment.objects.seen_by(filters.viewer).order_by("pk")
        environment_names = environments.filter(Exists(of_environment)).values_list(
            "name", flat=True
        )
        with_step = environment_names.filter(Exists(of_environment.filter(run_step__isnull=False)))
        every = (needs_step and list(with_step)) or list(environment_names)
        parts = [OverlaidPart(replace(filters, environment=name), name) for name in every]
        return Overlaid(parts[-MAX_SERIES:], len(parts))
    recent = episodes.filter(pk__gt=floor_of(filtered(episodes, "", episodes)))
    if by == "run" and (condition := visible_runs(filters.viewer)):
        recent = recent.filter(run__in=Run.objects.filter(condition))
    steps = Count("run_step") if needs_step else Value(1)
    rows = recent.order_by().values_list(by).annotate(last=Max("pk"), with_step=steps)
    counts = {value: count for value, _, count in rows.order_by("-last") if value}
    values = [value for value, count in counts.items() if count] or list(counts)
    newest = list(reversed(values[:MAX_SERIES]))
    if by == "run":
        stepless = [value for value in counts if value not in set(values)]
        names = [part.label for part in of_runs(filters, stepless[:MAX_SERIES]).parts]
        return replace(
            of_runs(filters, newest),
            count=len(values),
            stepless=names,
            unnamed_count=len(stepless) - len(names),
        )
    parts = [OverlaidPart(replace(filters, **{by: name}), name) for name in newest]
    return Overlaid(parts, len(values))


def of_runs(filters: EpisodeFilter, ids: Sequence[int]) -> Overlaid:
    """Return a part for each run by id, in the given order."""
    visible = Run.objects.seen_by(filters.viewer).defer("config", "notes")
    rows = visible.in_bulk(list(ids))
    runs = [rows[pk] for pk in ids if pk in rows]
    parts = [OverlaidPart(replace(filters, run=run.name), run.name, run) for run in runs]
    return Overlaid(parts, len(parts), [pk for pk in ids if pk not in rows])


def _within(filters: EpisodeFilter, rows: NamedRows) -> QuerySet[Episode] | None:
    """Return episodes that an index returns by id and that include those of the filter; None: all
    episodes."""
    if filters.task is not None:
        return Episode.objects.filter(task=filters.task)
    if rows.run is not None:
        return Episode.objects.filter(run=rows.run)
    if filters.is_of_people:
        return Episode.objects.by_people()
    if filters.model is not None:
        return Episode.objects.filter(model=filters.model).exclude(model="")
    if rows.environment is not None:
        return Episode.objects.filter(environment=rows.environment)
    return None
