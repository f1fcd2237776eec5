"""Changes of groups by a batch of endings: StepGroup rows read, changed and written. Used by
`step_spans.py`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from django.db import connection
from django.db.models import BooleanField
from django.db.models.expressions import RawSQL

from environments.database.bulk_writer import BulkWriter
from environments.tasks.task_places import batched
from episodes.attempts.endings import Ending, endings_of, rows_of
from episodes.attempts.group_states import GroupState, GroupTally
from episodes.attempts.rule import NO_ROLLOUTS
from episodes.models import Episode, Progress, StepGroup
from episodes.rollups.scopes import Place

_MAX_KEYS = 200
"""Groups in one query: databases limit the length of a statement."""
_KEY = "(run_id = %s AND run_step = %s AND task_id = %s AND split_id = %s)"


class GroupKey(NamedTuple):
    run: int
    step: int
    task: int
    split: int
    """0: none."""


@dataclass(slots=True)
class GroupChange:
    """The groups to which the endings of a batch belong, before and after it."""

    _ids: dict[GroupKey, int] = field(default_factory=dict)
    """Ids of the rows that exist."""
    _before: dict[GroupKey, GroupTally] = field(default_factory=dict)
    """The groups that exist, each as it was."""
    _states: dict[GroupKey, GroupState] = field(default_factory=dict)
    """The groups that have a rollout afterwards."""
    _environments: dict[int, int] = field(default_factory=dict)
    """Environments of the tasks of the batch."""

    def read(self, endings: Sequence[Ending]) -> None:
        """Read the groups of these endings, and add the endings to them. One query for each
        _MAX_KEYS groups."""
        for key, members in self._read_groups(endings).items():
            _add(self._states.setdefault(key, GroupState()), members)

    def remove(self, endings: Sequence[Ending]) -> None:
        """Read the groups of these endings, and what they are without them. One query for each
        training step too."""
        self._read_groups(endings)
        self._states = {}
        episodes = [ending.episode for ending in endings]
        for run, step in {(key.run, key.step) for key in self._ids}:
            last = Progress.objects.filter(name="steps").values("end_number")
            rest = Episode.objects.filter(run=run, run_step=step, end_number__lte=last)
            groups = _groups_in(endings_of(rest.exclude(pk__in=episodes)))
            for key in groups.keys() & self._ids.keys():
                self._states[key] = GroupState()
                _add(self._states[key], groups[key])

    def differences(self) -> Mapping[tuple[int, int, Place], GroupTally]:
        """Return by run, training step and place how its groups change."""
        tallies = defaultdict[tuple[int, int, Place], GroupTally](GroupTally)
        pairs = [(key, tally, -1) for key, tally in self._before.items()]
        pairs += [(key, state.tally, 1) for key, state in self._states.items()]
        for key, tally, times in pairs:
            place = Place(self._environments[key.task], key.split)
            tallies[key.run, key.step, place].add(tally, times)
        return tallies

    def write(self) -> None:
        """Write the changed groups. Called within the transaction. Raises: django.db.Error."""
        updates = [
            (state.text, self._ids[key]) for key, state in self._states.items() if key in self._ids
        ]
        new = [(*key, state.text) for key, state in self._states.items() if key not in self._ids]
        writer = BulkWriter(connection)
        writer.update(StepGroup, ("state",), updates)
        writer.insert(StepGroup, ("run_id", "run_step", "task_id", "split_id", "state"), new)
        empty = self._ids.keys() - self._states.keys()
        StepGroup.objects.filter(pk__in=[self._ids[key] for key in empty]).delete()

    def _read_groups(self, endings: Sequence[Ending]) -> dict[GroupKey, list[Ending]]:
        """Read the groups of these endings, and return the endings by group."""
        self._environments = {ending.task: ending.environment for ending in endings}
        groups = _groups_in(endings)
        for keys in batched(groups, _MAX_KEYS):
            values = [value for key in keys for value in key]
            condition = RawSQL(" OR ".join([_KEY] * len(keys)), values, BooleanField())  # nosec B611 # parameters
            columns = ("pk", "state", "run_id", "run_step", "task_id", "split_id")
            for pk, text, *ids in rows_of(
                StepGroup.objects.filter(condition).values_list(*columns)
            ):
                key = GroupKey(*ids)
                self._ids[key], self._states[key] = pk, GroupState.from_text(text)
                self._before[key] = self._states[key].tally
        return groups


def _add(state: GroupState, endings: Sequence[Ending]) -> None:
    for ending in endings:
        state.add(ending.kind, ending.returns)


def _groups_in(endings: Sequence[Ending]) -> dict[GroupKey, list[Ending]]:
    """Return the rollouts among the endings by group; those without a training step are in none."""
    groups = defaultdict[GroupKey, list[Ending]](list)
    for ending in endings:
        run, step = ending.run, ending.run_step
        if run is not None and step is not None and ending.kind not in NO_ROLLOUTS:
            groups[GroupKey(run, step, ending.task, ending.split or 0)].append(ending)
    return groups
