"""The operations of the protocol, as its OpenAPI document describes them, and the types of their
answers.

`openapi.py` builds the document from these. The requests are types of `wire.py`; the answers here
are those that the endpoints write as text, so only the document uses their types. A test compares
the operations with `urls.py`, and every answer in the tests of the protocol with its type.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from pydantic import BaseModel, Field

from environments import wire
from environments.wire import JSONObject, WireModel

ENV_NAME = "Name of the environment; send it to `/create`."


class Acknowledgement(WireModel):
    status: Literal["ok"]


class ServerVersion(WireModel):
    version: str = Field(description="Version of the server.")
    build_sha: str | None = Field(description="Commit of the server, if its operator set it.")


class SessionName(WireModel):
    sid: str = Field(
        description="Id of the session, which the header X-Session-ID of later requests repeats."
    )


class TaskCount(WireModel):
    num_tasks: int = Field(description="Number of tasks in the split.")


class OneTask(WireModel):
    task: JSONObject = Field(description="The task, whose fields the environment defines.")
    env_name: str = Field(description=ENV_NAME)


class TaskList(WireModel):
    tasks: list[JSONObject] = Field(description="The tasks, in order.")
    env_name: str = Field(description=ENV_NAME)


class GroupScores(WireModel):
    scores: list[wire.GroupScore] = Field(
        description="The score of each candidate, in their order."
    )


class Problem(WireModel):
    """One thing that is wrong in the body of a request."""

    type: str = Field(description="Kind of the problem, such as `missing`.")
    loc: list[str | int] = Field(description="Path of the field, which starts with `body`.")
    msg: str = Field(description="What is wrong.")
    input: None = Field(description="Always null, so that clients log no secrets.")


class ErrorBody(WireModel):
    """The body of every response whose status is not 2xx."""

    detail: str | list[Problem] = Field(
        description="What is wrong; with status 422 a list of problems."
    )


Tag = Literal["Discovery", "Sessions", "Calls"]


@dataclass(frozen=True, slots=True)
class ProtocolOperation:
    """What one path does. `request` is None if the body is ignored; `headers` are names in
    `openapi.HEADERS`."""

    method: Literal["get", "post"]
    tag: Tag
    summary: str
    answer: Any
    """Type of the body of a 200, for streams that of the joined result."""
    statuses: tuple[int, ...] = ()
    """Statuses of refusals, without those that every operation has."""
    request: type[BaseModel] | None = None
    headers: tuple[str, ...] = ()
    description: str = ""
    stream: Literal["", "always", "if accepted"] = ""
    """Whether a 200 is an event stream."""
    alias_of: str = ""
    """The other name of this path, if it has two."""


SESSION = ("X-Session-ID",)
IN_SESSION = (400, 404, 409, 410, 500, 503)
"""Refusals of requests that need a session whose environment is ready."""

_DESCRIBED_STREAM = (
    "The result is an event stream. Join the data of all `chunk` events and of the `end` event, in "
    "order, and parse it as JSON; a stream that ends with `error` has no result."
)

_DELETE = ProtocolOperation(
    "post",
    "Sessions",
    "End a session and its episode",
    SessionName,
    (400, 404, 503),
    headers=SESSION,
    description="Answers when the environment has been torn down and the end is recorded, and for "
    "unknown ids too. A 404 means that the session is another key's.",
)

ROOT_OPERATIONS: dict[str, ProtocolOperation] = {
    "health": ProtocolOperation("get", "Discovery", "Say whether the server runs", Acknowledgement),
    "version": ProtocolOperation(
        "get", "Discovery", "Get the version of the server", ServerVersion
    ),
    "list_environments": ProtocolOperation(
        "get", "Discovery", "List the names of the environments, the default first", list[str]
    ),
    "create_session": ProtocolOperation(
        "post",
        "Sessions",
        "Get a new session id",
        SessionName,
        stream="if accepted",
        description="Nothing is stored: any other text that nobody else uses works as an id too.",
    ),
    "create": ProtocolOperation(
        "post",
        "Sessions",
        "Start an episode",
        SessionName,
        (400, 404, 410, 422, 500, 503),
        wire.CreateSession,
        (*SESSION, "X-Secrets", "X-Run", "X-Step", "X-Model"),
        "Answers when the environment's object exists, without waiting for its setup. Give "
        "`env_name`: without it, and without X-Deployment, the first path of the session that names "
        "an environment decides.",
    ),
    "ping": ProtocolOperation(
        "post",
        "Sessions",
        "Keep a session alive",
        Acknowledgement,
        (400, 404, 410, 500),
        headers=SESSION,
    ),
    "delete": _DELETE,
    "delete_session": replace(_DELETE, description="", alias_of="delete"),
}
"""Paths without an environment's name."""

_TASK = ProtocolOperation(
    "post", "Discovery", "Get one task of a split", OneTask, (400, 422, 503), wire.GetTask
)
_RANGE = ProtocolOperation(
    "post",
    "Discovery",
    "List a range of the tasks of a split",
    TaskList,
    (400, 422, 503),
    wire.GetTaskRange,
)

ENVIRONMENT_OPERATIONS: dict[str, ProtocolOperation] = {
    "tools": ProtocolOperation(
        "get", "Discovery", "List the tools of an environment", wire.ListToolsOutput
    ),
    "splits": ProtocolOperation(
        "get", "Discovery", "List the splits of an environment", list[wire.Split], (503,)
    ),
    "tasks": ProtocolOperation(
        "post",
        "Discovery",
        "List all tasks of a split",
        TaskList,
        (400, 422, 503),
        wire.ListTasks,
        description="Refused with 400 for environments that make their tasks by number; use the "
        "range there.",
    ),
    "num_tasks": ProtocolOperation(
        "post", "Discovery", "Count the tasks of a split", TaskCount, (400, 422, 503), wire.NumTasks
    ),
    "task": _TASK,
    "task_range": _RANGE,
    "get_task": replace(_TASK, alias_of="task"),
    "get_task_range": replace(_RANGE, alias_of="task_range"),
    "prompt": ProtocolOperation(
        "get",
        "Sessions",
        "Get the prompt of the session's task as blocks",
        list[wire.TextBlock | wire.ImageBlock],
        IN_SESSION,
        headers=SESSION,
    ),
    "messages": ProtocolOperation(
        "get",
        "Sessions",
        "Get the prompt of the session's task as a conversation",
        list[wire.Message],
        IN_SESSION,
        headers=SESSION,
    ),
    "task_tools": ProtocolOperation(
        "get",
        "Sessions",
        "List the tools of the session's task",
        wire.ListToolsOutput,
        IN_SESSION,
        headers=SESSION,
    ),
    "call": ProtocolOperation(
        "post",
        "Calls",
        "Call a tool",
        wire.RunToolOutput,
        (*IN_SESSION, 422),
        wire.ToolCall,
        SESSION,
        f"{_DESCRIBED_STREAM} A request that names the `task_id` of an earlier call of the session "
        "gets the result of that call; the tool doesn't run again.",
        stream="always",
    ),
    "score_group": ProtocolOperation(
        "post",
        "Calls",
        "Score conversations as a group",
        GroupScores,
        (*IN_SESSION, 422),
        wire.ScoreGroup,
        SESSION,
        f"{_DESCRIBED_STREAM} Refused with 404 by environments that don't implement it.",
        stream="always",
    ),
}
"""Paths that may have an environment's name as their first segment."""
