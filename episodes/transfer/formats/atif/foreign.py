"""Makes an episode of a trajectory that another program wrote.

Each tool call becomes a step. ATIF has no rewards: the reward of a trial is in Harbor's
`result.json` next to the trajectory, other programs may name it in `extra.reward` or
`final_metrics.extra.reward`. It becomes the reward of the last step. A trajectory without one says
nothing about success, so its episode is a probe, which no figure counts.

The conversation becomes a rollout that is joined with the episode by the id of its session. Each
message has the number of its step in its metadata, so that an export has the same steps again.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from environments.database.storable import digest_of, double_of, storable, storable_id
from environments.errors import shorten
from environments.files.rows import BadRow
from environments.wire import value_json
from episodes.attempts.components import COMPONENT_MEMBERS
from episodes.recording.batch import SESSION_ID_LENGTH, TASK_ID_LENGTH
from episodes.transfer.embedded_json import SCHEMA
from episodes.transfer.episode_line import EpisodeLine, MessagePart, RolloutPart, checked_line
from episodes.transfer.formats.atif.conversation_steps import (
    SOURCES,
    STEP_FIELDS,
    USAGE,
    plain_text,
)
from episodes.transfer.formats.atif.imported import (
    Folder,
    ImportedEpisode,
    ImportedRollout,
    TrialFacts,
    loaded,
    reward_names,
)
from episodes.transfer.formats.atif.schema import METADATA, AtifStep, AtifToolCall, AtifTrajectory
from episodes.transfer.formats.atif.steps import Content, output_text
from episodes.uploads.events import CALL_ID_LENGTH, ID_LENGTH

ENVIRONMENT = "atif"
"""Name of the environment where nothing names one."""
NO_RESULT = "The trajectory has no result of this call."
_STEP_NAMES = ("reward", "rewards")
NO_REWARD = "The trajectory names no reward."
_KINDS = {source: kind for kind, source in SOURCES.items()}


def foreign_episode(
    trajectory: AtifTrajectory, folder: Folder, trial: TrialFacts
) -> ImportedEpisode:
    """Return the episode and the conversations of a trajectory. Raises: BadRow."""
    reader = _Reader(trajectory, folder, trial)
    line = reader.line()
    rollouts = [reader.rollout(line), *_subagents(trajectory, folder, trial, reader.identity)]
    return ImportedEpisode(line, rollouts, is_foreign=True)


def _subagents(
    trajectory: AtifTrajectory, folder: Folder, trial: TrialFacts, parent: str
) -> Iterator[ImportedRollout]:
    """Yield the conversations of embedded subagents: they play no episode of their own."""
    for one in trajectory.subagent_trajectories or ():
        reader = _Reader(one, folder, trial, parent)
        yield reader.rollout(None)
        yield from _subagents(one, folder, trial, reader.identity)


class _Reader:
    """Makes one trajectory an episode and a rollout."""

    def __init__(
        self, trajectory: AtifTrajectory, folder: Folder, trial: TrialFacts, parent: str = ""
    ) -> None:
        self._trajectory, self._folder, self._trial = trajectory, folder, trial
        self._times = [
            time for step in trajectory.steps if (time := _time(step.timestamp)) is not None
        ]
        self._is_dated = bool(self._times or trial.started)
        self._created = min(
            [*self._times, *([trial.started] if trial.started else [])], default=datetime.now(UTC)
        )
        self.identity = f"{parent}/{trajectory.trajectory_id}" if parent else _identity(trajectory)
        if trial.step and not parent:
            # an agent may go on with its session in the next step
            self.identity += f"~{trial.step}"
        self._contents = dict[int, Content]()

    # --- the episode

    def line(self) -> EpisodeLine:
        """Return the episode. Raises: BadRow."""
        trial, agent = self._trial, self._trajectory.agent
        steps = list(self._steps())
        reward = _reward(self._trajectory) if trial.reward is None else trial.reward
        if reward is None and not trial.components:
            self._check_other_places()
        if steps and reward is not None:
            steps[-1] |= {"reward": reward}
        if steps:
            steps[-1] |= {"finished": not trial.exception_kind}
        self._finish_outputs(steps)
        model = trial.model or agent.model_name or ""
        failed = sum(step["status"] == "failed" for step in steps)
        prompt = self._prompt()
        return checked_line(
            {
                **{"orsweb": SCHEMA, "id": 1, "status": "ended", "player": "agent"},
                "environment": {"name": storable(trial.environment or ENVIRONMENT, 200)},
                "task": {"spec": value_json(self._spec())},
                "session_id": storable_id(self.identity, SESSION_ID_LENGTH),
                "user_agent": storable(f"{agent.name}/{agent.version}", 300),
                "run": self._run(model),
                "model": storable(model, 200),
                "labels": value_json(self._labels()),
                **({"prompt": prompt} if prompt else {}),
                **({"tools": tools} if (tools := _tools(self._trajectory)) else {}),
                **self._ending(reward, has_output=any("output" in step for step in steps)),
                **{"steps_count": len(steps), "failed_count": failed},
                **{f"return_{name}": reward for name in ("last", "max", "mean")},
                **{"return_sum": reward or 0.0, "steps": steps},
                **self._episode_times(),
            }
        )

    def _check_other_places(self) -> None:
        """Refuse a trajectory whose only reward stands where none is read. Raises: BadRow."""
        trajectory, trial = self._trajectory, self._trial.trial
        totals = trajectory.final_metrics.extra if trajectory.final_metrics else None
        places = {
            "extra": trajectory.extra,
            "agent.extra": trajectory.agent.extra,
            "final_metrics.extra": totals,
        }
        found = [
            (place, extra or {}, name)
            for place, extra in places.items()
            for name in reward_names(extra or {})
        ]
        parts = dict[str, Any]()
        for n, step in enumerate(trajectory.steps):
            parts |= {
                f"steps.{n}.extra": step.extra,
                f"steps.{n}.metrics.extra": step.metrics and step.metrics.extra,
            }
            for m, result in enumerate(step.observation.results if step.observation else ()):
                parts[f"steps.{n}.observation.results.{m}.extra"] = result.extra
        # a score may be anything there, such as how well a document matches
        found += [
            (place, extra, name)
            for place, extra in parts.items()
            for name in reward_names(extra or {}, _STEP_NAMES)
        ]
        for place, extra, name in found:
            whose = f"belongs to trial {shorten(repr(trial), 60)} and " if trial else ""
            raise BadRow(
                f"{whose}has {place}.{name}, which is {shorten(repr(extra[name]), 40)}; a "
                "trajectory's reward is read "
                "only in extra.reward and final_metrics.extra.reward"
            )

    def _run(self, model: str) -> dict[str, Any] | None:
        if not self._trial.run:
            return None
        name = storable(self._trial.run, 200)
        return {"name": name, "model": storable(model, 200)}

    def _spec(self) -> dict[str, Any]:
        """Return the task: what Harbor calls it, or else what the agent was told to do."""
        if self._trial.task:
            return {"task_name": self._trial.task} | (
                {"step_name": self._trial.step} if self._trial.step else {}
            )
        told = [
            step for step in self._trajectory.steps if step.source == "user"
        ] or self._trajectory.steps[:1]
        return {"instruction": plain_text(self._content(told[0]))}

    def _labels(self) -> dict[str, str]:
        trajectory = self._trajectory
        names = {"trajectory_id": trajectory.trajectory_id, "session_id": trajectory.session_id}
        names |= {"trial": self._trial.trial, "schema_version": trajectory.schema_version}
        return {name: value for name, value in names.items() if value}

    def _ending(self, reward: float | None, *, has_output: bool) -> dict[str, Any]:
        detail = self._trial.exception
        if kind := self._trial.exception_kind:
            return {"cause": kind, "detail": storable(detail)}
        components = self._trial.components
        if components and (reward is None or not has_output or None in components.values()):
            texts = ("null" if value is None else f"{value:g}" for value in components.values())
            names = ", ".join(map(" ".join, zip(components, texts, strict=True)))
            missing = "" if reward is not None else ", but no number is named reward"
            detail = f"{detail} The trial has the rewards {names}{missing}.".strip()
        elif reward is None:
            detail = NO_REWARD
        probe = {"is_probe": True} if reward is None else {}
        return {"cause": "finished", "detail": storable(detail), **probe}

    def _episode_times(self) -> dict[str, Any]:
        acted = [
            time
            for step in self._trajectory.steps
            if step.tool_calls and (time := _time(step.timestamp))
        ]
        ended = max(
            [*self._times, *([self._trial.finished] if self._trial.finished else [])],
            default=self._created,
        )
        times = {"created": self._created, "ready": self._created, "ended": ended}
        times |= {"first_acted": min(acted), "last_acted": max(acted)} if acted else {}
        duration = (max(acted) - self._created).total_seconds() if acted else None
        return {name: time.isoformat() for name, time in times.items()} | {
            "duration_seconds": duration
        }

    def _prompt(self) -> str:
        """Return what the agent was told before its first turn, as recorded blocks."""
        blocks = list[Any]()
        for step in self._trajectory.steps:
            if step.source == "agent":
                break
            content = self._content(step)
            blocks += (
                json.loads(output_text(content, None, None, is_finished=False))["blocks"]
                if content
                else []
            )
        return value_json(blocks) if blocks else ""

    def _steps(self) -> Iterator[dict[str, Any]]:
        index, taken = 0, set[str]()
        for step in self._trajectory.steps:
            if step.source != "agent" or step.is_copied_context:
                continue
            results = _results(step)
            for call in step.tool_calls or ():
                task_id = storable_id(call.tool_call_id or f"call-{index}", TASK_ID_LENGTH)
                task_id = (
                    task_id
                    if task_id not in taken
                    else storable_id(f"{task_id}#{index}", TASK_ID_LENGTH)
                )
                taken.add(task_id)
                yield self._step(index, task_id, step, call, results.get(call.tool_call_id))
                index += 1

    def _step(
        self, index: int, task_id: str, step: AtifStep, call: AtifToolCall, content: Any
    ) -> dict[str, Any]:
        part: dict[str, Any] = {
            "index": index,
            "tool": storable(call.function_name, 200),
            "task_id": task_id,
        }
        part |= {"input": value_json(call.arguments), "duration_ms": 0.0}
        part["started"] = (_time(step.timestamp) or self._created).isoformat()
        if content is None:
            return part | {"status": "failed", "reason": "no_result", "error": NO_RESULT}
        return part | {
            "status": "ok",
            "output": loaded(_plain(content), self._folder, must_exist=False),
        }

    def _finish_outputs(self, steps: list[dict[str, Any]]) -> None:
        """Make the content of each result the text of an output, with the reward of the step."""
        answered = [step for step in steps if "output" in step]
        for step in answered:
            components = {
                name: value for name, value in self._trial.components.items() if value is not None
            }
            metadata = (
                {COMPONENT_MEMBERS[0]: components} if components and step is answered[-1] else None
            )
            finished = step.get("finished", False)
            step["output"] = output_text(
                step["output"], metadata, step.get("reward"), is_finished=finished
            )

    # --- the conversation

    def rollout(self, line: EpisodeLine | None) -> ImportedRollout:
        """Return the conversation. `line`: its episode; None for a subagent's, which belongs to
        none."""
        trial, agent = self._trial, self._trajectory.agent
        own = {METADATA: self._fields()} | ({"session_id": line.session_id} if line else {})
        event = {"eventType": "rollout", "eventId": self.identity, "metadata": own}
        environment = line.environment.name if line else ""
        facts = RolloutPart(
            event_id=storable_id(self.identity, ID_LENGTH),
            run=storable(trial.run, 200) or None,
            name=storable(trial.trial or agent.name, 300),
            environment=environment,
            environment_name=environment.lower(),
            model=storable(agent.model_name or trial.model, 200),
            event=value_json(event),
            info=value_json({name: [0, value] for name, value in self._info().items()}),
            sent_ms=int(self._created.timestamp() * 1000) if self._is_dated else None,
            received=self._created,
        )
        return ImportedRollout(facts, list(self._messages()))

    def _fields(self) -> dict[str, Any]:
        """Return the fields of the trajectory that no column holds, so that an export has them
        again."""
        return self._trajectory.model_dump(
            exclude_none=True, exclude={"steps", "subagent_trajectories"}
        )

    def _info(self) -> dict[str, Any]:
        """Return what the page of the rollout shows."""
        trajectory = self._trajectory
        totals = trajectory.final_metrics
        found = totals.model_dump(exclude_none=True, exclude={"extra"}) if totals else {}
        metrics = {name.removeprefix("total_"): value for name, value in found.items()}
        agent = {"agent": f"{trajectory.agent.name} {trajectory.agent.version}"}
        return {**agent, **metrics, **({"notes": trajectory.notes} if trajectory.notes else {})}

    def _messages(self) -> Iterator[MessagePart]:
        index = 0
        for step in self._trajectory.steps:
            for place, (kind, text, further) in enumerate(self._step_messages(step)):
                own: dict[str, Any] = {"step_id": step.step_id, **further.pop("own", {})}
                metadata: dict[str, Any] = {METADATA: own}
                if place == 0:
                    own |= _step_fields(step)
                    metadata |= (
                        {USAGE: step.metrics.model_dump(exclude_none=True)} if step.metrics else {}
                    )
                time = _time(step.timestamp)
                facts: dict[str, Any] = {
                    "kind": kind,
                    "event_id": f"{step.step_id}.{place}",
                    "index": index,
                }
                facts |= {
                    "content": text,
                    "extra": value_json({"metadata": metadata}),
                    "received": self._created,
                }
                facts["sent_ms"] = None if time is None else int(time.timestamp() * 1000)
                yield MessagePart(**facts, **further)
                index += 1

    def _step_messages(self, step: AtifStep) -> list[tuple[str, str, dict[str, Any]]]:
        """Return the type, text and further columns of each message of a step."""
        found = list[tuple[str, str, dict[str, Any]]]()
        if step.reasoning_content is not None:
            found.append(("reasoning", step.reasoning_content, {}))
        content = self._content(step)
        if content or step.source != "agent" or not (found or step.tool_calls):
            kind = _KINDS.get(step.source, "assistant_message")
            found.append((kind, plain_text(content), _parts(content)))
        for call in step.tool_calls or ():
            names = {
                "name": storable(call.function_name, 200),
                "call_id": storable_id(call.tool_call_id, CALL_ID_LENGTH),
            }
            found.append(("tool_call", value_json(call.arguments), names))
        for result in step.observation.results if step.observation else ():
            answer = (
                loaded(_plain(result.content), self._folder, must_exist=False)
                if result.content
                else ""
            )
            further = _parts(answer) | {
                "call_id": storable_id(result.source_call_id or "", CALL_ID_LENGTH)
            }
            found.append(("tool_result", plain_text(answer), further))
        return found

    def _content(self, step: AtifStep) -> Content:
        if step.step_id not in self._contents:
            self._contents[step.step_id] = loaded(
                _plain(step.message), self._folder, must_exist=False
            )
        return self._contents[step.step_id]


def _parts(content: Content) -> dict[str, Any]:
    return {} if isinstance(content, str) else {"own": {"parts": content}}


def _plain(content: Any) -> Content:
    """Return content without pydantic's types."""
    return (
        content
        if isinstance(content, str)
        else [part.model_dump(exclude_none=True) for part in content or ()]
    )


