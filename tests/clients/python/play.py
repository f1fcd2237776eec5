"""Plays one episode with the package `ors_client`, which openapi-python-client makes from
/openapi.json.

python play.py URL ENVIRONMENT [KEY]
"""

from __future__ import annotations

import json
import sys
from typing import Any

from ors_client import AuthenticatedClient, Client
from ors_client.api.calls import call
from ors_client.api.discovery import num_tasks, splits
from ors_client.api.sessions import create, create_session, delete, prompt, task_tools
from ors_client.models import (
    CreateSession,
    ErrorBody,
    NumTasks,
    RunToolError,
    RunToolSuccess,
    TextBlock,
    ToolCall,
    ToolCallInput,
)

url, environment, *keys = sys.argv[1:]
client: Any = Client(base_url=url)
if keys:
    client = AuthenticatedClient(
        base_url=url, token=keys[0], prefix="", auth_header_name="X-API-Key"
    )


def must(answer: Any) -> Any:
    """Return the answer. Raises: RuntimeError with what the server says about a refusal."""
    if answer is None or isinstance(answer, ErrorBody):
        raise RuntimeError(answer and answer.detail)
    return answer


def result_of(stream: str) -> RunToolSuccess | RunToolError:
    """Return the result that a whole stream contains. Raises: RuntimeError for an `error` event."""
    text = ""
    for block in stream.split("\n\n"):
        lines = [line.partition(": ") for line in block.split("\n")]
        event = next((value for name, _, value in lines if name == "event"), "")
        data = "\n".join(value for name, _, value in lines if name == "data")
        if event == "error":
            raise RuntimeError(data)
        if event in ("chunk", "end"):
            text += data
    result = json.loads(text)
    return RunToolSuccess.from_dict(result) if result["ok"] else RunToolError.from_dict(result)


sid = must(create_session.sync(client=client)).sid
header = {"x_session_id": sid}


def call_tool(name: str, arguments: dict[str, Any]) -> Any:
    body = ToolCall(name=name, input_=ToolCallInput.from_dict(arguments))
    return result_of(must(call.sync(environment, client=client, body=body, **header)))


split = must(splits.sync(environment, client=client))[0].name
count = must(num_tasks.sync(environment, client=client, body=NumTasks(split=split))).num_tasks
task = CreateSession(env_name=environment, split=split, index=count - 1)
must(create.sync(client=client, body=task, x_run="python", **header))
blocks = must(prompt.sync(environment, client=client, **header))
tools = must(task_tools.sync(environment, client=client, **header)).tools
refused = call_tool("echo", {"text": 1})
said = call_tool("echo", {"text": "ä " * 5000})
finished = call_tool("finish", {})
must(delete.sync(client=client, **header))

played = {
    "sid": sid,
    "prompt": [block.text if isinstance(block, TextBlock) else block.mime_type for block in blocks],
    "tools": [tool.name for tool in tools],
    "refusal": refused.reason,
    "length": sum(len(block.text) for block in said.output.blocks),
    "rewards": [said.output.reward, finished.output.reward],
    "finished": finished.output.finished,
}
print(json.dumps(played))
