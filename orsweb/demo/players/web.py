"""A scripted player of `web`: reaches the milestones as a visitor of the site would, or follows
unrelated links."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from environments.builtin.web.visitor import calls_for
from orsweb.demo.scripted_session import Act

_STRAYS = ["Home", "News", "Help", "Shop", "Account", "Checkout", "Log in"]
"""Targets that lead nowhere useful; some of them are on no page."""


async def play(spec: Mapping[str, Any], skill: float, random: Random, act: Act) -> None:
    for milestone in spec["milestones"]:
        while random.random() > 0.45 + 0.55 * skill:
            await act("click", target=random.choice(_STRAYS))
        if random.random() < 0.4 + 0.6 * skill:
            for tool, arguments in calls_for(milestone, spec["site"]):
                await act(tool, **arguments)
    if spec["answer"]:
        is_right = random.random() < skill
        await act(
            "answer",
            text=spec["answer"] if is_right else random.choice(["42", "Ceramics", "I do not know"]),
        )
