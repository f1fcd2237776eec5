"""Reads trajectories: those that this server wrote become the same episodes again, `foreign.py`
reads all others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from environments.files.rows import BadRow
from environments.wire import (
    MAX_DEPTH,
    RepeatedKey,
    check_depth,
    check_finite,
    distinct_members,
    json_problem,
)
from episodes.transfer.embedded_json import ENVELOPE_LEVELS, TEXT, sliced
from episodes.transfer.episode_line import (
    EXACT,
    MessagePart,
    RolloutPart,
    checked_line,
    invalid_reason,
)
from episodes.transfer.formats.atif.conversation_steps import StepTexts, derived_text
from episodes.transfer.formats.atif.foreign import foreign_episode
from episodes.transfer.formats.atif.imported import (
    Folder,
    ImportedEpisode,
    ImportedRollout,
    TrialFacts,
    loaded,
)
from episodes.transfer.formats.atif.schema import checked_trajectory
from episodes.transfer.formats.atif.steps import EXTRA, Content, output_text
from episodes.transfer.formats.atif.trajectory_lines import ROLLOUT
from episodes.transfer.formats.atif.trial_result import trial_facts

_TEXTS = ("input", "output", "metadata")
_SHAPE = {
    "steps": [
        {
            "tool_calls": [{"arguments": None}],
            "observation": {"results": [{"extra": {EXTRA: dict.fromkeys(_TEXTS)}}]},
        }
    ],
    "extra": {
        EXTRA: {name: shape for name, shape in EXACT.items() if name not in ("rollouts", "steps")}
    },
}
"""The members of a trajectory that hold exact JSON texts; a shape for `sliced`."""
_STEP_FACTS = {
    "index",
    "reward",
    "finished",
    "status",
    "reason",
    "error",
    "started",
    "duration_ms",
    "waited_ms",
    "task_id",
    "tool",
    *_TEXTS,
    *(f"{name}{TEXT}" for name in _TEXTS),
}


def trajectory_episode(text: str, folder: Folder, names: TrialFacts) -> ImportedEpisode | None:
    """Return the episode of a trajectory; None if `text` is something else.

    text: JSON. folder: the files to which it may refer. names: environment and run for trajectories
    that others wrote; empty ones are taken from Harbor's files.

    Raises: BadRow.
    """
    if '"schema_version"' not in text:
        return None
    try:
        value = json.loads(text)
        if not isinstance(value, dict) or "schema_version" not in value:
            return None
        # What this server records may have MAX_DEPTH levels, and the trajectory has some around it.
        check_depth(value, MAX_DEPTH + ENVELOPE_LEVELS)
        trajectory = checked_trajectory(value)
        own = (trajectory.extra or {}).get(EXTRA)
        if isinstance(own, dict) and "orsweb" in own:
            return _own_episode(sliced(text, _SHAPE), folder)
        # not above, because exact texts stay as they are
        json.loads(text, object_pairs_hook=distinct_members)
        check_depth(value)
        check_finite(value)
    except RepeatedKey as error:
        raise BadRow(str(error)) from error
    except (ValueError, RecursionError) as error:
        raise BadRow(f"is not JSON that can be imported: {json_problem(error)}") from error
    trial = trial_facts(folder)
    trial = trial._replace(
        environment=names.environment or trial.environment, run=names.run or trial.run
    )
    return foreign_episode(trajectory, folder, trial)


def _own_episode(value: dict[str, Any], folder: Folder) -> ImportedEpisode:
    steps = [_OwnStep(step, folder) for step in value["steps"]]
    head, rollout = value["extra"][EXTRA], value["extra"].get(ROLLOUT)
    line = checked_line(head | {"steps": [part for step in steps for part in step.parts()]})
    if rollout is None:
        return ImportedEpisode(line)
    try:
        facts = RolloutPart.model_validate(rollout)
        messages = [message for step in steps for message in step.messages()]
    except ValidationError as error:
        raise BadRow(f"extra.{ROLLOUT}: {invalid_reason(error)}") from error
    return ImportedEpisode(line, [ImportedRollout(facts, messages)])


class _OwnStep:
    """A step of a trajectory that this server wrote, with exact texts in it."""

    def __init__(self, step: dict[str, Any], folder: Folder) -> None:
        self._step, self._folder = step, folder
        self._calls: list[dict[str, Any]] = step.get("tool_calls") or []
        self._results: list[dict[str, Any]] = (step.get("observation") or {}).get("results") or []

    def parts(self) -> Iterator[dict[str, Any]]:
        """Yield the recorded steps as parts of a line, in which texts may be absent. Raises:
        BadRow."""
        calls = {call["tool_call_id"]: call for call in self._calls}
        for result in self._results:
            own, call = _own(result), calls.get(result.get("source_call_id"))
            if own is None or call is None:
                continue
            if unknown := own.keys() - _STEP_FACTS:
                key = min(unknown)
                raise self._refusal(f"extra.{EXTRA} of a result has the unknown key {key!r}")
            part = {"tool": call["function_name"], "task_id": call["tool_call_id"], "status": "ok"}
            part |= {name: value for name, value in own.items() if not name.startswith("metadata")}
            if "input" not in own and f"input{TEXT}" not in own:
                part["input"] = call["arguments"]
            if part["status"] == "ok" and "output" not in own and f"output{TEXT}" not in own:
                part["output"] = self._output(result, own)
            yield part

    def _output(self, result: dict[str, Any], own: dict[str, Any]) -> str:
        try:
            metadata = json.loads(own.get("metadata", own.get(f"metadata{TEXT}", "null")))
            content = loaded(result.get("content", ""), self._folder, must_exist=True)
            is_finished = own.get("finished", False)
            return output_text(content, metadata, own.get("reward"), is_finished=is_finished)
        except (ValueError, TypeError) as error:
            call = result["source_call_id"]
            raise self._refusal(f"the output of {call!r} cannot be read: {error}") from error

    def _refusal(self, reason: str) -> BadRow:
        return BadRow(f"step {self._step.get('step_id')}: {reason}")

    def messages(self) -> list[MessagePart]:
        """Return the messages of the conversation. Raises: ValidationError, BadRow."""
        values = (_own(self._step) or {}).get("messages")
        if not isinstance(values, list):
            return []
        contents = {
            result["source_call_id"]: result.get("content")
            for result in self._results
            if result.get("source_call_id")
        }
        texts = StepTexts(
            self._loaded(self._step["message"]) or "",
            self._step.get("reasoning_content") or "",
            [
                (call["arguments"], self._loaded(contents.get(call["tool_call_id"])))
                for call in self._calls
            ],
            [
                self._loaded(result.get("content"))
                for result in self._results
                if not result.get("source_call_id")
            ],
        )
        messages = [MessagePart.model_validate(value) for value in values]
        for message in messages:
            if message.content is None:
                message.content = derived_text(message.kind, message.call, texts)
        return messages

    def _loaded(self, content: Content | None) -> Content | None:
        return None if content is None else loaded(content, self._folder, must_exist=True)


def _own(part: dict[str, Any]) -> dict[str, Any] | None:
    """Return what this server wrote into `extra` of a step or result; None if it is another's."""
    own = (part.get("extra") or {}).get(EXTRA)
    return own if isinstance(own, dict) else None
