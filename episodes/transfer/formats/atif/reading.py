"""Reads trajectories: those that this server wrote become the same episodes again, `foreign.py`
reads all others."""

from __future__ import annotations

import json
from collections.abc import Sequence
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
    EpisodeLine,
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

_RESULT_EXACT = {"input": None, "output": None, "metadata": None}
_SHAPE = {
    "steps": [
        {
            "tool_calls": [{"arguments": None}],
            "observation": {"results": [{"extra": {EXTRA: _RESULT_EXACT}}]},
        }
    ],
    "extra": {
        EXTRA: {name: shape for name, shape in EXACT.items() if name not in ("rollouts", "steps")}
    },
}
"""The members of a trajectory that hold exact JSON texts; a shape for `sliced`."""
_STEP_FACTS = (
    *(
        "index",
        "reward",
        "finished",
        "status",
        "reason",
        "error",
        "started",
        "duration_ms",
        "waited_ms",
    ),
    *(
        "task_id",
        "tool",
        "input",
        f"input{TEXT}",
        "output",
        f"output{TEXT}",
        "metadata",
        f"metadata{TEXT}",
    ),
)


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
    head = value["extra"][EXTRA]
    line: EpisodeLine = checked_line(
        head | {"steps": [part for step in steps for part in step.parts()]}
    )
    rollout = value["extra"].get(ROLLOUT)
    rollouts = [] if rollout is None else [_rollout(rollout, steps)]
    return ImportedEpisode(line, rollouts)


def _rollout(value: Any, steps: Sequence[_OwnStep]) -> ImportedRollout:
    try:
        facts = RolloutPart.model_validate(value)
        messages = [message for step in steps for message in step.messages()]
    except ValidationError as error:
        raise BadRow(f"extra.{ROLLOUT}: {invalid_reason(error)}") from error
    return ImportedRollout(facts, messages)


class _OwnStep:
    """A step of a trajectory that this server wrote, with exact texts in it."""

    def __init__(self, step: dict[str, Any], folder: Folder) -> None:
        self._step, self._folder = step, folder
        self._calls: list[dict[str, Any]] = step.get("tool_calls") or []
        self._results: list[dict[str, Any]] = (step.get("observation") or {}).get("results") or []

    def parts(self) -> list[dict[str, Any]]:
        """Return the recorded steps as parts of a line, in which texts may be absent."""
        calls = {call["tool_call_id"]: call for call in self._calls}
        found = list[dict[str, Any]]()
        for result in self._results:
            own = (result.get("extra") or {}).get(EXTRA)
            if isinstance(own, dict) and result.get("source_call_id") in calls:
                found.append(self._part(calls[result["source_call_id"]], result, own))
        return found

    def _part(
        self, call: dict[str, Any], result: dict[str, Any], own: dict[str, Any]
    ) -> dict[str, Any]:
        if unknown := own.keys() - set(_STEP_FACTS):
            raise BadRow(
                f"{self._place}: extra.{EXTRA} of a result has the unknown key {min(unknown)!r}"
            )
        part = {"tool": call["function_name"], "task_id": call["tool_call_id"], "status": "ok"}
        part |= {name: value for name, value in own.items() if not name.startswith("metadata")}
        if "input" not in own and f"input{TEXT}" not in own:
            part["input"] = call["arguments"]
        if part["status"] == "ok" and "output" not in own and f"output{TEXT}" not in own:
            part["output"] = self._output(result, own)
        return part

    def _output(self, result: dict[str, Any], own: dict[str, Any]) -> str:
        try:
            metadata = own.get("metadata", own.get(f"metadata{TEXT}"))
            value = None if metadata is None else json.loads(metadata)
            content = loaded(result.get("content", ""), self._folder, must_exist=True)
            return output_text(
                content, value, own.get("reward"), is_finished=own.get("finished", False)
            )
        except (ValueError, TypeError) as error:
            raise BadRow(
                f"{self._place}: the output of {result['source_call_id']!r} cannot be read: {error}"
            ) from error

    @property
    def _place(self) -> str:
        return f"step {self._step.get('step_id')}"

    def messages(self) -> list[MessagePart]:
        """Return the messages of the conversation. Raises: ValidationError, BadRow."""
        own = (self._step.get("extra") or {}).get(EXTRA)
        values = own.get("messages") if isinstance(own, dict) else None
        if not isinstance(values, list):
            return []
        view = self._view()
        found = list[MessagePart]()
        for value in values:
            message = MessagePart.model_validate(value)
            message.content = (
                derived_text(message.kind, message.call, view)
                if message.content is None
                else message.content
            )
            found.append(message)
        return found

    def _view(self) -> StepTexts:
        contents = {
            one["source_call_id"]: one.get("content")
            for one in self._results
            if one.get("source_call_id")
        }
        calls = [
            (call["arguments"], self._loaded(contents.get(call["tool_call_id"])))
            for call in self._calls
        ]
        rest = [
            self._loaded(one.get("content"))
            for one in self._results
            if not one.get("source_call_id")
        ]
        message = self._loaded(self._step["message"]) or ""
        return StepTexts(message, self._step.get("reasoning_content") or "", calls, rest)

    def _loaded(self, content: Content | None) -> Content | None:
        return None if content is None else loaded(content, self._folder, must_exist=True)
