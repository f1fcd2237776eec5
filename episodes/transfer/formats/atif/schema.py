"""Checks trajectories: the parts that ATIF 1.0 to 1.8 define, as pydantic types.

Unknown fields are errors, as in Harbor's own models, because ATIF has `extra` for everything else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    field_validator,
    model_validator,
)

from environments.database.storable import MAX_BIGINT
from environments.errors import shorten
from environments.files.rows import BadRow

WRITTEN_VERSION = "ATIF-v1.7"
"""The version that exports name: the first with `extra` on the results of calls. 1.8 adds only
audio."""
VERSIONS = tuple(f"ATIF-v1.{minor}" for minor in range(9))
_ALLOWED_VERSIONS = f"{VERSIONS[0]} to {VERSIONS[-1]} can be imported"
METADATA = "atif"
"""Key in the metadata of a message or rollout under which an import stores what no column holds."""
MAX_VALUE_CHARACTERS = 60
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def _storable(text: str) -> str:
    if match := _UNSTORABLE.search(text):
        character = "NUL" if match[0] == "\0" else f"a lone surrogate (U+{ord(match[0]):04X})"
        raise ValueError(
            f"character {match.start() + 1} is {character}, which cannot be stored; remove it"
        )
    return text


Text = Annotated[str, AfterValidator(_storable)]


Count = Annotated[int, Field(ge=0, le=MAX_BIGINT)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class AtifMedia(_Part):
    media_type: Text
    path: Text
    duration_sec: float | None = None


class AtifContentPart(_Part):
    type: Literal["text", "image", "audio"]
    text: Text | None = None
    source: AtifMedia | None = None

    @model_validator(mode="after")
    def check_members(self) -> Self:
        member, other = ("text", "source") if self.type == "text" else ("source", "text")
        if getattr(self, member) is None:
            raise ValueError(f"a part of type {self.type!r} needs {member!r}")
        if getattr(self, other) is not None:
            raise ValueError(f"a part of type {self.type!r} cannot have {other!r}")
        return self


def _branch(value: Any) -> str | None:
    if isinstance(value, str):
        return _TEXT
    return _PARTS if isinstance(value, list) else None


_TEXT, _PARTS = "as a text", "as parts"
_BRANCHES = frozenset((_TEXT, _PARTS))
"""What pydantic adds to the place of an error for the two forms of content."""
Content = Annotated[
    Annotated[Text, Tag(_TEXT)] | Annotated[list[AtifContentPart], Tag(_PARTS)],
    Discriminator(
        _branch,
        custom_error_type="content_type",
        custom_error_message="give a text or a list of content parts",
    ),
]


class AtifAgent(_Part):
    name: Text
    version: Text
    model_name: Text | None = None
    tool_definitions: list[dict[str, Any]] | None = None
    extra: dict[str, Any] | None = None


class AtifToolCall(_Part):
    tool_call_id: Text
    function_name: Text
    arguments: dict[str, Any]
    extra: dict[str, Any] | None = None


class AtifSubagentRef(_Part):
    trajectory_id: Text | None = None
    session_id: Text | None = None
    trajectory_path: Text | None = None
    extra: dict[str, Any] | None = None


class AtifResult(_Part):
    source_call_id: Text | None = None
    content: Content | None = None
    subagent_trajectory_ref: list[AtifSubagentRef] | None = None
    extra: dict[str, Any] | None = None


class AtifObservation(_Part):
    results: list[AtifResult]


class AtifMetrics(_Part):
    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None
    cached_tokens: Count | None = None
    cost_usd: float | None = None
    prompt_token_ids: list[int] | None = None
    completion_token_ids: list[int] | None = None
    logprobs: list[float] | None = None
    extra: dict[str, Any] | None = None


class AtifFinalMetrics(_Part):
    total_prompt_tokens: Count | None = None
    total_completion_tokens: Count | None = None
    total_cached_tokens: Count | None = None
    total_cost_usd: float | None = None
    total_steps: Count | None = None
    extra: dict[str, Any] | None = None


class AtifStep(_Part):
    step_id: int
    timestamp: Text | None = None
    source: Literal["system", "user", "agent"]
    model_name: Text | None = None
    reasoning_effort: Text | float | None = None
    message: Content
    reasoning_content: Text | None = None
    tool_calls: list[AtifToolCall] | None = None
    observation: AtifObservation | None = None
    metrics: AtifMetrics | None = None
    is_copied_context: bool | None = None
    llm_call_count: Count | None = None
    extra: dict[str, Any] | None = None

    @field_validator("timestamp")
    @classmethod
    def check_time(cls, text: str | None) -> str | None:
        if text is not None:
            try:
                datetime.fromisoformat(text)
            except ValueError:
                raise ValueError(
                    "give a time as in ISO 8601, such as 2026-01-31T12:00:00Z"
                ) from None
        return text

    @model_validator(mode="after")
    def check_source(self) -> Self:
        """Refuse what ATIF allows only for other steps."""
        if self.source != "agent":
            for name in (
                "model_name",
                "reasoning_effort",
                "reasoning_content",
                "tool_calls",
                "metrics",
            ):
                if getattr(self, name) is not None:
                    raise ValueError(
                        f"a step of source {self.source!r} cannot have {name!r}, only "
                        "one of 'agent' can"
                    )
        elif self.llm_call_count == 0 and (self.metrics or self.reasoning_content is not None):
            raise ValueError(
                "a step with llm_call_count 0 can have neither 'metrics' nor 'reasoning_content'"
            )
        return self

    @model_validator(mode="after")
    def check_calls(self) -> Self:
        ids = [call.tool_call_id for call in self.tool_calls or ()]
        if len(set(ids)) < len(ids):
            raise ValueError(
                f"two of its tool calls have the tool_call_id {_first_repeated(ids)!r}"
            )
        for result in self.observation.results if self.observation else ():
            if result.source_call_id is not None and result.source_call_id not in ids:
                name = shorten(repr(result.source_call_id), MAX_VALUE_CHARACTERS)
                names = ", ".join(map(repr, ids)) or "none, because the step has no tool calls"
                raise ValueError(
                    f"a result has the source_call_id {name}, but the tool_call_ids of the step "
                    f"are {shorten(names, MAX_VALUE_CHARACTERS)}"
                )
        return self


class AtifStepFields(_Part):
    """The fields of an imported step that no column of its messages holds."""

    step_id: int | None = None
    model_name: Text | None = None
    reasoning_effort: Text | float | None = None
    is_copied_context: bool | None = None
    llm_call_count: Count | None = None
    extra: dict[str, Any] = {}
    parts: list[AtifContentPart] | None = None
    """Content of a message that is not only text."""


class AtifTrajectoryFields(_Part):
    """The fields of an imported trajectory that no column of its rollout holds."""

    schema_version: str = ""
    session_id: Text | None = None
    trajectory_id: Text | None = None
    agent: AtifAgent | None = None
    notes: Text | None = None
    final_metrics: AtifFinalMetrics | None = None
    continued_trajectory_ref: Text | None = None
    extra: dict[str, Any] = {}


class AtifTrajectory(_Part):
    # `foreign.py` makes ids from the order of the fields
    schema_version: str
    session_id: Text | None = None
    trajectory_id: Text | None = None
    agent: AtifAgent
    steps: Annotated[list[AtifStep], Field(min_length=1)]
    notes: Text | None = None
    final_metrics: AtifFinalMetrics | None = None
    continued_trajectory_ref: Text | None = None
    extra: dict[str, Any] | None = None
    subagent_trajectories: list[AtifTrajectory] | None = None

    @field_validator("schema_version")
    @classmethod
    def check_version(cls, version: str) -> str:
        if version not in VERSIONS:
            raise ValueError(_ALLOWED_VERSIONS)
        return version

    @field_validator("steps")
    @classmethod
    def check_numbers(cls, steps: list[AtifStep]) -> list[AtifStep]:
        for number, step in enumerate(steps, 1):
            if step.step_id != number:
                raise ValueError(
                    f"item {number - 1} has the step_id {step.step_id}, but step_ids count from 1 "
                    "without gaps and "
                    f"repetitions, so {number} is expected"
                )
        return steps

    @field_validator("subagent_trajectories")
    @classmethod
    def check_subagents(
        cls, trajectories: list[AtifTrajectory] | None
    ) -> list[AtifTrajectory] | None:
        ids = [trajectory.trajectory_id for trajectory in trajectories or ()]
        if None in ids:
            raise ValueError(
                f"item {ids.index(None)} has no trajectory_id, which embedded trajectories need"
            )
        if len(set(ids)) < len(ids):
            raise ValueError(f"two of them have the trajectory_id {_first_repeated(ids)!r}")
        return trajectories


def _first_repeated(values: Sequence[Any]) -> Any:
    return next(value for n, value in enumerate(values) if value in values[:n])


def checked_trajectory(value: dict[str, Any]) -> AtifTrajectory:
    """Return the trajectory that parsed JSON holds. Raises: BadRow."""
    version = value.get("schema_version")
    if version not in VERSIONS:
        name = shorten(repr(version), MAX_VALUE_CHARACTERS)
        raise BadRow(f"has the schema_version {name}; {_ALLOWED_VERSIONS}")
    try:
        return AtifTrajectory.model_validate(value)
    except ValidationError as error:
        raise BadRow(_reason(error)) from error
    except RecursionError as error:
        raise BadRow("subagent_trajectories are nested too deeply") from error


Fields = TypeVar("Fields", AtifStepFields, AtifTrajectoryFields)


def own_fields(kind: type[Fields], metadata: Any) -> Fields:
    """Return what an import stored in metadata; nothing for anything else, because clients can
    upload any metadata."""
    value = metadata.get(METADATA) if isinstance(metadata, dict) else None
    try:
        return kind.model_validate(value if isinstance(value, dict) else {})
    except ValidationError:
        return kind()


def _reason(error: ValidationError) -> str:
    """Return the first error as the end of a sentence: the place, the value, and what is
    allowed."""
    first = error.errors(include_url=False)[0]
    place = (
        ".".join(str(part) for part in first["loc"] if part not in _BRANCHES) or "the trajectory"
    )
    if first["type"] == "extra_forbidden":
        return f"{place} is unknown; fields that ATIF does not define belong in `extra`"
    if first["type"] == "missing":
        return f"{place} is missing"
    wrong = first["msg"].removeprefix("Value error, ").removesuffix(".")
    wrong = wrong[:1].lower() + wrong[1:]
    value = first["input"]
    if isinstance(value, dict | list) or (
        first["type"] == "value_error" and not isinstance(value, str)
    ):
        return f"{place}: {wrong}"
    return f"{place} is {shorten(repr(value), MAX_VALUE_CHARACTERS)}: {wrong}"