def _step_fields(step: AtifStep) -> dict[str, Any]:
    fields = {name: value for name in STEP_FIELDS if (value := getattr(step, name)) is not None}
    return fields | ({"extra": step.extra} if step.extra else {})


def _results(step: AtifStep) -> dict[str, Any]:
    """Return the content of the result of each call. A single result that names no call is that of
    a single call."""
    results = step.observation.results if step.observation else []
    calls = step.tool_calls or []
    if len(calls) == len(results) == 1 and results[0].source_call_id is None:
        return {calls[0].tool_call_id: results[0].content or ""}
    return {
        one.source_call_id: one.content or "" for one in results if one.source_call_id is not None
    }


def _identity(trajectory: AtifTrajectory) -> str:
    """Return what tells a trajectory from all others. Continuations share the id of their
    session."""
    if trajectory.trajectory_id:
        return trajectory.trajectory_id
    digest = digest_of(trajectory.model_dump_json().encode())
    if not trajectory.session_id:
        return f"atif-{digest}"
    is_continuation = any(step.is_copied_context for step in trajectory.steps)
    return f"{trajectory.session_id}~{digest[:8]}" if is_continuation else trajectory.session_id


def _time(text: str | None) -> datetime | None:
    """Return a time; one without an offset is taken as UTC."""
    if text is None:
        return None
    moment = datetime.fromisoformat(text)
    try:
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError as error:
        raise BadRow(f"the time {shorten(text, 40)!r} is out of range") from error


def _reward(trajectory: AtifTrajectory) -> float | None:
    """Return the reward that the trajectory names; None if it names none. Raises: BadRow."""
    metrics = trajectory.final_metrics
    places = {"extra": trajectory.extra, "final_metrics.extra": metrics.extra if metrics else None}
    for place, extra in places.items():
        if (value := (extra or {}).get("reward")) is None:
            continue
        number = double_of(value) if type(value) in (int, float) else math.nan
        if not math.isfinite(number):
            raise BadRow(
                f"{place}.reward is {shorten(repr(value), 40)}; it has to be a finite "
                "number, or null"
            )
        return number
    return None


def _tools(trajectory: AtifTrajectory) -> str:
    """Return the tools as a recorded ListToolsOutput; empty if there are none in OpenAI's form."""
    tools: Sequence[dict[str, Any]] = trajectory.agent.tool_definitions or []
    functions = [tool["function"] for tool in tools if isinstance(tool.get("function"), dict)]
    specs = [
        {
            "name": str(function.get("name", "")),
            "description": str(function.get("description", "")),
            "input_schema": function.get("parameters"),
        }
        for function in functions
    ]
    return value_json({"tools": specs}) if specs else ""
