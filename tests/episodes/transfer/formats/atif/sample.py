"""Trajectories as other programs write them, and Harbor's directory of a job."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PNG = b"\x89PNG\r\n\x1a\n"
STEPS: list[dict[str, Any]] = [
    {"step_id": 1, "source": "system", "message": "You are a careful engineer."},
    {
        "step_id": 2,
        "timestamp": "2026-03-01T10:00:00Z",
        "source": "user",
        "message": "Count the zebras in /data.",
    },
    {
        "step_id": 3,
        "timestamp": "2026-03-01T10:00:05.250Z",
        "source": "agent",
        "model_name": "anthropic/claude-x",
        "reasoning_effort": "high",
        "message": "Two listings will do.",
        "reasoning_content": "First look, then count.",
        "tool_calls": [
            {"tool_call_id": "c1", "function_name": "bash", "arguments": {"command": "ls /data"}},
            {"tool_call_id": "c2", "function_name": "view", "arguments": {"path": "a.png"}},
        ],
        "observation": {
            "results": [
                {"source_call_id": "c1", "content": "zebra-1 zebra-2"},
                {
                    "source_call_id": "c2",
                    "content": [
                        {"type": "text", "text": "A picture:"},
                        {
                            "type": "image",
                            "source": {"media_type": "image/png", "path": "images/a.png"},
                        },
                    ],
                },
            ]
        },
        "metrics": {
            "prompt_tokens": 120,
            "completion_tokens": 30,
            "cached_tokens": 100,
            "cost_usd": 0.002,
        },
        "extra": {"temperature": 0.7},
    },
    {
        "step_id": 4,
        "timestamp": "2026-03-01T10:00:09Z",
        "source": "agent",
        "message": "There are two.",
    },
]
TRAJECTORY: dict[str, Any] = {
    "schema_version": "ATIF-v1.7",
    "session_id": "run-77",
    "trajectory_id": "t-1",
    "agent": {
        "name": "terminus-2",
        "version": "2.0.0",
        "model_name": "anthropic/claude-x",
        "tool_definitions": [
            {
                "type": "function",
                "function": {
                    "name": "bash",
                    "description": "Run.",
                    "parameters": {"type": "object"},
                },
            }
        ],
        "extra": {"parser": "json"},
    },
    "steps": STEPS,
    "notes": "Second try.",
    "final_metrics": {
        "total_prompt_tokens": 120,
        "total_completion_tokens": 30,
        "total_cost_usd": 0.002,
    },
}
RESULT: dict[str, Any] = {
    "task_name": "zebras",
    "trial_name": "zebras__a1",
    "source": "Terminal-Bench@2",
    "config": {"trials_dir": "jobs/nightly"},
    "agent_info": {
        "name": "terminus-2",
        "version": "2.0.0",
        "model_info": {"name": "claude-x", "provider": "anthropic"},
    },
    "verifier_result": {"rewards": {"reward": 1.0}},
    "started_at": "2026-03-01T09:59:58Z",
    "finished_at": "2026-03-01T10:00:20Z",
}


def trajectory(**values: Any) -> dict[str, Any]:
    """Return a copy of TRAJECTORY with other values; None removes a field."""
    changed = json.loads(json.dumps(TRAJECTORY)) | values
    return {name: value for name, value in changed.items() if value is not None}


def changed_step(number: int, **values: Any) -> dict[str, Any]:
    """Return the trajectory with other values in one of its steps; None removes a field."""
    copied = trajectory()
    step = copied["steps"][number - 1] | values
    copied["steps"][number - 1] = {name: value for name, value in step.items() if value is not None}
    return copied


def embedded_image() -> str:
    return f"data:image/png;base64,{base64.b64encode(PNG).decode()}"


def write_trial(
    folder: Path,
    value: dict[str, Any] | None = None,
    result: dict[str, Any] | None = None,
    verifier: Mapping[str, str] = {},
) -> Path:
    """Write a trial as Harbor does, and return the directory of its job. `verifier`: texts of its
    files by name."""
    agent = folder / "nightly" / "zebras__a1" / "agent"
    (agent / "images").mkdir(parents=True)
    (agent / "images" / "a.png").write_bytes(PNG)
    (agent / "trajectory.json").write_text(json.dumps(value or TRAJECTORY, indent=2))
    (agent.parent / "result.json").write_text(json.dumps(result or RESULT))
    (agent.parent / "verifier").mkdir()
    for name, text in verifier.items():
        (agent.parent / "verifier" / name).write_text(text)
    (folder / "nightly" / "config.json").write_text('{"job_name": "nightly"}')
    return folder / "nightly"
