"""A taskset of verifiers for any ORS server, with the harness that plays it.

PYTHONPATH=. vf-eval ors_taskset --env.taskset.run NAME --env.agent.runtime.type subprocess
"""

import atexit
import json
import os
from collections.abc import Iterator
from urllib.parse import quote

import httpx
import verifiers.v1 as vf
from openai import AsyncOpenAI
from ors.client import AsyncORS, ToolCallError

__all__ = ["OrsHarness", "OrsTaskset"]
KEY = {"X-API-Key": os.environ.get("ORS_API_KEY", "")}


class OrsConfig(vf.TasksetConfig):
    run: str = "verifiers"
    """Name of the run on the server."""
    environment: str = "guess"
    split: str = "train"
    server: str = "http://127.0.0.1:8080"


class OrsData(vf.TaskData):
    index: int
    run: str
    environment: str
    split: str
    server: str


class OrsState(vf.State):
    rewards: list[float] = []
    """Rewards of the tool calls, in order."""


class OrsTask(vf.Task[OrsData, OrsState]):
    @vf.reward
    async def ors_return(self, trace: vf.Trace) -> float:
        return sum(trace.state.rewards)


class OrsTaskset(vf.Taskset[OrsTask, OrsConfig]):
    def load(self) -> Iterator[OrsTask]:
        place = self.config.model_dump(include={"run", "environment", "split", "server"})
        atexit.register(print_run, self.config.server, self.config.run)
        url = f"{self.config.server}/{self.config.environment}/num_tasks"
        count = (
            httpx.post(url, json={"split": self.config.split}, headers=KEY)
            .raise_for_status()
            .json()
        )
        for index in range(count["num_tasks"]):
            # A session has the prompt. Opening one here to read it would be an attempt, so the
            # harness does it.
            yield OrsTask(
                OrsData(prompt="", index=index, name=f"{place['split']}/{index}", **place),
                self.config.task,
            )


def print_run(server: str, name: str) -> None:
    """Print how many episodes the newest run of the name has, after the evaluation."""
    response = httpx.get(f"{server}/api/runs/by-name/{quote(name, safe='')}", headers=KEY)
    if response.is_success:
        print("run {name} has {episodes} episodes: {html_url}".format(**response.json()))


class OrsHarness(vf.Harness[vf.HarnessConfig]):
    """Plays a session of the server as the task, with the tools that it has."""

    EXECUTES_CODE = NEEDS_CONTAINER = False

    async def launch(
        self, ctx, trace, runtime, endpoint, secret, mcp_urls, data
    ) -> vf.ProgramResult:
        model = AsyncOpenAI(base_url=endpoint, api_key=secret)
        ors = AsyncORS(base_url=data.server)  # its connections close with it
        secrets = {"orsweb_run": data.run, "orsweb_model": ctx.model}
        environment = ors.environment(data.environment)
        async with (
            model,
            environment.session(split=data.split, index=data.index, secrets=secrets) as session,
        ):
            await play(session, model, ctx.model, trace.state.rewards)
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")


async def play(session, model: AsyncOpenAI, name: str, rewards: list[float]) -> None:
    """Let the model call tools until the episode is over or it calls none. Limits of turns are
    those of verifiers."""
    messages = [
        {"role": "user", "content": [as_part(block) for block in await session.get_prompt()]}
    ]
    tools = [as_function(tool) for tool in await session.list_tools()]
    while True:
        answer = await model.chat.completions.create(model=name, messages=messages, tools=tools)
        message = answer.choices[0].message
        messages.append(message.model_dump(exclude_none=True))
        images = []  # tool messages take text only, so images follow in a message of the user
        for tool_call in message.tool_calls or ():
            parts, is_over = await call(session, tool_call.function, rewards)
            if is_over:
                return
            texts = [part for part in parts if part["type"] == "text"]
            images += [part for part in parts if part["type"] == "image_url"]
            messages.append(
                {"role": "tool", "tool_call_id": tool_call.id, "content": texts or "[image]"}
            )
        if images:
            messages.append({"role": "user", "content": images})
        if not message.tool_calls:
            return


async def call(session, function, rewards: list[float]):
    """Return the parts of a tool's output, and whether the episode is over."""
    try:
        output = await session.call_tool(function.name, json.loads(function.arguments or "{}"))
    except (
        ToolCallError,
        ValueError,
    ) as error:  # refused, or arguments that are not JSON: the model can try again
        return [{"type": "text", "text": f"Error: {error}"}], False
    rewards.append(output.reward or 0.0)
    return [as_part(block) for block in output.blocks], output.finished


def as_function(tool) -> dict:
    """Return a tool in the shape of chat completions."""
    parameters = tool.input_schema or {"type": "object", "properties": {}}
    function = {"name": tool.name, "description": tool.description, "parameters": parameters}
    return {"type": "function", "function": function}


def as_part(block) -> dict:
    """Return a block of an environment, which is a text or an image, as a part of a message."""
    if block.type == "text":
        return {"type": "text", "text": block.text}
    return {"type": "image_url", "image_url": {"url": f"data:{block.mimeType};base64,{block.data}"}}
