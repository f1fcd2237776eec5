"""Checks that teardown works after play, without a setup before it, and when it is called twice."""

from __future__ import annotations

from environments.checking.check_state import CheckState
from environments.checking.checked_environment import Broken, RequestRefused


async def check_teardown(state: CheckState) -> None:
    if not state.samples:
        return state.report.skip("after play", "No session could be opened.")
    sample = state.samples[0]
    problem = ""
    try:
        seat = await state.environment.open(sample)
        await seat.prompt()
        await seat.close()
    except (Broken, RequestRefused) as error:
        problem = (
            f"{error} Every session ends with teardown; let it release what setup opened and raise "
            "nothing."
        )
    state.report.expect("after play", not problem, problem, "A session ends without an error.")
    if state.local is None:
        return
    if not state.local.hosted.overrides("teardown"):
        return state.report.skip("without setup and twice", "The class has no teardown of its own.")
    # the server calls teardown after a failed setup too
    seat = await state.environment.open(sample, with_setup=False)
    try:
        await seat.close()
    except (Broken, RequestRefused) as error:
        problem = f"{error} It is called after a failed setup too; create what it uses in the constructor."
        state.report.warn("without setup", problem)
    else:
        state.report.ok("without setup", "It works without a setup before it.")
    problems = []
    local_seat = await state.local.open(sample)
    for tear_down in (local_seat.tear_down, local_seat.close):
        try:
            await tear_down()
        except (Broken, RequestRefused) as error:
            problems.append(f"{error} This server calls it once; others may call it again.")
    state.report.judge("twice", problems, "A second call raises no exception.", "warning")
