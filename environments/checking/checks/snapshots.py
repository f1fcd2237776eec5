"""Checks that a session of a class that saves can go on in a new instance: save, load, and the same
next result."""

from __future__ import annotations

from environments.checking.check_state import CheckState, PlayedEpisode, same_answer
from environments.checking.checked_environment import Broken, RequestRefused, closing
from environments.checking.local import LocalEnvironment

ROUND_TRIP = "round trip"
MAX_MOVES = 4
"""Calls of an episode before each of which it is saved and loaded."""
MAX_EPISODES = 2
INCOMPARABLE = (
    "Results were not compared, because sessions that make the same calls differ anyway. If that "
    "is by a generator of "
    "random numbers, save its state, and they are compared."
)


async def check_snapshots(state: CheckState) -> None:
    if state.local is None or not state.local.hosted.saves:
        return
    every = state.local.hosted.snapshot_every
    if every > 1 and not state.local.hosted.replayable:
        state.report.warn(
            "nothing between snapshots",
            f"snapshot_every is {every}, and sessions end that have calls after the last snapshot; "
            "set it to 1, or replayable to True if calls can be made again.",
        )
    problems, differences, count = list[str](), list[str](), 0
    for episode in sorted(state.episodes, key=lambda episode: -len(episode.accepted))[
        :MAX_EPISODES
    ]:
        script = PlayedEpisode(episode.sample, episode.accepted[:MAX_MOVES])
        for place in range(len(script.moves)):
            count += 1
            try:
                if difference := await _difference(state.local, script, place):
                    differences.append(difference)
                    break
            except (Broken, RequestRefused) as error:
                problems.append(str(error))
                break
    if not count:
        return state.report.unclear(ROUND_TRIP, state.refusal)
    if differences and not problems and not state.is_repeatable:
        return state.report.skip(ROUND_TRIP, f"Saved and loaded without an error. {INCOMPARABLE}")
    problems += differences
    text = (
        f"{count} sessions that were saved and loaded into a new instance went on with the same "
        "result."
    )
    state.report.judge(ROUND_TRIP, problems, text)


async def _difference(local: LocalEnvironment, episode: PlayedEpisode, place: int) -> str:
    """Return how a session that was saved and loaded before the call at `place` differs; empty if
    it does not.

    Raises: Broken, RequestRefused.
    """
    async with closing(local.open(episode.sample)) as seat:
        for move in episode.moves[:place]:
            await seat.call(move.tool, move.arguments)
        state, move = await seat.save(), episode.moves[place]
        before = await seat.call(move.tool, move.arguments)
    async with closing(local.open(episode.sample)) as fresh:
        await fresh.load(state)
        answer = await fresh.call(move.tool, move.arguments)
    if same_answer(answer, before):
        return ""
    where = f"Call {place + 1} of {episode.sample.label}, {move.tool!r},"
    return (
        f"{where} had a different result after save() and load(); save everything that calls "
        "change, also randomness."
    )
