"""The protocol's JSON messages as pydantic types, and the functions that write and read their text.

Sources: type reference of the Open Reward Standard ("Types"), `ors/types.py` of ors-sdk 0.1.0 and
`openreward/environments/types.py` of openreward 0.1.167. Fields have the specification's spelling (`mimeType`),
and so does all code that builds these messages or reads their JSON.

Divergence from the references: this server sends text as ASCII JSON (`\\uXXXX`), because the references' clients drop
unusual white space and line separators at the edges of a streamed piece.
"""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    RootModel,
    TypeAdapter,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticSerializationError, from_json, to_json, to_jsonable_python

from environments.errors import shorten

MAX_PLACE_CHARACTERS = 100
MAX_DEPTH = 200
"""Levels of nesting that a body may have, which is pydantic's own limit too. JSON encoders recurse,
so a deeper value could be read but not written."""

M = TypeVar("M", bound=BaseModel)
JSONObject = Mapping[str, Any]
JSONValue = JSONObject | Sequence[Any] | str | int | float | bool | None
SplitType = Literal["train", "validation", "test"]
Role = Literal["system", "user", "assistant"]


SPLIT = "Name of the split."
TASK_ID = "Id of the call, by which a client finds it again or repeats it safely."
NO_NUMBER = "reward was not a number"
"""Reason of a call that is ok, but whose reward was NaN or an infinity and is recorded as none."""
DETAIL = "Further data for clients, such as the size of an image. The model need not see it."


class WireModel(BaseModel):
    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)


# --- content --------------------------------------------------------------------------------------


class TextBlock(WireModel):
    text: str = Field(description="The text, for the model to read.")
    detail: JSONObject | None = Field(default=None, description=DETAIL)
    type: Literal["text"] = "text"


class ImageBlock(WireModel):
    data: str = Field(description="The bytes of the image in base64.")
    mimeType: str = Field(description="Type of the image, such as `image/png`.")
    detail: JSONObject | None = Field(default=None, description=DETAIL)
    type: Literal["image"] = "image"

    @field_validator("data", mode="before")
    @classmethod
    def check_encoded(cls, data: Any) -> Any:
        if isinstance(data, str):
            return data
        encode = "base64-encode it, as base64.b64encode(data).decode()"
        if isinstance(data, bytes | bytearray):
            raise ValueError(f"an image is a text, not {type(data).__name__}; {encode}")
        raise ValueError(
            f"an image is a text, not {type(data).__name__}; save it as PNG or JPEG and {encode}"
        )


Blocks = Sequence[TextBlock | ImageBlock]


class ReasoningBlock(WireModel):
    text: str = Field(description="What the model thought.")
    signature: str | None = Field(default=None, description="The provider's signature of the text.")
    detail: JSONObject | None = Field(default=None, description=DETAIL)
    type: Literal["reasoning"] = "reasoning"


class ToolCallBlock(WireModel):
    id: str = Field(description="Id of the call, which its result repeats.")
    name: str = Field(description="Name of the tool.")
    input: JSONObject = Field(description="Arguments of the tool.")
    detail: JSONObject | None = Field(default=None, description=DETAIL)
    type: Literal["tool_call"] = "tool_call"


class ToolResultBlock(WireModel):
    tool_call_id: str = Field(description="The `id` of the tool call.")
    blocks: Blocks = Field(description="What the tool returned.")
    is_error: bool = Field(default=False, description="Whether the call failed; absent means no.")
    detail: JSONObject | None = Field(default=None, description=DETAIL)
    type: Literal["tool_result"] = "tool_result"


MESSAGE_BLOCK_TYPES = ["text", "image", "reasoning", "tool_call", "tool_result"]
_BLOCKS_OF_ROLE = {
    "system": {"text", "image"},
    "user": {"text", "image", "tool_result"},
    "assistant": {"text", "image", "reasoning", "tool_call"},
}


MessageBlocks = Sequence[TextBlock | ImageBlock | ReasoningBlock | ToolCallBlock | ToolResultBlock]


