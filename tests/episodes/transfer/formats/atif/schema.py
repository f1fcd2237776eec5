"""A hand-written JSON Schema of ATIF 1.7, as Harbor's models check it.

Source: RFC 0001 of Harbor, and the models of the package `harbor` 0.24.0, which accepted the same
files.
"""

from __future__ import annotations

from typing import Any

import jsonschema


def _object(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


TEXT = {"type": "string"}
NUMBER = {"type": ["number", "null"]}
COUNT = {"type": ["integer", "null"], "minimum": 0}
EXTRA = {"type": ["object", "null"]}
SOURCE = _object(
    {"media_type": {"enum": ["image/jpeg", "image/png", "image/gif", "image/webp"]}, "path": TEXT},
    "media_type",
    "path",
)
PART = {
    "oneOf": [
        _object({"type": {"const": "text"}, "text": TEXT}, "type", "text"),
        _object({"type": {"const": "image"}, "source": SOURCE}, "type", "source"),
    ]
}
CONTENT = {"oneOf": [TEXT, {"type": "array", "items": PART}]}
CALL = _object(
    {"tool_call_id": TEXT, "function_name": TEXT, "arguments": {"type": "object"}, "extra": EXTRA},
    *("tool_call_id", "function_name", "arguments"),
)
RESULT = _object({"source_call_id": TEXT, "content": CONTENT, "extra": EXTRA})
METRICS = _object(
    {
        **dict.fromkeys(("prompt_tokens", "completion_tokens", "cached_tokens"), COUNT),
        "cost_usd": NUMBER,
        **{
            f"{kind}_token_ids": {"type": "array", "items": {"type": "integer"}}
            for kind in ("prompt", "completion")
        },
        "logprobs": {"type": "array", "items": {"type": "number"}},
        "extra": EXTRA,
    }
)
_OF_ALL = {
    "step_id": {"type": "integer", "minimum": 1},
    "timestamp": {"type": "string", "format": "date-time"},
    "message": CONTENT,
    "observation": _object({"results": {"type": "array", "items": RESULT}}, "results"),
    "is_copied_context": {"type": "boolean"},
    "llm_call_count": COUNT,
    "extra": EXTRA,
}
_OF_AGENTS = {
    "model_name": TEXT,
    "reasoning_effort": {"type": ["string", "number"]},
    "reasoning_content": TEXT,
    "tool_calls": {"type": "array", "items": CALL, "minItems": 1},
    "metrics": METRICS,
}
STEP = {
    "oneOf": [
        _object(
            {**_OF_ALL, "source": {"enum": ["system", "user"]}}, "step_id", "source", "message"
        ),
        _object(
            {**_OF_ALL, **_OF_AGENTS, "source": {"const": "agent"}}, "step_id", "source", "message"
        ),
    ]
}
AGENT = _object(
    {
        **{"name": TEXT, "version": TEXT, "model_name": TEXT, "extra": EXTRA},
        "tool_definitions": {"type": "array", "items": {"type": "object"}},
    },
    *("name", "version"),
)
FINAL_METRICS = _object(
    {
        **dict.fromkeys(
            ("total_prompt_tokens", "total_completion_tokens", "total_cached_tokens"), COUNT
        ),
        **{"total_cost_usd": NUMBER, "total_steps": COUNT, "extra": EXTRA},
    }
)
TRAJECTORY = _object(
    {
        **{
            "schema_version": {"const": "ATIF-v1.7"},
            "session_id": TEXT,
            "trajectory_id": TEXT,
            "agent": AGENT,
        },
        **{
            "steps": {"type": "array", "items": STEP, "minItems": 1},
            "notes": TEXT,
            "final_metrics": FINAL_METRICS,
        },
        **{"continued_trajectory_ref": TEXT, "extra": EXTRA},
    },
    *("schema_version", "agent", "steps"),
)
VALIDATOR = jsonschema.Draft202012Validator(TRAJECTORY)


def problems_of(trajectory: dict[str, Any]) -> list[str]:
    """Return what no JSON Schema can say: step ids that don't count from 1, and results of calls
    that don't exist."""
    found = list[str]()
    for number, step in enumerate(trajectory["steps"], 1):
        calls = [call["tool_call_id"] for call in step.get("tool_calls", ())]
        results = [
            one.get("source_call_id") for one in step.get("observation", {}).get("results", ())
        ]
        found += (
            [f"step {number} has the step_id {step['step_id']}"]
            if step["step_id"] != number
            else []
        )
        found += [
            f"step {number} has no call {one!r}"
            for one in results
            if one is not None and one not in calls
        ]
        found += [f"step {number} has a call twice"] if len(set(calls)) < len(calls) else []
    return found
