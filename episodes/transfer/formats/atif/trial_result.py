"""What Harbor's files around a trajectory say: what was played, and how it was rewarded."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from environments.database.storable import double_of, number_in
from environments.errors import shorten
from environments.files.rows import BadRow
from environments.wire import RepeatedKey, distinct_members, json_problem
from episodes.attempts.components import (
    COMPONENT_MEMBERS,
    MAX_COMPONENTS,
    MAX_NAME_CHARACTERS,
    components_of,
)
from episodes.transfer.formats.atif.imported import Folder, TrialFacts, reward_names

MAX_VALUE_CHARACTERS = 100
"""Characters of a wrong value that an error shows."""


def trial_facts(folder: Folder) -> TrialFacts:
    """Return what the `result.json` of a trial says about the trajectory in `folder`, or else its
    verifier's files.

    Raises: BadRow.
    """
    up = "../../.." if folder.step else ".."
    result = _parsed(folder, f"{up}/result.json")
    if not isinstance(result, dict):
        raise BadRow("has a result.json that is not an object, so its reward is unknown")
    trial = _TrialResult(result, folder)
    if not result.keys() & {"task_name", "verifier_result"}:
        rewards = trial.rewards()
        return TrialFacts(reward=rewards.total, components=rewards.components, step=folder.step)
    facts = trial.facts()
    job = _text(_dict(_parsed(folder, f"{up}/../config.json")).get("job_name"))
    if not job:  # the configuration of a trial names the job's directory
        job = PurePosixPath(_text(_dict(result.get("config")).get("trials_dir"))).name
        job = "" if job == "trials" else job
    return facts._replace(run=job)


def _parsed(folder: Folder, path: str) -> Any:
    """Return the JSON in a file, an empty object if there is none. Raises: BadRow."""
    content = folder.read(path)
    try:
        return json.loads(b"{}" if content is None else content, object_pairs_hook=distinct_members)
    except (ValueError, RecursionError) as error:
        name = PurePosixPath(path).name
        raise BadRow(f"has a {name} that cannot be read: {json_problem(error)}") from error


class _Rewards(NamedTuple):
    total: float | None = None
    components: Mapping[str, float | None] = {}
    """The others by name; None for null."""

    @property
    def has_number(self) -> bool:
        return any(value is not None for value in (self.total, *self.components.values()))


class _TrialResult:
    """Harbor's `result.json` of a trial. Missing and odd values are left out, but no reward is."""

    def __init__(self, values: dict[str, Any], folder: Folder) -> None:
        self._values, self._folder, self._step = values, folder, folder.step
        steps = values.get("step_results")
        self._steps = [_dict(step) for step in steps] if isinstance(steps, list) else []
        self._part, self._prefix = values, ""
        """What the file says about the trajectory, and its place: of the trial, or of a step."""
        if self._step:
            self._part = {}
            for number, step in enumerate(self._steps):
                if step.get("step_name") == self._step and not self._part:
                    self._part, self._prefix = step, f"step_results.{number}."

    def facts(self) -> TrialFacts:
        """Return what the file says. Raises: BadRow."""
        values, part = self._values, self._part
        exception = _dict((part or values).get("exception_info"))
        kind = _text(exception.get("exception_type"))
        rewards = self.rewards()
        is_failure = bool(kind) and (not rewards.has_number or part.get("reward_valid") is False)
        model = _dict(_dict(values.get("agent_info")).get("model_info"))
        times = _dict(part.get("agent_execution")) if self._step else values
        return TrialFacts(
            environment=_text(values.get("source")) or "harbor",
            task=_text(values.get("task_name")),
            trial=_text(values.get("trial_name")),
            step=self._step,
            model="/".join(filter(None, [_text(model.get("provider")), _text(model.get("name"))])),
            reward=rewards.total,
            components=rewards.components,
            exception=f"{kind}: {_text(exception.get('exception_message'))}" if kind else "",
            exception_kind=("expired" if "Timeout" in kind else "env_error") if is_failure else "",
            started=_moment(times.get("started_at")),
            finished=_moment(times.get("finished_at")),
        )

    def rewards(self) -> _Rewards:
        """Return the rewards: the total is the one that is named `reward`, or the only one. Raises:
        BadRow."""
        value, place = self._part.get("verifier_result"), f"{self._prefix}verifier_result"
        if isinstance(value, dict):
            name = "rewards" if value.get("rewards") not in (None, {}) else "reward"
            value, place = value.get(name), f"{place}.{name}"
        if value in (None, {}):
            value, place = self._verifier_file()
        rewards = self._numbers(value, place)
        self._check_other_places(rewards, place)
        return rewards

    def _numbers(self, values: Any, place: str) -> _Rewards:
        if not isinstance(values, dict):
            return _Rewards(self._number(values, place))
        numbers = {name: self._number(value, f"{place}.{name}") for name, value in values.items()}
        total = "reward" if "reward" in numbers or len(numbers) != 1 else next(iter(numbers))
        components = {name: value for name, value in numbers.items() if name != total}
        if numbers.get(total, 0) is None and (components or total != "reward"):
            components[total] = None
        storable = components_of({COMPONENT_MEMBERS[0]: dict.fromkeys(components, 0.0)})
        for name in components:
            if name not in storable:
                raise self._refusal(
                    f"{place} has {shorten(repr(name), MAX_VALUE_CHARACTERS)}, which cannot be a "
                    f"component: those are at most {MAX_COMPONENTS}, "
                    f"with names of 1 to {MAX_NAME_CHARACTERS} characters without NUL"
                )
        return _Rewards(numbers.get(total), components)

    def _check_other_places(self, rewards: _Rewards, reward_place: str) -> None:
        """Refuse a trial with a reward where none is read, unless it repeats the total. Raises:
        BadRow."""
        parts = {self._prefix: self._part}
        if not rewards.has_number and not self._prefix:
            steps = {f"step_results.{number}.": step for number, step in enumerate(self._steps)}
            parts |= {"": self._values} if self._step else steps
        for prefix, part in list(parts.items()):
            for name in ("verifier_result", "extra"):
                parts[f"{prefix}{name}."] = _dict(part.get(name))
        for prefix, part in parts.items():
            for name in reward_names(part):
                place, value = f"{prefix}{name}", part[name]
                if place == reward_place or value == rewards.total:
                    continue
                step = shorten(repr(self._step), MAX_VALUE_CHARACTERS)
                raise self._refusal(
                    f"{place} is {shorten(repr(value), MAX_VALUE_CHARACTERS)}; a reward is read "
                    "only in verifier_result.rewards"
                    f"{f' of step {step} in step_results' if self._step else ''}"
                )

    def _verifier_file(self) -> tuple[Any, str]:
        """Return what the verifier wrote, in the file that Harbor reads first, and its name; None
        if there is none."""
        has_exception = bool((self._part or self._values).get("exception_info"))
        for name in ("verifier/reward.json", "verifier/reward.txt"):
            content = self._folder.read(f"../{name}")
            # A failed trial may have an empty file, and its exception says why.
            if content is None or (has_exception and not content.strip()):
                continue
            text = content.decode(errors="replace").strip()
            if name.endswith("txt"):
                number = number_in(text)
                return text if number is None else number, name
            try:
                return json.loads(text, object_pairs_hook=distinct_members), name
            except RepeatedKey as error:
                raise self._refusal(f"{name} {error}") from error
            except (ValueError, RecursionError):
                return text, name
        return None, ""

    def _number(self, value: Any, place: str) -> float | None:
        if value is None:
            return None
        number = double_of(value) if type(value) in (int, float) else math.nan
        if not math.isfinite(number):
            raise self._refusal(
                f"{shorten(place, MAX_VALUE_CHARACTERS)} is "
                f"{shorten(repr(value), MAX_VALUE_CHARACTERS)}; a reward has to be a finite "
                "number, or null"
            )
        return number

    def _refusal(self, reason: str) -> BadRow:
        name = _text(self._values.get("trial_name"))
        trial = f"trial {shorten(repr(name), MAX_VALUE_CHARACTERS)}," if name else "a trial"
        return BadRow(f"belongs to {trial} whose {reason}")


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _moment(value: Any) -> datetime | None:
    try:
        moment = datetime.fromisoformat(value)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        return None
