"""Checks that teardown works after play, without a setup before it, and when it is called twice."""

from __future__ import annotations

from environments.checking.check_state import CheckState
from environments.checking.checked_environment import Broken, RequestRefused, Sample
from environments.checking.local import LocalEnvironment

SUBJECT = "teardown"


async def check_teardown(state: CheckState) -> None:
    if not state.samples:
        return state.report.skip(SUBJECT, "after play", "No session could be opened.")
    sample = state.samples[0]
    await _check_after_play(state, sample)
    if state.local is None:
        return
    if not state.local.hosted.overrides("teardown"):
        return state.report.skip(
            SUBJECT, "without setup and twice", "The class has no teardown of its own."
        )
    await _check_without_setup(state, sample)
    await _check_twice(state, state.local, sample)


async def _check_after_play(state: CheckState, sample: Sample) -> None:
    problems = []
    try:
        seat = await state.checked.open(sample)
        await seat.prompt()
        await seat.close()
    except (Broken, RequestRefused) as error:
        problems.append(
            f"{error} Every session ends with teardown; let it release what setup opened and raise "
            "nothing."
        )
    state.report.judge(SUBJECT, "after play", problems, "A session ends without an error.")


async def _check_without_setup(state: CheckState, sample: Sample) -> None:
    """Close a session without setup, because the server calls teardown after a failed setup too."""
    seat = await state.checked.open(sample, with_setup=False)
    problems = []
    try:
        await seat.close()
    except (Broken, RequestRefused) as error:
        problems.append(
            f"{error} It is called after a failed setup too; create what it uses in "
            "the constructor."
        )
    state.report.judge(
        SUBJECT, "without setup", problems, "It works without a setup before it.", "warning"
    )


async def _check_twice(state: CheckState, checked: LocalEnvironment, sample: Sample) -> None:
    problems = []
    seat = await checked.open(sample)
    for tear_down in (seat.tear_down, seat.close):
        try:
            await tear_down()
        except (Broken, RequestRefused) as error:
            problems.append(f"{error} This server calls it once; others may call it again.")
    state.report.judge(SUBJECT, "twice", problems, "A second call raises no exception.", "warning")
