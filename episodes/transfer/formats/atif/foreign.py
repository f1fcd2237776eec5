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
    REWARD_NAMES,
    Folder,
    ImportedEpisode,
    ImportedRollout,
    TrialFacts,
    loaded,
    reward_names,
)
from episodes.transfer.formats.atif.schema import METADATA, AtifResult, AtifStep, AtifTrajectory
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
    for subagent in trajectory.subagent_trajectories or ():
        reader = _Reader(subagent, folder, trial, parent)
        yield reader.rollout(None)
        yield from _subagents(subagent, folder, trial, reader.identity)


class _Reader:
    """Makes one trajectory an episode and a rollout."""

    def __init__(
        self, trajectory: AtifTrajectory, folder: Folder, trial: TrialFacts, parent: str = ""
    ) -> None:
        self._trajectory, self._folder, self._trial = trajectory, folder, trial
        times = [_time(step.timestamp) for step in trajectory.steps]
        self._times = [time for time in (*times, trial.started) if time is not None]
        self._created = min(self._times, default=datetime.now(UTC))
        self.identity = f"{parent}/{trajectory.trajectory_id}" if parent else _identity(trajectory)
        if trial.step and not parent:
            # an agent may go on with its session in the next step
            self.identity += f"~{trial.step}"
        self._contents = dict[int, Content]()

    # --- the episode

    def line(self) -> EpisodeLine:
        """Return the episode. Raises: BadRow."""
        trial, trajectory, agent = self._trial, self._trajectory, self._trajectory.agent
        reward = _reward(trajectory) if trial.reward is None else trial.reward
        if reward is None and not trial.components:
            self._check_other_places()
        steps = self._steps(reward)
        if trial.task:
            spec = {"task_name": trial.task} | ({"step_name": trial.step} if trial.step else {})
        else:  # what the agent was told to do
            users = [step for step in trajectory.steps if step.source == "user"]
            spec = {"instruction": plain_text(self._content((users or trajectory.steps)[0]))}
        labels = {
            "trajectory_id": trajectory.trajectory_id,
            "session_id": trajectory.session_id,
            "trial": trial.trial,
            "schema_version": trajectory.schema_version,
        }
        model = storable(trial.model or agent.model_name or "", 200)
        run = {"name": storable(trial.run, 200), "model": model} if trial.run else None
        return checked_line(
            {
                "orsweb": SCHEMA,
                "id": 1,
                "status": "ended",
                "player": "agent",
                "environment": {"name": storable(trial.environment or ENVIRONMENT, 200)},
                "task": {"spec": value_json(spec)},
                "session_id": storable_id(self.identity, SESSION_ID_LENGTH),
                "user_agent": storable(f"{agent.name}/{agent.version}", 300),
                "run": run,
                "model": model,
                "labels": value_json({name: text for name, text in labels.items() if text}),
                "prompt": self._prompt(),
                "tools": _tools(trajectory),
                **self._ending(reward, has_output=any("output" in step for step in steps)),
                "steps_count": len(steps),
                "failed_count": sum(step["status"] == "failed" for step in steps),
                "return_last": reward,
                "return_max": reward,
                "return_mean": reward,
                "return_sum": reward or 0.0,
                "steps": steps,
                **self._span(),
            }
        )

    def _check_other_places(self) -> None:
        """Refuse a trajectory whose only reward stands where none is read. Raises: BadRow."""
        trajectory, trial = self._trajectory, self._trial.trial
        metrics = trajectory.final_metrics
        parts: list[tuple[str, Any, Sequence[str]]] = [
            ("extra", trajectory.extra, REWARD_NAMES),
            ("agent.extra", trajectory.agent.extra, REWARD_NAMES),
            ("final_metrics.extra", metrics and metrics.extra, REWARD_NAMES),
        ]
        # a score may be anything in a step, such as how well a document matches
        for n, step in enumerate(trajectory.steps):
            parts.append((f"steps.{n}.extra", step.extra, _STEP_NAMES))
            if step.metrics:
                parts.append((f"steps.{n}.metrics.extra", step.metrics.extra, _STEP_NAMES))
            for m, result in enumerate(_results(step)):
                place = f"steps.{n}.observation.results.{m}.extra"
                parts.append((place, result.extra, _STEP_NAMES))
        for place, extra, names in parts:
            for name in reward_names(extra or {}, names):
                whose = f"belongs to trial {shorten(repr(trial), 60)} and " if trial else ""
                raise BadRow(
                    f"{whose}has {place}.{name}, which is {shorten(repr(extra[name]), 40)}; a "
                    "trajectory's reward is read only in extra.reward and "
                    "final_metrics.extra.reward"
                )

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

    def _span(self) -> dict[str, Any]:
        """Return when the episode was played."""
        start, finish = self._created, self._trial.finished
        end = max([*self._times, *([finish] if finish else [])], default=start)
        times = {"created": start, "ready": start, "ended": end}
        calls = [_time(step.timestamp) for step in self._trajectory.steps if step.tool_calls]
        duration = None
        if moments := [time for time in calls if time is not None]:
            times |= {"first_acted": min(moments), "last_acted": max(moments)}
            duration = (max(moments) - start).total_seconds()
        return {name: time.isoformat() for name, time in times.items()} | {
            "duration_seconds": duration
        }

    def _prompt(self) -> str:
        """Return what the agent was told before its first turn, as recorded blocks."""
        blocks = list[Any]()
        for step in self._trajectory.steps:
            if step.source == "agent":
                break
            if content := self._content(step):
                blocks += json.loads(output_text(content, None, None, is_finished=False))["blocks"]
        return value_json(blocks) if blocks else ""

    def _steps(self, reward: float | None) -> list[dict[str, Any]]:
        """Return the tool calls as parts of a line. The last one has the reward, the last one with
        a result the components."""
        parts, contents, ids = list[dict[str, Any]](), dict[int, Content](), set[str]()
        for step in self._trajectory.steps:
            if step.source != "agent" or step.is_copied_context:
                continue
            results = _contents(step)
            for call in step.tool_calls or ():
                index = len(parts)
                task_id = storable_id(call.tool_call_id or f"call-{index}", TASK_ID_LENGTH)
                if task_id in ids:
                    task_id = storable_id(f"{task_id}#{index}", TASK_ID_LENGTH)
                ids.add(task_id)
                part: dict[str, Any] = {
                    "index": index,
                    "tool": storable(call.function_name, 200),
                    "task_id": task_id,
                    "input": value_json(call.arguments),
                    "duration_ms": 0.0,
                    "started": (_time(step.timestamp) or self._created).isoformat(),
                    "status": "ok",
                }
                if call.tool_call_id in results:
                    contents[index] = self._loaded(results[call.tool_call_id])
                else:
                    part |= {"status": "failed", "reason": "no_result", "error": NO_RESULT}
                parts.append(part)
        if parts:
            parts[-1]["finished"] = not self._trial.exception_kind
            if reward is not None:
                parts[-1]["reward"] = reward
        components = self._trial.components
        values = {name: value for name, value in components.items() if value is not None}
        for index, content in contents.items():
            is_last = index == max(contents)
            metadata = {COMPONENT_MEMBERS[0]: values} if values and is_last else None
            part = parts[index]
            is_finished = part.get("finished", False)
            part["output"] = output_text(
                content, metadata, part.get("reward"), is_finished=is_finished
            )
        return parts

    # --- the conversation

    def rollout(self, line: EpisodeLine | None) -> ImportedRollout:
        """Return the conversation. `line`: its episode; None for a subagent's, which belongs to
        none."""
        trial, trajectory, agent = self._trial, self._trajectory, self._trajectory.agent
        # no column holds these fields, and an export has them again
        fields = trajectory.model_dump(
            exclude_none=True, exclude={"steps", "subagent_trajectories"}
        )
        metadata = {METADATA: fields} | ({"session_id": line.session_id} if line else {})
        event = {"eventType": "rollout", "eventId": self.identity, "metadata": metadata}
        info = {"agent": f"{agent.name} {agent.version}"}  # the page of the rollout shows it
        totals = trajectory.final_metrics
        if totals:
            numbers = totals.model_dump(exclude_none=True, exclude={"extra"})
            info |= {name.removeprefix("total_"): value for name, value in numbers.items()}
        if trajectory.notes:
            info["notes"] = trajectory.notes
        environment = line.environment.name if line else ""
        facts = RolloutPart(
            event_id=storable_id(self.identity, ID_LENGTH),
            run=storable(trial.run, 200) or None,
            name=storable(trial.trial or agent.name, 300),
            environment=environment,
            environment_name=environment.lower(),
            model=storable(agent.model_name or trial.model, 200),
            event=value_json(event),
            info=value_json({name: [0, value] for name, value in info.items()}),
            sent_ms=int(self._created.timestamp() * 1000) if self._times else None,
            received=self._created,
        )
        return ImportedRollout(facts, list(self._messages()))

    def _messages(self) -> Iterator[MessagePart]:
        index = 0
        for step in self._trajectory.steps:
            time = _time(step.timestamp)
            for place, (kind, content, columns) in enumerate(self._step_messages(step)):
                own: dict[str, Any] = {"step_id": step.step_id}
                metadata: dict[str, Any] = {METADATA: own}
                if not isinstance(content, str):
                    own["parts"] = content
                if place == 0:
                    values = {name: getattr(step, name) for name in (*STEP_FIELDS, "extra")}
                    own |= {
                        name: value
                        for name, value in values.items()
                        if value is not None and value != {}
                    }
                    if step.metrics:
                        metadata[USAGE] = step.metrics.model_dump(exclude_none=True)
                yield MessagePart(
                    kind=kind,
                    event_id=f"{step.step_id}.{place}",
                    index=index,
                    content=plain_text(content),
                    extra=value_json({"metadata": metadata}),
                    received=self._created,
                    sent_ms=None if time is None else int(time.timestamp() * 1000),
                    **columns,
                )
                index += 1

    def _step_messages(self, step: AtifStep) -> list[tuple[str, Content, dict[str, Any]]]:
        """Return the type, content and further columns of each message of a step."""
        messages = list[tuple[str, Content, dict[str, Any]]]()
        if step.reasoning_content is not None:
            messages.append(("reasoning", step.reasoning_content, {}))
        content = self._content(step)
        if content or step.source != "agent" or not (messages or step.tool_calls):
            messages.append((_KINDS.get(step.source, "assistant_message"), content, {}))
        for call in step.tool_calls or ():
            columns = {
                "name": storable(call.function_name, 200),
                "call_id": storable_id(call.tool_call_id, CALL_ID_LENGTH),
            }
            messages.append(("tool_call", value_json(call.arguments), columns))
        for result in _results(step):
            columns = {"call_id": storable_id(result.source_call_id or "", CALL_ID_LENGTH)}
            messages.append(("tool_result", self._loaded(result.content or ""), columns))
        return messages

    def _content(self, step: AtifStep) -> Content:
        if step.step_id not in self._contents:
            self._contents[step.step_id] = self._loaded(step.message)
        return self._contents[step.step_id]

    def _loaded(self, content: Any) -> Content:
        """Return content without pydantic's types and with its images."""
        if not isinstance(content, str):
            content = [part.model_dump(exclude_none=True) for part in content]
        return loaded(content, self._folder, must_exist=False)


def _results(step: AtifStep) -> list[AtifResult]:
    return step.observation.results if step.observation else []


def _contents(step: AtifStep) -> dict[str, Any]:
    """Return the content of the result of each call. A single result that names no call is that of
    a single call."""
    results, calls = _results(step), step.tool_calls or []
    if len(calls) == len(results) == 1 and results[0].source_call_id is None:
        return {calls[0].tool_call_id: results[0].content or ""}
    return {
        result.source_call_id: result.content or ""
        for result in results
        if result.source_call_id is not None
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