class Message(WireModel):
    """One turn of a conversation; reasoning and tool calls belong to the assistant, tool results to the user."""

    role: Role = Field(description="Who speaks.")
    blocks: MessageBlocks = Field(description="What is said, in order.")
    detail: JSONObject | None = Field(default=None, description=DETAIL)

    @model_validator(mode="after")
    def check_placement(self) -> Message:
        for block in self.blocks:
            if block.type not in _BLOCKS_OF_ROLE[self.role]:
                kinds = ", ".join(sorted(_BLOCKS_OF_ROLE[self.role]))
                raise ValueError(
                    f"a {block.type!r} block is not allowed in a {self.role!r} message; allowed "
                    f"are: {kinds}"
                )
        return self


# --- what environments declare and return ---------------------------------------------------------


class Split(WireModel):
    name: str = Field(description="Name of the split.")
    type: SplitType = Field(description="What its tasks are for.")


class ToolSpec(WireModel):
    """One tool. `input_schema` is null for a tool without parameters.

    No further keys may be added: both SDK clients pass the object's keys to a constructor.
    """

    name: str = Field(description="Name to call the tool by.")
    description: str = Field(description="What the tool does, for the model to read.")
    input_schema: JSONObject | None = Field(
        description="JSON Schema of the arguments; null if there are none."
    )


class TerminalToolSpec(WireModel):
    """The tool that takes the model's final answer and ends the episode."""

    name: str = Field(description="Name of the tool.")
    arg: str | None = Field(default=None, description="The argument that takes the final answer.")
    description: str = Field(default="", description="What the tool does with the answer.")


class ListToolsOutput(WireModel):
    """The tools of an environment or of a session, and what else the environment can do."""

    tools: list[ToolSpec] = Field(description="The tools, in order.")
    terminal_tool: TerminalToolSpec | None = Field(
        default=None, description="The tool for final answers, if there is one."
    )
    supports_score_group: bool | None = Field(
        default=None, description="Whether `score_group` is implemented."
    )
    message_block_types: list[str] | None = Field(
        default=None, description="Types of blocks that messages may contain."
    )


class ToolOutput(WireModel):
    """What a tool returns: content, a reward (or null), and whether the episode is over."""

    # not Sequence: pydantic serialises that in Python, which is slow
    blocks: list[TextBlock | ImageBlock] = Field(
        description="Content for the model; at least one block."
    )
    metadata: JSONObject | None = Field(
        default=None, description="Data for the trainer. The model need not see it."
    )
    reward: float | None = Field(
        default=None, description="Reward of this call; null if it gives none."
    )
    finished: bool = Field(
        default=False, description="Whether the episode is over; later calls are refused."
    )


class RunToolSuccess(WireModel):
    """The tool ran."""

    ok: Literal[True] = True
    output: ToolOutput


class RunToolError(WireModel):
    """The call was refused, or the tool reported an error that the model can react to. The session goes on."""

    ok: Literal[False] = False
    error: str = Field(description="What went wrong, for the model to read.")
    reason: (
        Literal["not_found", "name_collision", "input_validation", "episode_finished"] | None
    ) = Field(default=None, description="Kind of the error.")


class RunToolOutput(RootModel[RunToolSuccess | RunToolError]):
    """The result of a tool call, under the name that both SDKs give it."""

    root: RunToolSuccess | RunToolError = Field(discriminator="ok")


class GroupCandidate(WireModel):
    """One conversation of a group that is scored together."""

    messages: list[Message] = Field(description="The conversation, in order.")
    metadata: JSONObject | None = Field(
        default=None, description="Further data for the environment."
    )


class GroupScore(WireModel):
    reward: float = Field(description="Score of the candidate.")
    metadata: JSONObject | None = Field(default=None, description="Further data for the trainer.")


# --- what clients send ----------------------------------------------------------------------------


class ListTasks(WireModel):
    split: str = Field(description=SPLIT)


class NumTasks(WireModel):
    split: str = Field(description=SPLIT)


class GetTask(WireModel):
    split: str = Field(description=SPLIT)
    index: int = Field(
        description="Number of the task, from 0; negative numbers count from the end."
    )


class GetTaskRange(WireModel):
    """Body of POST /task_range: `start` is inclusive, `stop` exclusive; null means the first or last task."""

    split: str = Field(description=SPLIT)
    start: int | None = Field(
        default=None, description="Number of the first task; negative numbers count from the end."
    )
    stop: int | None = Field(
        default=None,
        description="Number after that of the last task; negative ones count from the end.",
    )


