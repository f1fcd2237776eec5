"""Check that score_group, if the environment offers it, returns one finite reward for each
candidate, in order."""

from __future__ import annotations

import math
from typing import Any

from environments.checking.check_state import CheckState
from environments.checking.checked_environment import Broken, leave
from environments.checking.inputs import FINAL_MESSAGE
from environments.database.storable import double_of

SUBJECT = "play"
CHECK = "groups are scored"


async def check_scoring(state: CheckState) -> None:
    if not state.samples or not (await state.checked.tools()).get("supports_score_group"):
        return
    candidates = [
        {"messages": [{"role": "assistant", "blocks": [{"type": "text", "text": text}]}]}
        for text in (FINAL_MESSAGE, "I do not know.")
    ]
    seat = await state.checked.open(state.samples[0])
    problems = []
    try:
        answer = await seat.score(candidates)
        if not _is_valid(answer, len(candidates)):
            problems.append(
                f"score_group returned {answer!r} for 2 candidates; return one finite reward for "
                "each, in order."
            )
    except Broken as error:
        problems.append(str(error))
    finally:
        await leave(seat)
    state.report.judge(SUBJECT, CHECK, problems, "Each candidate of a group has a finite reward.")


def _is_valid(answer: Any, count: int) -> bool:
    scores = answer.get("scores") if isinstance(answer, dict) else None
    if not isinstance(scores, list) or len(scores) != count:
        return False
    rewards = [score.get("reward") if isinstance(score, dict) else None for score in scores]
    return all(
        isinstance(reward, int | float) and math.isfinite(double_of(reward)) for reward in rewards
    )
