"""Recorded episodes whose calls the checks make again, from a file of
`export_episodes --format jsonl`."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from environments.checking.checked_environment import Sample
from environments.errors import describe
from environments.wire import distinct_members

MAX_RECORDINGS = 5
"""Episodes of an environment that are played: those with the most calls that were accepted."""


@dataclass(frozen=True, slots=True)
class Recording:
    environment: str
    sample: Sample
    calls: list[tuple[str, dict[str, Any]]]
    """Tool and input of each call that was accepted."""


def read_recordings(path: Path) -> list[Recording]:
    """Return up to `MAX_RECORDINGS` episodes of each environment. Raises: OSError, ValueError."""
    by_environment: dict[str, list[Recording]] = defaultdict(list)
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                recording = _recording(json.loads(line, object_pairs_hook=distinct_members))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                advice = "give a file of export_episodes --format jsonl"
                raise ValueError(
                    f"Line {number} of {path} is no episode ({describe(error)}); {advice}."
                ) from error
            if recording.calls:
                own = [*by_environment[recording.environment], recording]
                own.sort(key=lambda recording: -len(recording.calls))
                by_environment[recording.environment] = own[:MAX_RECORDINGS]
    return [recording for recordings in by_environment.values() for recording in recordings]


def _recording(line: dict[str, Any]) -> Recording:
    split, index = line.get("split"), line.get("task_index")
    sample = Sample(
        split["name"] if split else "recorded", index or 0, _exact(line["task"], "spec")
    )
    calls = [
        (step["tool"], dict(_exact(step, "input")))
        for step in line["steps"]
        if step["status"] == "ok"
    ]
    return Recording(line["environment"]["name"], sample, calls)


def _exact(part: dict[str, Any], name: str) -> Any:
    """Return a JSON value that a line holds as it is, or as a text where a parser would have
    changed it."""
    return part[name] if name in part else json.loads(part.get(f"{name}_text") or "{}")
