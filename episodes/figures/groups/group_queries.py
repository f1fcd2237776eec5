"""What the pages of groups show, as parameters ask for it: the groups of a training step, and one
group with its place among them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

from environments.filtering.filters import query_string
from environments.filtering.parameters import BadFilter, definition_in, given, whole
from environments.models import Task, Viewer
from environments.scoring.definition import DEFINITION_PARAMETERS, Definition, definition_of
from episodes.dashboard.guards import row_or_404
from episodes.figures.groups.groups import Group, GroupLines, group_of, groups_of
from episodes.figures.revision_choice import RevisionChoice
from episodes.figures.runs.run_lines import RunLine, RunQuery
from episodes.models import Run


@dataclass(frozen=True, slots=True)
class StepGroupsQuery:
    run: RunQuery
    step: int | None
    """Training step; None: the episodes that have none."""

    PARAMETERS: ClassVar = ("step", *DEFINITION_PARAMETERS)

    @classmethod
    def parse(cls, parameters: Mapping[str, str], run: Run, viewer: Viewer) -> Self:
        """Return the query in an address. Raises: BadFilter."""
        query = RunQuery(run, viewer, definition=definition_in(parameters))
        return cls(query, given(parameters, "step", whole))

    def result(self) -> tuple[RunLine, GroupLines]:
        """Return the run, and the groups of the step by its definition."""
        line = self.run.result()
        return line, groups_of(line.run, self.step, line.definition)


@dataclass(frozen=True, slots=True)
class GroupQuery:
    task: Task
    run: Run
    step: int | None
    """Training step; None: the episodes that have none."""
    definition: Definition
    revision: RevisionChoice

    PARAMETERS: ClassVar = ("run", "step", "revision", *DEFINITION_PARAMETERS)

    @classmethod
    def parse(cls, parameters: Mapping[str, str], task: Task, viewer: Viewer) -> Self:
        """Return the query in an address. Raises: BadFilter, Http404 for an unknown run."""
        definition = definition_of(task.environment, definition_in(parameters))
        run, step = (given(parameters, name, whole) for name in ("run", "step"))
        revision = RevisionChoice.parse(parameters, viewer)
        if run is None:
            raise BadFilter("run", "", "give the id of a run; the Runs page lists them")
        row = row_or_404(Run.objects.seen_by(viewer), run)
        return cls(task, row, step, definition, revision)

    def result(self) -> tuple[Group, GroupLines]:
        """Return the group, and all groups of its step."""
        groups = groups_of(self.run, self.step, self.definition)
        group = group_of(self.task, self.run, self.step, self.definition, self.revision.ids)
        return group, groups

    def to_query(self) -> str:
        """Return the query string of the Episodes page that lists the group."""
        return query_string(
            task=self.task.pk, run=self.run.name, step=self.step, revision=self.revision.name
        )
