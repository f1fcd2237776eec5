"""RunComparisonQuery: which runs are compared, and how, as parameters ask for it. The page of the
comparison, its CSV and the API parse it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
from episodes.figures.curves.curve_parameters import PARAMETERS, CurveQuery
from episodes.figures.revision_choice import RevisionChoice
from episodes.figures.run_splits import SplitChoice, common_split, of_one_split, splits_of
from episodes.figures.scopes import MAX_COMPARED
from episodes.models import Run

TASKS = ("worse",)
"""Which of the shared tasks can be listed instead of all: those that got worse."""
MAX_FILE_TASKS = 20_000
"""Tasks in a file at most, and in JSON."""
_NAMES = [measure.name for measure in MEASURES]


@dataclass(frozen=True, slots=True)
class RunComparisonQuery:
    runs: Sequence[Run]
    """Two or more, of which every other is compared with the first."""
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
    """Whether only tasks are listed that got worse from the first run to the last."""

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
        curves = CurveQuery.parse(query, viewer, (*others, "tasks"))
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
