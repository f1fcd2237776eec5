"""Rows of live play with defaults for all fields; a test passes only those that it is about."""

from __future__ import annotations

from typing import Any

from environments.runtime.records import (
    EpisodeEnded,
    EpisodeNoted,
    EpisodeStarted,
    RunInfo,
    StepTaken,
)

NOON = 1_800_000_000.25
"""Start of the episodes of tests in seconds since the epoch."""


def episode_started(episode: int = 1, **changes: Any) -> EpisodeStarted:
    values: dict[str, Any] = {
        "environment": "echo",
        "split": None,
        "index": None,
        "spec_json": '{"id": 1}',
        "tools_json": '{"tools": []}',
        "session_id": f"session-{episode}",
        "user_agent": "ors/0.1.0",
        "key_label": "",
        "player": "agent",
        "run": RunInfo(),
        "created": NOON,
    }
    return EpisodeStarted(episode=episode, **(values | changes))


def episode_noted(episode: int = 1, **changes: Any) -> EpisodeNoted:
    return EpisodeNoted(episode, **changes)


def step_taken(episode: int = 1, index: int = 0, **changes: Any) -> StepTaken:
    values: dict[str, Any] = {
        "tool": "echo",
        "input_json": '{"text": "hi"}',
        "output_json": '{"blocks": [], "metadata": null, "reward": 0.5, "finished": false}',
        "reward": 0.5,
        "finished": False,
        "status": "ok",
        "error": "",
        "reason": "",
        "task_id": f"call-{index}",
        "started": NOON + 1 + index,
        "duration_ms": 250.0,
        "waited_ms": 0.0,
    }
    return StepTaken(episode=episode, index=index, **(values | changes))


def episode_ended(episode: int = 1, **changes: Any) -> EpisodeEnded:
    values: dict[str, Any] = {
        "cause": "finished",
        "detail": "",
        "player": "agent",
        "is_named": False,
        "has_prompt": False,
        "ended": NOON + 9,
        "steps": 1,
        "failed": 0,
        "refused": 0,
        "return_sum": 0.5,
        "return_last": 0.5,
        "return_max": 0.5,
        "return_mean": 0.5,
        "ready": NOON + 0.5,
        "first_acted": NOON + 1,
        "last_acted": NOON + 2,
    }
    return EpisodeEnded(episode=episode, **(values | changes))
