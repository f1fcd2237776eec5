"""What changes in the course of a run: returns that rise without success, attempts that get longer,
and success that collapses. Phases of the course are compared, which change points divide."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations

from environments.display.numbers import plain
from episodes.doctor.checks import check
from episodes.doctor.findings import DoctorFinding, no_problem, problem, too_little
from episodes.doctor.scope import Course, DoctorScope
from episodes.figures.curves.phases import Phase

STANDARD_ERRORS = 2
"""Standard errors of a difference that it has to exceed."""
AS_SHORT = 1.1
"""Factor up to which a phase is about as short as the shortest."""

CourseCheck = Callable[[DoctorScope, Course, list[Phase]], DoctorFinding]
"""Returns what it finds in a course and the phases of it that have enough attempts."""


@check("Rising return without success", "rise", "success_rise", "attempts")
def reward_without_success(scope: DoctorScope) -> DoctorFinding:
    return _of_each_course(scope, _reward_without_success)


@check("Episodes get longer as return rises", "growth", "rise", "attempts")
def length_with_reward(scope: DoctorScope) -> DoctorFinding:
    return _of_each_course(scope, _length_with_reward)


@check("Success that collapses", "fall", "attempts")
def collapse(scope: DoctorScope) -> DoctorFinding:
    return _of_each_course(scope, _collapse)


def _of_each_course(scope: DoctorScope, examine: CourseCheck) -> DoctorFinding:
    """Return what the check finds in the first course with a problem, else in the first with enough
    attempts."""
    minimum = int(scope.thresholds["attempts"])
    findings = [
        examine(scope, course, phases)
        for course in scope.courses
        if (phases := _phases_that_count(scope, course))
    ]
    if not findings:
        most = max(course.scored for course in scope.courses)
        return too_little(
            f"This needs {2 * minimum:,} attempts with a return, {minimum:,} before a change and "
            f"{minimum:,} after it; there are {most:,}."
        )
    problems = [finding for finding in findings if finding.result == "problem"]
    first, count = (problems or findings)[0], len(findings)
    if scope.run or not first.run:
        return first
    if not problems:
        runs = "the run" if count == 1 else f"any of {count:,} runs"
        return no_problem(f"Not in {runs}.")
    sentence = f"In {first.run}: {first.sentence[0].lower()}{first.sentence[1:]}"
    if len(problems) > 1:
        others = ", ".join(finding.run for finding in problems[1:])
        sentence += f" Also in {others}."
    return replace(first, sentence=sentence)


def first_problem(scope: DoctorScope, course: Course) -> DoctorFinding | None:
    """Return what a list of runs says of the course: success that collapses, or else a return that
    rises without it; None if there is neither."""
    if phases := _phases_that_count(scope, course):
        for own, examine in (
            (collapse, _collapse),
            (reward_without_success, _reward_without_success),
        ):
            finding = examine(scope, course, phases)
            if finding.result == "problem":
                return replace(finding, check=own.__name__)
    return None


def _phases_that_count(scope: DoctorScope, course: Course) -> list[Phase]:
    """Return the phases that have enough attempts; none if the course has too few."""
    minimum = int(scope.thresholds["attempts"])
    phases = [phase for phase in course.phases if phase.scored >= minimum]
    return phases if course.scored >= 2 * minimum else []


def _reward_without_success(
    scope: DoctorScope, course: Course, phases: list[Phase]
) -> DoctorFinding:
    least = scope.thresholds["success_rise"]
    pairs = [
        (_rise(scope, before, after) - _gain(before, after), before, after)
        for before, after in combinations(phases, 2)
        if _is_rising(scope, before, after)
        and _gain(before, after) < least
        and (before.success or 0.0) <= 1 - least
    ]
    if not pairs:
        return _no_problem(course, "Success keeps up with the mean return")
    most, _, after = max(pairs, key=lambda pair: pair[0])
    enough = most - scope.thresholds["rise"] / 2
    before = [before for size, before, last in pairs if last is after and size >= enough][-1]
    return _problem(
        scope,
        course,
        (before, after),
        f"the mean return goes {_returns(before, after)}, but success {_rates(before, after)}. "
        "Agents may collect rewards without doing the task.",
        f"The return rose {{when}}, but success went {_rates(before, after)}",
    )


def _length_with_reward(scope: DoctorScope, course: Course, phases: list[Phase]) -> DoctorFinding:
    pairs = [
        (before, after)
        for before, after in combinations(phases, 2)
        if _is_rising(scope, before, after)
        and _length(after) > _length(before)
        and _length(after) >= scope.thresholds["growth"] * _length(before)
    ]
    if not pairs:
        return _no_problem(course, "Attempts do not get longer as the return rises")
    longest = max(_length(after) for _, after in pairs)
    pairs = [pair for pair in pairs if _length(pair[1]) == longest]
    shortest = min(_length(before) for before, _ in pairs)
    before, after = [pair for pair in pairs if _length(pair[0]) <= AS_SHORT * shortest][-1]
    steps_from = math.floor(after.length_p90 or 0)
    link = scope.link_to_phase("The longest attempts", course, after, steps_from=steps_from)
    finding = _problem(
        scope,
        course,
        (before, after),
        f"attempts have {_length(after):.1f} steps instead of {_length(before):.1f}, while the "
        f"mean return goes {_returns(before, after)}. Rewards may pay for length.",
    )
    return replace(finding, evidence=[link, *finding.evidence])


def _collapse(scope: DoctorScope, course: Course, phases: list[Phase]) -> DoctorFinding:
    last, least = phases[-1], scope.thresholds["fall"]
    best = max(phases, key=lambda phase: phase.success or 0.0)
    is_apart = (best.success_low or 0.0) > (last.success_high or 0.0)
    if -_gain(best, last) >= least and is_apart:
        before = [phase for phase in phases if -_gain(best, phase) <= least / 2][-1]
        words = f"success falls {_rates(before, last)}"
        brief = f"Success fell {_rates(before, last)} {{when}}"
        if _is_rising(scope, before, last):
            words += f", while the mean return goes {_returns(before, last)}"
            brief += " while the return rose"
        return _problem(scope, course, (before, last), f"{words}.", brief)
    best = max(phases, key=lambda phase: phase.mean or 0.0)
    if -_rise(scope, best, last) >= least and _is_significant(last, best):
        before = [phase for phase in phases if -_rise(scope, best, phase) <= least / 2][-1]
        returns = _returns(before, last)
        brief = f"The return fell {returns} {{when}}"
        return _problem(scope, course, (before, last), f"the return falls {returns}.", brief)
    return _no_problem(course, "Success and return do not fall")


def _problem(
    scope: DoctorScope, course: Course, pair: tuple[Phase, Phase], words: str, brief: str = ""
) -> DoctorFinding:
    """Return the finding about what begins after the first of two phases, the last one before it,
    and is there in the second. `brief`: a format string with `when`."""
    before, after = pair
    start = course.phases[course.phases.index(before) + 1].x
    is_by_step = course.axis == "step"
    place = f"training step {start:,.0f}" if is_by_step else f"episode {start + 1:,.0f}"
    finding = problem(
        f"From {place} on, {words}",
        scope.link_to_phase(f"Before: {_places(course, before)}", course, before),
        scope.link_to_phase(f"After: {_places(course, after)}", course, after),
    )
    first, last = (phase if is_by_step else phase + 1 for phase in (start, after.x))
    unit = "step" if is_by_step else "episode"
    when = f"at {unit} {first:,.0f}"
    if last > first:
        when = f"between {unit}s {first:,.0f} and {last:,.0f}"
    return replace(
        finding,
        run=course.run.name if course.run else "",
        step=int(start) if is_by_step else None,
        brief=brief.format(when=when),
    )


def _no_problem(course: Course, words: str) -> DoctorFinding:
    changes = len(course.phases) - 1
    finding = no_problem(
        f"{words}; {changes or 'no'} change{'' if changes == 1 else 's'} of return, success or "
        "length."
    )
    return replace(finding, run=course.run.name if course.run else "")


def _places(course: Course, phase: Phase) -> str:
    if course.axis == "step":
        return f"steps {phase.x:,.0f} to {phase.x_to:,.0f}"
    return f"episodes {phase.x + 1:,.0f} to {phase.x_to:,.0f}"


def _is_rising(scope: DoctorScope, before: Phase, after: Phase) -> bool:
    """Return whether the mean return rises by as much as counts."""
    return _rise(scope, before, after) >= scope.thresholds["rise"] and _is_significant(
        before, after
    )


def _is_significant(low: Phase, high: Phase) -> bool:
    noise = math.hypot(low.error or 0.0, high.error or 0.0)
    return (high.mean or 0.0) - (low.mean or 0.0) > STANDARD_ERRORS * noise


def _rise(scope: DoctorScope, before: Phase, after: Phase) -> float:
    """Return the rise of the mean return as a share of the declared range."""
    width = scope.environment.reward_high - scope.environment.reward_low or 1.0
    return ((after.mean or 0.0) - (before.mean or 0.0)) / width


def _gain(before: Phase, after: Phase) -> float:
    """Return the rise of the success rate."""
    return (after.success or 0.0) - (before.success or 0.0)


def _length(phase: Phase) -> float:
    return phase.length_mean or 0.0


def _returns(before: Phase, after: Phase) -> str:
    return f"from {plain(before.mean or 0.0, 3)} to {plain(after.mean or 0.0, 3)}"


def _rates(before: Phase, after: Phase) -> str:
    return f"from {before.success or 0.0:.0%} to {after.success or 0.0:.0%}"
