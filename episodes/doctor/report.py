"""The doctor's report: the findings of all checks about one scope. The page and the API show it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from episodes.doctor.checks.gap import train_test_gap
from episodes.doctor.checks.groups import flat_groups
from episodes.doctor.checks.rewards import outside_range, sparse_rewards
from episodes.doctor.checks.step_rewards import cut_outputs, outweighing_steps, repeated_calls
from episodes.doctor.checks.tasks import differing_scales, solved_tasks, unsolved_tasks
from episodes.doctor.checks.tools import refused_tools, unused_tools
from episodes.doctor.checks.trends import length_with_reward, reward_without_success
from episodes.doctor.findings import RESULTS, DoctorFinding
from episodes.doctor.scope import DoctorScope

CHECKS: Sequence[Callable[[DoctorScope], DoctorFinding]] = (
    reward_without_success,
    length_with_reward,
    repeated_calls,
    outweighing_steps,
    differing_scales,
    outside_range,
    sparse_rewards,
    unsolved_tasks,
    solved_tasks,
    flat_groups,
    train_test_gap,
    unused_tools,
    refused_tools,
    cut_outputs,
)


@dataclass(frozen=True, slots=True)
class DoctorReport:
    findings: Sequence[DoctorFinding]
    """Problems first, then what there is too little data for, then what is fine."""
    attempts: int
    """Newest attempts that were read."""
    with_steps: int
    """Those of them whose steps were read."""
    is_bounded: bool
    """Whether there may be older episodes than those that were read."""

    @property
    def problems(self) -> list[DoctorFinding]:
        return [finding for finding in self.findings if finding.result == "problem"]

    @property
    def judged(self) -> list[DoctorFinding]:
        """The findings for which there was enough data."""
        return [finding for finding in self.findings if finding.result != "too_little_data"]

    @property
    def sentence(self) -> str:
        """What the findings say together."""
        count, judged = len(self.problems), len(self.judged)
        open_ = len(self.findings) - judged
        rest = (
            f" For {open_} of {len(self.findings)} checks there is too little data."
            if open_
            else ""
        )
        if not judged:
            return "There is too little data for any check."
        if not count:
            return f"No problem was found by {judged} check{'' if judged == 1 else 's'}.{rest}"
        return (
            f"{count} problem{'' if count == 1 else 's'} found by {judged} "
            f"check{'' if judged == 1 else 's'}.{rest}"
        )


def examine(scope: DoctorScope) -> DoctorReport:
    """Return what all checks say about the scope."""
    found = sorted((look(scope) for look in CHECKS), key=lambda one: RESULTS.index(one.result))
    return DoctorReport(found, len(scope.attempts), len(scope.steps_read), scope.is_bounded)
