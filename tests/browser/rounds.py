"""Rounds: short episodes of `guess` under a run, played over the wire, for browser tests that need
figures."""

from __future__ import annotations

import httpx

from tests.server import LiveServer


def play_rounds(
    live: LiveServer, run: str, count: int = 1, *, step: int = 0, model: str = ""
) -> list[int]:
    """Play `count` attempts by `run` and `model` at the first task of train, one guess each.

    Return their numbers, in order.
    """
    secrets = {
        "orsweb_run": run,
        "orsweb_step": str(step),
        "orsweb_model": model or f"model-of-{run}",
    }
    opened = {"env_name": "guess", "split": "train", "index": 0, "secrets": secrets}
    with httpx.Client(base_url=live.url, timeout=30) as agent:
        for number in range(count):
            agent.headers["X-Session-ID"] = f"{run}-{step}-{number}"
            agent.post("/create", json=opened).raise_for_status()
            agent.post(
                "/guess/call", json={"name": "guess", "input": {"number": 1}}
            ).raise_for_status()
            agent.post("/delete").raise_for_status()
        newest = agent.get(f"/api/episodes?run={run}").json()["results"][:count]
    return [int(episode["id"]) for episode in reversed(newest)]
