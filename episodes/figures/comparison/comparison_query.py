"""RunComparisonQuery: which runs are compared, and how, as parameters ask for it. The page of the
comparison, its CSV and the API parse it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

from django.db.models import Q

from environments.database.json_rows import among
from environments.files.csv_lines import csv_line
from environments.filtering.parameters import BadFilter, chosen, given
from environments.models import Split, Task, Viewer
from environments.scoring.definition import definitions_in_force
from episodes.figures.comparison.compared_episodes import ComparedEpisodes
from episodes.figures.comparison.measures import MEASURES
from episodes.figures.comparison.run_comparison import Pairing, pairing_of
from episodes.figures.curves.curve_parameters import PARAMETERS, CurveQuery, run_ids
from episodes.figures.revision_choice import RevisionChoice
from episodes.figures.run_splits import SplitChoice, common_split, of_one_split, splits_of
from episodes.figures.scopes import MAX_COMPARED
from episodes.models import Run

TASKS = ("worse",)
"""Which of the shared tasks can be listed instead of all: those at which other runs are worse."""
OWN = ("tasks", "baseline")
"""Parameters that the comparison has besides those of its curves."""
MAX_FILE_TASKS = 20_000
"""Tasks in a file at most, and in JSON."""
_NAMES = [measure.name for measure in MEASURES]


@dataclass(frozen=True, slots=True)
class RunComparisonQuery:
    runs: Sequence[Run]
    """Two or more, of which every other is compared with the baseline."""
    curves: CurveQuery
    """Draws the same episodes. Its axis is the training step if that is how they are matched."""
    revision: RevisionChoice
    splits: Sequence[Split]
    """Those to choose from, if a run played several."""
    split: Split | None
    """The one of which episodes are compared; None: all."""
    episodes: ComparedEpisodes
    can_match: bool
    """Whether all runs have training steps."""
    is_worse_only: bool
    """Whether only tasks are listed at which the other runs are worse than the baseline."""
    baseline: int | None
    """Place of the run with which the others are compared; None: as `pairing_of` says."""
    left_out: int
    """Number of runs in the address beyond MAX_COMPARED, which are not compared."""
    apart: Sequence[Sequence[Run]] = ()
    """Runs that are not compared, because they have no task in common with `runs`: groups of those
    that have."""

    @classmethod
    def parse(
        cls,
        parameters: Mapping[str, str],
        viewer: Viewer,
        others: Collection[str] = PARAMETERS,
    ) -> Self:
        """Return the query in an address. Raises: BadFilter.

        `others`: parameters that it may have besides the filter.
        """
        query = {name: text for name, text in parameters.items() if text.strip()}
        for name in ("episodes", "row"):
            if name in query:
                reason = "it belongs to a comparison of episodes; remove it or runs="
                raise BadFilter(name, query[name], reason)
        is_worse_only = given(query, "tasks", chosen(TASKS)) is not None
        curves = CurveQuery.parse(query, viewer, (*others, *OWN))
        runs = _runs(curves.runs[:MAX_COMPARED], query.get("runs", ""), viewer)
        revision = RevisionChoice.parse(parameters, viewer)
        splits, split = _splits(runs, curves.split_choice, viewer)
        filters = replace(curves.filter.definition_alone, revision=curves.filter.revision)
        by_step = ComparedEpisodes.of_common_steps(runs, viewer, curves.zoom)
        is_matched = by_step is not None and query.get("x", "step") == "step"
        condition = Q(split=split) if split else Q()
        if revision.ids:
            condition &= Q(revision__in=revision.ids)
        episodes = by_step if is_matched else None
        episodes = episodes or ComparedEpisodes.newest(runs, viewer)
        return cls(
            runs=runs,
            curves=replace(
                curves,
                filter=of_one_split(filters, split),
                axis="step" if is_matched else curves.x,
                figures=curves.figures if "y" in query else ("success", "return"),
            ),
            revision=revision,
            splits=splits,
            split=split,
            episodes=episodes.within(condition),
            can_match=by_step is not None,
            is_worse_only=is_worse_only,
            baseline=_place_of(given(query, "baseline", partial(run_ids, viewer=viewer)), runs),
            left_out=max(0, len(curves.runs) - MAX_COMPARED),
        )

    @property
    def is_matched(self) -> bool:
        """Whether episodes of the same training steps are compared."""
        return self.episodes.steps is not None

    def pairing(self, most: int) -> Pairing:
        """Return the comparison with `most` tasks at most."""
        return pairing_of(
            self.runs,
            definitions_in_force(self.curves.definition),
            most,
            self.episodes,
            baseline=self.baseline,
            is_worse_only=self.is_worse_only,
        )

    def environments_of(self, pairing: Pairing, viewer: Viewer) -> dict[int, str]:
        """Return the name of the environment of each task that exists for the viewer."""
        tasks = Task.objects.seen_by(viewer).filter(
            among("pk", [pair.task for pair in pairing.tasks])
        )
        return dict(tasks.values_list("pk", "environment__name"))

    def csv_lines(self, pairing: Pairing, viewer: Viewer) -> Iterator[str]:
        """Yield the lines of a CSV file: one for each task and run."""
        yield csv_line(["task", "environment", "run", "attempts", *_NAMES])
        environments = self.environments_of(pairing, viewer)
        for pair in pairing.tasks:
            if pair.task in environments:
                for place, run in enumerate(self.runs):
                    means = [
                        figure.means[place] if figure.means else None for figure in pair.figures
                    ]
                    line = [
                        pair.task,
                        environments[pair.task],
                        run.name,
                        pair.attempts[place],
                        *means,
                    ]
                    yield csv_line(line)


def comparison_of(
    parameters: Mapping[str, str],
    viewer: Viewer,
    most: int,
    others: Collection[str] = PARAMETERS,
) -> tuple[RunComparisonQuery, Pairing]:
    """Return the query in an address and the comparison with `most` tasks at most. Raises:
    BadFilter.

    Where not all runs have a task in common, the most that do are compared.
    """
    query = RunComparisonQuery.parse(parameters, viewer, others)
    pairing = query.pairing(most)
    if pairing.shared or len(query.runs) == 2:
        return query, pairing
    first, *apart = _with_common_tasks(query.runs, viewer)
    if len(first) == 1:
        return query, pairing
    ids = {"runs": ",".join(str(run.pk) for run in first)}
    left_out = query.left_out
    query = RunComparisonQuery.parse({**parameters, **ids}, viewer, others)
    query = replace(query, left_out=left_out, apart=apart)
    return query, query.pairing(most)


def _with_common_tasks(runs: Sequence[Run], viewer: Viewer) -> list[list[Run]]:
    """Return the runs in groups that have a task in common, the largest first."""
    episodes = ComparedEpisodes.newest(runs, viewer)
    groups = list[tuple[list[Run], set[int]]]()
    for run in runs:
        tasks = set(episodes.of(run).order_by().values_list("task", flat=True).distinct())
        for members, common in groups:
            if tasks & common:
                members.append(run)
                common &= tasks
                break
        else:
            groups.append(([run], tasks))
    return sorted((members for members, _ in groups), key=len, reverse=True)


def _place_of(ids: tuple[int, ...] | None, runs: Sequence[Run]) -> int | None:
    """Return the place of the run that is the baseline; None without one, also where it is not
    among `runs`."""
    places = {run.pk: place for place, run in enumerate(runs)}
    return places.get(ids[0]) if ids else None


def _runs(ids: Sequence[int], text: str, viewer: Viewer) -> list[Run]:
    """Return the runs in the order of `ids`. Raises: BadFilter."""
    by_id = Run.objects.seen_by(viewer).in_bulk(list(ids))
    if missing := [str(pk) for pk in ids if pk not in by_id]:
        numbers = ", ".join(missing)
        reason = f"there is no run {numbers}; a run's number is in the address of its page"
        raise BadFilter("runs", text, reason)
    runs = [by_id[pk] for pk in ids]
    if len(runs) == 1:
        reason = f"it names {runs[0].name} alone; add a run, as in runs={ids[0]},{ids[0] + 1}"
        raise BadFilter("runs", text, reason)
    if not runs:
        raise BadFilter("runs", text, "choose at least two runs, such as runs=3,4")
    return runs


def _splits(
    runs: Sequence[Run], choice: SplitChoice, viewer: Viewer
) -> tuple[list[Split], Split | None]:
    """Return the splits to choose from, if a run played several, and the one that is compared;
    None: all of them.

    Raises: BadFilter.
    """
    by_run = splits_of([run.pk for run in runs], viewer)
    of_runs = [splits for run in runs if (splits := by_run.get(run.pk))]
    every = list(dict.fromkeys(split for splits in of_runs for split in splits))
    has_several = any(len(splits) > 1 for splits in of_runs)
    if choice.split is not None or choice.environment is not None:
        return every, choice.of(every)
    if choice.are_together or not has_several:
        return every if has_several else [], None
    return every, common_split(of_runs) or of_runs[0][0]