class CreateSession(WireModel):
    """Body of POST /create: either `task_spec`, or `split` with `index`."""

    env_name: str | None = Field(
        default=None, description="Name of the environment; it wins over X-Deployment."
    )
    task_spec: JSONObject | None = Field(
        default=None, description="The task itself, as the listings of tasks contain it."
    )
    split: str | None = Field(default=None, description=SPLIT)
    index: int | None = Field(default=None, description="Number of the task in the split.")
    secrets: Mapping[str, str] | None = Field(
        default=None,
        description="Secrets of the environment, and, under names that start with `orsweb_`, facts "
        "of the run.",
    )
    toolset_name: str | None = Field(
        default=None, description="Name of the toolset to play with; null for all tools."
    )

    @model_validator(mode="after")
    def check_task_source(self) -> CreateSession:
        if (self.task_spec is not None) == (self.split is not None and self.index is not None):
            raise ValueError("Provide either task_spec or both split and index, not both/neither")
        if (self.split is None) != (self.index is None):
            raise ValueError("split and index must both be provided together")
        return self


class ToolCall(WireModel):
    name: str = Field(description="Name of the tool.")
    input: JSONObject = Field(
        description="Arguments, as the tool's `input_schema` describes them; {} for none."
    )
    task_id: str | None = Field(default=None, description=TASK_ID)


class ScoreGroup(WireModel):
    candidates: list[GroupCandidate] = Field(
        description="The conversations that are scored together."
    )
    task_id: str | None = Field(default=None, description=TASK_ID)


# --- text -----------------------------------------------------------------------------------------

BLOCKS: TypeAdapter[list[TextBlock | ImageBlock]] = TypeAdapter(list[TextBlock | ImageBlock])
MESSAGES: TypeAdapter[list[Message]] = TypeAdapter(list[Message])


def model_json(model: BaseModel) -> str:
    """Compact ASCII JSON of any pydantic model; NaN and infinities become null, lone surrogates
    stay escaped."""
    try:
        return model.__pydantic_serializer__.to_json(model, ensure_ascii=True).decode("ascii")
    except PydanticSerializationError:
        return value_json(model.model_dump(mode="python"))


def checked_json(model: M) -> tuple[M, str]:
    """Return the model and its `model_json`, once its values have been checked against its types.

    An author's code may have assigned values to the fields after construction, which pydantic does
    not check.

    Raises: pydantic.ValidationError; TypeError when a value has no JSON form.
    """
    texts = [getattr(block, "text", None) for block in getattr(model, "blocks", ())]
    try:
        return model, _written(
            model.__pydantic_serializer__.to_json, model, texts, warnings="error"
        )
    except (
        ValueError
    ):  # pydantic's; also for text with lone surrogates, and values without a JSON form
        valid_model = revalidate(model)
        return valid_model, model_json(valid_model)


def revalidate(model: M) -> M:
    """Return a new model, validated from the values that `model` holds now. Raises:
    pydantic.ValidationError."""
    return type(model).model_validate(model.model_dump(warnings=False))


def adapted_json(kind: TypeAdapter[Any], value: Any) -> str:
    """Compact ASCII JSON of a value that a TypeAdapter describes.

    NaN and infinities become null, lone surrogates stay escaped.
    """
    try:
        return kind.dump_json(value, ensure_ascii=True).decode("ascii")
    except PydanticSerializationError:
        return value_json(kind.dump_python(value))


def value_json(value: Any) -> str:
    """Compact ASCII JSON of plain data; NaN and infinities become null.

    Raises: TypeError when something in `value` has no JSON form (an unknown type, a cycle).
    """
    try:
        return _written(
            to_json, value, value.values() if type(value) is dict else (), inf_nan_mode="null"
        )
    except ValueError:
        # lone surrogates, which Python's encoder can write, or something that has no JSON form
        pass
    try:
        try:
            return _encode(value)
        except ValueError:
            return json.dumps(
                _finite(value), separators=(",", ":"), default=lambda item: _finite(_plain(item))
            )
    except (ValueError, RecursionError) as error:
        raise TypeError(f"value has no JSON form: {error}") from error


def _written(write: Callable[..., bytes], value: Any, texts: Iterable[Any], **options: str) -> str:
    """Return what `write` makes of `value`, in ASCII. Long `texts` that are ASCII take a quarter of
    the time."""
    for member in texts:
        if type(member) is str and len(member) > 1000 and member.isascii():
            text = write(value, **options).decode()  # without looking at each character
            # iterators in the value are used up, so it is written from what was written
            if not text.isascii():
                text = to_json(from_json(text), ensure_ascii=True).decode("ascii")
            return text
    return write(value, ensure_ascii=True, **options).decode("ascii")


