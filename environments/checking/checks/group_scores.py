"""Check that score_group, if the environment offers it, returns one finite reward for each
candidate, in order."""

from __future__ import annotations

import math

from environments.checking.check_state import CheckState
from environments.checking.checked_environment import Broken, closing
from environments.database.storable import double_of
from environments.schemas.inputs import FINAL_MESSAGE


async def check_scoring(state: CheckState) -> None:
    if not state.samples or not (await state.environment.tools()).get("supports_score_group"):
        return
    candidates = [
        {"messages": [{"role": "assistant", "blocks": [{"type": "text", "text": text}]}]}
        for text in (FINAL_MESSAGE, "I do not know.")
    ]
    problem = ""
    try:
        async with closing(state.environment.open(state.samples[0])) as seat:
            answer = await seat.score(candidates)
        scores = answer.get("scores") if isinstance(answer, dict) else None
        rewards = [
            double_of(score["reward"])
            for score in (scores if isinstance(scores, list) else ())
            if isinstance(score, dict) and isinstance(score.get("reward"), int | float)
        ]
        if len(rewards) != len(candidates) or not all(map(math.isfinite, rewards)):
            problem = (
                f"score_group returned {answer!r} for 2 candidates; return one finite reward for "
                "each, in order."
            )
    except Broken as error:
        problem = str(error)
    state.report.expect(
        "groups are scored", not problem, problem, "Each candidate of a group has a finite reward."
    )
