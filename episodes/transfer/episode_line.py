"""Parses and checks one line of an episode file. Used by `importing.py`; `formats/jsonl.py` writes
such lines.

Everything that the database or a page could not handle is refused here, so a line is imported
completely or not at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from environments.database.storable import MAX_BIGINT
from environments.errors import shorten
from environments.files.rows import BadRow
from environments.models.task_hash import hash_of_spec
from environments.scoring.convention import convention_declared
from environments.scoring.returns import Return
from environments.wire import RepeatedKey, json_problem
from episodes.attempts.rule import NO_CALL, ending_of, is_rollout
from episodes.models.rollouts import RESPONSE_KINDS
from episodes.recording.batch import SESSION_ID_LENGTH, TASK_ID_LENGTH
from episodes.runs.description import (
    MAX_COMMIT_CHARACTERS,
    MAX_NOTES_CHARACTERS,
    MAX_TAG_CHARACTERS,
    MAX_TAGS,
)
from episodes.transfer.embedded_json import SCHEMA, TEXT, sliced
from episodes.uploads.events import CALL_ID_LENGTH, EVENT_ID_LENGTH, ID_LENGTH

EXACT_ROLLOUT: dict[str, Any] = {"event": None, "info": None, "messages": [{"extra": None}]}
"""The members of a rollout that hold exact JSON texts; a shape for `sliced`."""
EXACT = {
    "task": {"spec": None},
    "labels": None,
    "prompt": None,
    "tools": None,
    "rollouts": [EXACT_ROLLOUT],
    "steps": [{"input": None, "output": None}],
}
"""Those of a line."""
MAX_ID = 2**53 - 1
"""The largest integer that scripts of pages read exactly."""
MAX_VALUE_CHARACTERS = 60
"""Characters of a wrong value that an error shows."""


def _storable(text: str) -> str:
    if "\0" in text:
        raise ValueError("the character NUL cannot be stored")
    return text


Text = Annotated[str, AfterValidator(_storable)]
Name = Annotated[Text, Field(max_length=200)]
Number = Annotated[int, Field(ge=-MAX_BIGINT, le=MAX_BIGINT)]
Count = Annotated[int, Field(ge=0, le=2**31 - 1)]
Time = Annotated[AwareDatetime, Field(strict=False)]
Cause = Literal[
    "", "finished", "abandoned", "expired", "setup_failed", "env_error", "interrupted", "no_call"
]


class LinePart(BaseModel):
    """An object in a line. Unknown keys and values of another type are errors."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
    TEXTS: ClassVar[Sequence[str]] = ()
    """Members that hold an exact JSON text, each under its name or under NAME_text."""

    @model_validator(mode="before")
    @classmethod
    def take_texts(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        values = dict(values)
        for name in cls.TEXTS:
            text = values.pop(f"{name}{TEXT}", None)
            values[name] = values.get(name) or text or ""
        return values


class EnvironmentPart(LinePart):
    name: Annotated[Name, Field(min_length=1)]
    default_return: Return = "sum"
    reward_low: float = 0.0
    reward_high: float = 1.0
    success_threshold: float = 0.9
    convention: dict[str, str] = {}

    @field_validator("convention")
    @classmethod
    def check_convention(cls, parts: dict[str, str]) -> dict[str, str]:
        convention_declared(parts)
        return parts


class RevisionPart(LinePart):
    code: Annotated[Text, Field(min_length=1, max_length=32)]
    digest: Annotated[Text, Field(min_length=1, max_length=32)]
    source_hash: Annotated[Text, Field(max_length=64)] = ""
    git_commit: Annotated[Text, Field(max_length=64)] = ""
    is_dirty: bool = False
    versions: dict[str, Text] = {}
    created: Time


class SplitPart(LinePart):
    name: Annotated[Name, Field(min_length=1)]
    type: Literal["train", "validation", "test"]


class TaskPart(LinePart):
    TEXTS = ("spec",)

    hash: Text | None = None
    spec: Text = ""

    @model_validator(mode="after")
    def check_hash(self) -> Self:
        if not self.spec:
            raise ValueError("there is no spec")
        own = hash_of_spec(self.spec)
        if self.hash not in (None, own, hash_of_spec(self.spec, is_sent=True)):
            raise ValueError(
                f"the hash of this spec is {own}; leave the hash out to take the spec as it is"
            )
        self.hash = self.hash or own
        return self


class RunDescriptionPart(LinePart):
    """What the trainer said about a run."""

    step: Number | None = None
    state: Literal["", "running", "ended", "failed"] = ""
    config: dict[str, Any] | None = None
    git_commit: Annotated[Text, Field(max_length=MAX_COMMIT_CHARACTERS)] = ""
    notes: Annotated[Text, Field(max_length=MAX_NOTES_CHARACTERS)] = ""
    tags: Annotated[
        list[Annotated[Text, Field(min_length=1, max_length=MAX_TAG_CHARACTERS)]],
        Field(max_length=MAX_TAGS),
    ] = []
    updated: Time


class RunPart(LinePart):
    name: Annotated[Name, Field(min_length=1)]
    title: Name = ""
    """Name that several runs may have; empty: the run's own."""
    number: Annotated[Count, Field(ge=1)] = 1
    run_id: Name = ""
    """Id that its client gave it."""
    model: Name = ""
    created: Time | None = None
    """Two runs of one title that were created at different moments are different ones. None in
    files
    of other programs: the newest run of the title is meant."""
    description: RunDescriptionPart | None = None
    """Present on the first line of a run in a file, if its trainer described it."""


class StepPart(LinePart):
    TEXTS = ("input", "output")

    index: Count
    tool: Name
    status: Literal["ok", "refused", "failed"]
    reason: Annotated[Text, Field(max_length=40)] = ""
    error: Text = ""
    reward: float | None = None
    finished: bool = False
    task_id: Annotated[Text, Field(max_length=TASK_ID_LENGTH)]
    started: Time
    duration_ms: float
    waited_ms: float = 0.0
    input: Text = ""
    output: Text = ""


class ParentPart(LinePart):
    id: Annotated[int, Field(ge=1, le=MAX_BIGINT)]
    session_id: Annotated[Text, Field(max_length=SESSION_ID_LENGTH)]
    created: Time


class PlayPart(LinePart):
    is_blind: bool = False
    is_repeat: bool = False
    counts_left: bool | None = None
    is_excluded: bool = False
    paused_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    differs_at: Count | None = None
    parent: ParentPart | None = None
    parent_step: Count | None = None


class NotePart(LinePart):
    step: Count | None = None
    author: Name
    text: Text
    created: Time


class MessagePart(LinePart):
    """A message of a conversation, as columns of RolloutMessage."""

    TEXTS = ("extra",)

    kind: Annotated[Text, Field(max_length=40)]
    call: Count | None = None
    """Position of its tool call in the step of a trajectory."""
    event_id: Annotated[Text, Field(max_length=EVENT_ID_LENGTH)]
    index: Number
    name: Name = ""
    call_id: Annotated[Text, Field(max_length=CALL_ID_LENGTH)] = ""
    content: Text | None = None
    """None: in a trajectory, the text that the step has."""
    summary: Text = ""
    extra: Text = ""
    reward: float | None = None
    is_finished: bool = False
    sent_ms: Number | None = None
    received: Time
    problem: Annotated[Text, Field(max_length=300)] = ""

    @property
    def text(self) -> str:
        return self.content or ""

    @property
    def response_characters(self) -> int:
        return len(self.text) if self.kind in RESPONSE_KINDS else 0


class RolloutPart(LinePart):
    """A rollout, as columns of Rollout."""

    TEXTS = ("event", "info")

    event_id: Annotated[Text, Field(min_length=1, max_length=ID_LENGTH)]
    is_announced: bool = True
    run: Name | None = None
    run_step: Number | None = None
    name: Annotated[Text, Field(max_length=300)] = ""
    environment: Annotated[Text, Field(max_length=300)] = ""
    environment_name: Name = ""
    variant: Name = ""
    split: Name = ""
    task_index: Number | None = None
    model: Name = ""
    model_params: Number | None = None
    training_stage: Annotated[Text, Field(max_length=20)] = ""
    event: Text = ""
    info: Text = ""
    sent_ms: Number | None = None
    received: Time
    problem: Annotated[Text, Field(max_length=300)] = ""
    messages: list[MessagePart] = []
    """Absent from a trajectory, which has them in its steps."""


class EpisodeLine(LinePart):
    TEXTS = ("labels", "prompt", "tools")

    orsweb: Literal["episode/1"]
    id: Annotated[int, Field(ge=1, le=MAX_ID)]
    environment: EnvironmentPart
    revision: RevisionPart | None = None
    """Code of the environment; None if it is unknown."""
    split: SplitPart | None = None
    task: TaskPart
    task_index: Number | None = None
    session_id: Annotated[Text, Field(max_length=SESSION_ID_LENGTH)]
    user_agent: Annotated[Text, Field(max_length=300)] = ""
    key_label: Name = ""
    player: Literal["agent", "human", "script"] = "agent"
    run: RunPart | None = None
    run_step: Number | None = None
    model: Name = ""
    labels: Text = ""
    prompt: Text = ""
    tools: Text = ""
    status: Literal["ended"]
    cause: Cause
    detail: Text = ""
    is_probe: bool = False
    steps_count: Count
    failed_count: Count = 0
    refused_count: Count = 0
    return_sum: float
    return_last: float | None = None
    return_max: float | None = None
    return_mean: float | None = None
    created: Time
    ready: Time | None = None
    first_acted: Time | None = None
    last_acted: Time | None = None
    ended: Time | None = None
    duration_seconds: float | None = None
    end_number: Number | None = None
    success: bool | None = None
    """By the definition of the export; an import does not store it, but applies its own."""
    play: PlayPart | None = None
    notes: list[NotePart] = []
    rollouts: list[RolloutPart] = []
    steps: list[StepPart]

    @model_validator(mode="after")
    def check_parts(self) -> Self:
        if len({step.index for step in self.steps}) < len(self.steps):
            raise ValueError("two of its steps have the same index")
        if len({step.task_id for step in self.steps}) < len(self.steps):
            raise ValueError("two of its steps have the same task_id")
        if len({rollout.event_id for rollout in self.rollouts}) < len(self.rollouts):
            raise ValueError("two of its rollouts have the same event_id")
        return self

    @model_validator(mode="after")
    def sort_ending(self) -> Self:
        """Apply the rule of attempts: files of earlier versions call more episodes probes."""
        calls = self.steps_count + self.refused_count
        if self.cause == NO_CALL and (calls or self.steps):
            raise ValueError("its cause is 'no_call', but it has tool calls")
        can_be_attempt = is_rollout(
            self.player, is_named=bool(self.run or self.model), has_prompt=bool(self.prompt)
        )
        counts_left = None if self.play is None else self.play.counts_left
        ending = ending_of(
            self.cause, self.detail, calls=calls, is_rollout=can_be_attempt, counts_left=counts_left
        )
        if ending.cause == NO_CALL:
            self.cause, self.detail, self.is_probe = "no_call", ending.detail, False
            self.return_sum = self.return_last = self.return_max = self.return_mean = 0.0
        return self


def episode_of(text: str) -> EpisodeLine:
    """Return the episode of a line. Raises: BadRow."""
    try:
        value = sliced(text, EXACT)
    except RepeatedKey as error:
        raise BadRow(str(error)) from error
    except (ValueError, RecursionError) as error:
        raise BadRow(f"is not JSON: {json_problem(error)}") from error
    return checked_line(value)


def checked_line(value: Any) -> EpisodeLine:
    """Return the episode of a line that `sliced` has parsed. Raises: BadRow."""
    if not isinstance(value, dict) or "orsweb" not in value:
        raise BadRow(
            "is not an episode: it has no key 'orsweb', as lines of export_episodes --format "
            "jsonl, and no key 'schema_version', as trajectories in ATIF"
        )
    if value["orsweb"] != SCHEMA:
        schema = shorten(repr(value["orsweb"]), MAX_VALUE_CHARACTERS)
        raise BadRow(f"has the format {schema}; this version of orsweb reads {SCHEMA!r}")
    if value.get("status") == "running":
        raise BadRow("is an episode that was still running; export it again after its end")
    try:
        return EpisodeLine.model_validate(value)
    except ValidationError as error:
        raise BadRow(invalid_reason(error)) from error


def invalid_reason(error: ValidationError) -> str:
    """Return the first error as the end of a sentence."""
    first = error.errors(include_url=False)[0]
    place = ".".join(map(str, first["loc"])) or "it"
    problem = first["msg"].removeprefix("Value error, ")
    problem = problem[:1].lower() + problem[1:]
    value = first["input"]
    if first["type"] in ("missing", "value_error") or isinstance(value, dict | list):
        return f"{place}: {problem}"
    return f"{place} is {shorten(repr(value), MAX_VALUE_CHARACTERS)}: {problem}"
