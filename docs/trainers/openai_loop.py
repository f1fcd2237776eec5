"""Plays tasks of an environment with a model behind OpenAI's chat completions, as a run of orsweb.

python openai_loop.py ENVIRONMENT MODEL --run NAME
"""

import argparse
import json
import os
from urllib.parse import quote

import httpx
from openai import OpenAI
from ors.client import ORS, ToolCallError

parser = argparse.ArgumentParser()
parser.add_argument("environment", help="such as guess")
parser.add_argument("model", help="such as gpt-5-mini")
parser.add_argument("--run", required=True, help="name of the run on the server")
parser.add_argument("--server", default="http://127.0.0.1:8080")
parser.add_argument("--split", default="train")
parser.add_argument("--tasks", type=int, default=20, help="number of tasks, from the first on")
parser.add_argument("--attempts", type=int, default=4, help="attempts at each task")
parser.add_argument(
    "--max-turns",
    type=int,
    default=20,
    help="turns of the model after which an attempt is given up",
)
options = parser.parse_args()

key = os.environ.get("ORS_API_KEY", "")  # one of the server's keys, if it has any
run_url = f"{options.server}/api/runs/by-name/{quote(options.run, safe='')}"
ors = ORS(base_url=options.server, api_key=key)
environment = ors.environment(options.environment)
openai = OpenAI()  # OPENAI_BASE_URL and OPENAI_API_KEY say where the model is


def report(**members) -> dict:
    """Tell the server about the run, and return what it knows."""
    return httpx.put(run_url, json=members, headers={"X-API-Key": key}).raise_for_status().json()


def as_function(tool) -> dict:
    """Return a tool in the shape of chat completions."""
    parameters = tool.input_schema or {"type": "object", "properties": {}}
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": parameters},
    }


def as_part(block) -> dict:
    """Return a block of an environment, which is a text or an image, as a part of a message."""
    if block.type == "text":
        return {"type": "text", "text": block.text}
    return {"type": "image_url", "image_url": {"url": f"data:{block.mimeType};base64,{block.data}"}}


def call(session, function):
    """Return the parts of a tool's output, its reward, and whether the episode is over."""
    try:
        output = session.call_tool(function.name, json.loads(function.arguments or "{}"))
    except (
        ToolCallError,
        RuntimeError,
        ValueError,
    ) as error:  # refused, crashed, or arguments that are not JSON
        return [{"type": "text", "text": f"Error: {error}"}], 0.0, False
    return [as_part(block) for block in output.blocks], output.reward or 0.0, output.finished


def play(index: int) -> float:
    """Play one attempt at a task, and return the sum of its rewards."""
    total, secrets = 0.0, {"orsweb_run": options.run, "orsweb_model": options.model}
    with environment.session(split=options.split, index=index, secrets=secrets) as session:
        messages = [{"role": "user", "content": [as_part(block) for block in session.get_prompt()]}]
        tools = [as_function(tool) for tool in session.list_tools()]
        for _ in range(options.max_turns):
            answer = openai.chat.completions.create(
                model=options.model, messages=messages, tools=tools
            )
            message = answer.choices[0].message
            messages.append(message.model_dump(exclude_none=True))
            images = []  # tool messages take text only, so images follow in a message of the user
            for tool_call in message.tool_calls or ():
                parts, reward, is_over = call(session, tool_call.function)
                total += reward
                if is_over:
                    return total
                texts = [part for part in parts if part["type"] == "text"]
                images += [part for part in parts if part["type"] == "image_url"]
                messages.append(
                    {"role": "tool", "tool_call_id": tool_call.id, "content": texts or "[image]"}
                )
            if images:
                messages.append({"role": "user", "content": images})
            if not message.tool_calls:
                break
    return total


begun = report(state="running", model=options.model, config=vars(options))
print("run {name} has {episodes} episodes: {html_url}".format(**begun))
state = "failed"
try:
    for attempt in range(options.attempts):
        returns = [play(index) for index in range(options.tasks)]
        print(f"attempt {attempt + 1}: mean return {sum(returns) / len(returns):.4f}")
    state = "ended"
finally:
    report(state=state)
    ors.close()