def object_json(value: Any) -> str:
    """Return the compact ASCII JSON of an object, with its keys in their order.

    Raises: TypeError or ValueError when `value` is not an object, or holds NaN, an infinity or
    something that has no JSON form.
    """
    text = _encode(value)
    if not text.startswith("{"):
        raise TypeError(f"{type(value).__name__} is not an object")
    return text


def parsed_json(content: bytes | str) -> Any:
    """Return the value of JSON text, of bytes in UTF-8. Accepts lone surrogates.

    Raises: ValueError, also for a number that is not finite, which could not be written again;
    RecursionError.
    """
    text = content if isinstance(content, str) else content.decode("utf-8")
    value = json.loads(text)
    check_depth(value)
    check_finite(value)
    return value


_DIGITS_AND_E = bytes(
    48 if chr(code).isdecimal() else 101 if code in b"eE" else 32 for code in range(256)
)


def may_be_infinite(content: bytes) -> bool:
    """Return whether JSON text may hold NaN, an infinity or a number beyond 1.8e308; pydantic reads
    all of them.

    Takes about 3 ns a byte; a pattern would take ten times that.
    """
    if b"NaN" in content or b"Infinity" in content:
        return True
    kinds = content.translate(_DIGITS_AND_E, b"+")
    return b"0e000" in kinds or b"0" * 309 in kinds


def check_finite(value: Any) -> None:
    """Check that parsed JSON has no NaN or infinity, which would be null where it is written.
    Raises: ValueError."""
    if (place := infinite_place(value)) is not None:
        raise ValueError(
            f"{shorten(place, MAX_PLACE_CHARACTERS) or 'it'} is NaN, an infinity or a number "
            "beyond 1.8e308; "
            "write a finite number, null or a text"
        )


def infinite_place(value: Any, place: str = "") -> str | None:
    """Return the place of the first number that is not finite, such as `scores.0`; None if all
    are."""
    if isinstance(value, float):
        return None if math.isfinite(value) else place
    members = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, member in members:
        if isinstance(member, float | dict | list):
            infinite = infinite_place(member, f"{place}.{key}" if place else str(key))
            if infinite is not None:
                return infinite
    return None


def json_problem(error: Exception) -> str:
    """Return what is wrong with a text that is not JSON or cannot be stored, by what reading it has
    raised."""
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at line {error.lineno}, column {error.colno}"
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if "integer string conversion" in str(error):
        return f"a number in it has more than {sys.get_int_max_str_digits():,} digits"
    return str(error)


class RepeatedKey(ValueError):
    """An object of JSON has a key twice, of which most readers silently drop one."""


def distinct_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object with these members; a hook for JSON decoders. Raises: RepeatedKey."""
    members = dict(pairs)
    if len(members) < len(pairs):
        raise repeated(Counter(name for name, _ in pairs).most_common(1)[0][0])
    return members


def repeated(name: str) -> RepeatedKey:
    quotation = shorten(ascii(name), MAX_PLACE_CHARACTERS)
    return RepeatedKey(f"has the key {quotation} twice in one object; keep one of them")


def check_depth(value: Any, levels: int = MAX_DEPTH) -> None:
    """Check that parsed JSON is not nested too deeply to be written again. Raises: ValueError."""
    level = [value]
    for _ in range(levels):
        if not (level := [child for item in level for child in _children(item)]):
            return
    raise ValueError(f"nested more than {levels} deep")


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def plain_blocks(blocks: Any) -> Any:
    """Return the blocks or messages of any SDK as plain data, ready for validation by the types of
    this module.

    Raises: TypeError when `blocks` is not a sequence.
    """
    if isinstance(blocks, str | bytes | Mapping) or not isinstance(blocks, Sequence):
        raise TypeError(f"expected a list of blocks, got {type(blocks).__name__}")
    return [block.model_dump() if isinstance(block, BaseModel) else block for block in blocks]


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence | set | frozenset) and not isinstance(
        value, bytes | bytearray | memoryview
    ):
        return list(value)
    return to_jsonable_python(value)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, BaseModel):
        return _finite(value.model_dump())
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False, default=_plain).encode
