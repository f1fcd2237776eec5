"""Changes of groups by a batch of endings: StepGroup rows read, changed and written. Used by
`step_spans.py`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from django.db import connection
from django.db.models import BooleanField
from django.db.models.expressions import RawSQL

from environments.database.bulk_writer import BulkWriter
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

    _gone: set[GroupKey] = field(default_factory=set)
    """Groups that have no rollout any more."""
    _environments: dict[int, int] = field(default_factory=dict)
    """Environments of the tasks of the batch."""

    def read(self, endings: Sequence[Ending]) -> None:
        """Read the groups of these endings, and add the endings to them. One query for each
        _MAX_KEYS groups."""
        members: dict[GroupKey, list[Ending]] = defaultdict(list)
        for ending in endings:
            if (
                ending.run is not None
                and ending.run_step is not None
                and ending.kind not in NO_ROLLOUTS
            ):
                members[
                    GroupKey(ending.run, ending.run_step, ending.task, ending.split or 0)
                ].append(ending)
        self._environments = {ending.task: ending.environment for ending in endings}
        self._read_states(members)
        for key, rows in members.items():
            state = self._states.setdefault(key, GroupState())
            for row in rows:
                state.add(
                    row.kind, (row.return_sum, row.return_last, row.return_max, row.return_mean)
                )

    def remove(self, endings: Sequence[Ending]) -> None:
        """Read the groups of these endings, and what they are without them. One query for each
        training step too."""
        keys = {
            GroupKey(ending.run, ending.run_step, ending.task, ending.split or 0)
            for ending in endings
            if ending.run is not None
            and ending.run_step is not None
            and ending.kind not in NO_ROLLOUTS
        }
        self._environments = {ending.task: ending.environment for ending in endings}
        self._read_states(keys)
        keys &= set(self._ids)
        self._states = {}
        episodes = [ending.episode for ending in endings]
        for run, step in {(key.run, key.step) for key in keys}:
            last = Progress.objects.filter(name="steps").values("end_number")
            rest = Episode.objects.filter(run=run, run_step=step, end_number__lte=last).exclude(
                pk__in=episodes
            )
            for ending in endings_of(rest):
                key = GroupKey(run, step, ending.task, ending.split or 0)
                if key in keys and ending.kind not in NO_ROLLOUTS:
                    state = self._states.setdefault(key, GroupState())
                    state.add(
                        ending.kind,
                        (
                            ending.return_sum,
                            ending.return_last,
                            ending.return_max,
                            ending.return_mean,
                        ),
                    )
        self._gone = keys - set(self._states)

    def differences(self) -> Mapping[tuple[int, int, Place], GroupTally]:
        """Return by run, training step and place how its groups change."""
        tallies: dict[tuple[int, int, Place], GroupTally] = defaultdict(GroupTally)
        for key, state in self._states.items():
            place = key.run, key.step, Place(self._environments[key.task], key.split)
            if key in self._before:
                tallies[place].add(self._before[key], -1)
            tallies[place].add(state.tally)
        for key in self._gone:
            tallies[key.run, key.step, Place(self._environments[key.task], key.split)].add(
                self._before[key], -1
            )
        return tallies

    def write(self) -> None:
        """Write the changed groups. Called within the transaction. Raises: django.db.Error."""
        states = [
            (state.text, self._ids[key]) for key, state in self._states.items() if key in self._ids
        ]
        new = [(*key, state.text) for key, state in self._states.items() if key not in self._ids]
        writer = BulkWriter(connection)
        writer.update(StepGroup, ("state",), states)
        writer.insert(StepGroup, ("run_id", "run_step", "task_id", "split_id", "state"), new)
        StepGroup.objects.filter(pk__in=[self._ids[key] for key in self._gone]).delete()

    def _read_states(self, keys: Collection[GroupKey]) -> None:
        all_keys = list(keys)
        for start in range(0, len(all_keys), _MAX_KEYS):
            some = all_keys[start : start + _MAX_KEYS]
            values = [value for key in some for value in key]
            is_one = RawSQL(" OR ".join([_KEY] * len(some)), values, BooleanField())  # nosec B611 # parameters
            rows = StepGroup.objects.filter(is_one)
            columns = ("pk", "state", "run_id", "run_step", "task_id", "split_id")
            for pk, text, *values in rows_of(rows.values_list(*columns)):
                key = GroupKey(*values)
                self._ids[key], self._states[key] = pk, GroupState.from_text(text)
                self._before[key] = self._states[key].tally
