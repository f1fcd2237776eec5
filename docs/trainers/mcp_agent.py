"""Plays tasks of an environment over MCP with a model behind OpenAI's chat completions, as a run of
orsweb.

python mcp_agent.py ENVIRONMENT MODEL --run NAME
"""

import argparse
import asyncio
import json
from urllib.parse import quote, urlencode

import httpx
from mcp import Client, MCPError
from openai import AsyncOpenAI

parser = argparse.ArgumentParser()
parser.add_argument("environment", help="such as guess")
parser.add_argument("model", help="such as gpt-5-mini")
parser.add_argument("--run", required=True, help="name of the run on the server")
parser.add_argument("--server", default="http://127.0.0.1:8080")
parser.add_argument("--split", default="train")
parser.add_argument("--tasks", type=int, default=20, help="number of tasks, from the first on")
parser.add_argument(
    "--at-once", type=int, default=8, help="episodes that are played at the same time"
)
parser.add_argument(
    "--max-turns", type=int, default=20, help="turns of the model after which it gives up"
)
options = parser.parse_args()

run_url = f"{options.server}/api/runs/by-name/{quote(options.run, safe='')}"
openai = AsyncOpenAI()  # OPENAI_BASE_URL and OPENAI_API_KEY say where the model is
places = asyncio.Semaphore(options.at_once)


def as_function(tool) -> dict:
    function = {
        "name": tool.name,
        "description": tool.description or "",
        "parameters": tool.input_schema,
    }
    return {"type": "function", "function": function}


def as_part(content) -> dict:
    """Return a text or an image as a part of a message."""
    if content.type == "text":
        return {"type": "text", "text": content.text}
    return {
        "type": "image_url",
        "image_url": {"url": f"data:{content.mime_type};base64,{content.data}"},
    }


async def call(client, function):
    """Return the parts of a tool's output, and whether the episode is over."""
    try:
        result = await client.call_tool(function.name, json.loads(function.arguments or "{}"))
    except (MCPError, ValueError) as error:  # an unknown tool, or arguments that are not JSON
        return [{"type": "text", "text": f"Error: {error}"}], False
    return [as_part(content) for content in result.content], bool(
        (result.meta or {}).get("orsweb/finished")
    )


async def play(index: int) -> None:
    """Play one episode, which is one MCP session."""
    chosen = {"split": options.split, "index": index, "run": options.run, "model": options.model}
    async with (
        places,
        Client(f"{options.server}/mcp/{options.environment}?{urlencode(chosen)}") as client,
    ):
        prompt = await client.get_prompt("task")
        messages = [
            {"role": message.role, "content": [as_part(message.content)]}
            for message in prompt.messages
        ]
        tools = [as_function(tool) for tool in (await client.list_tools()).tools]
        for _ in range(options.max_turns):
            answer = await openai.chat.completions.create(
                model=options.model, messages=messages, tools=tools
            )
            message = answer.choices[0].message
            messages.append(message.model_dump(exclude_none=True))
            images = []  # tool messages take text only, so images follow in a message of the user
            for tool_call in message.tool_calls or ():
                parts, is_over = await call(client, tool_call.function)
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


def report(**members) -> dict:
    """Tell the server about the run, and return what it knows."""
    return httpx.put(run_url, json=members).raise_for_status().json()


async def main() -> None:
    await asyncio.gather(*map(play, range(options.tasks)))


begun = report(state="running", config=vars(options))
print("run {name} has {episodes} episodes: {html_url}".format(**begun))
state = "failed"
try:
    asyncio.run(main())
    state = "ended"
finally:
    report(state=state)
