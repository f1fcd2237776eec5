"""Prompts, tools and results of the Open Reward Standard as the JSON of MCP.

Texts that MCP cannot carry are made valid: lone surrogates become U+FFFD. What only a harness may
see, such as the metadata of a result, is left out, and so is the reward unless the client wants it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from environments.display.images import image_problem
from environments.schemas.callable_names import callable_name
from environments.schemas.object_schemas import NO_PARAMETERS, object_schema

Json = dict[str, Any]

PROMPT_URI = "task://prompt"
FINISHED_TEXT = "The episode is over; further tool calls will be refused."
"""Added to the result that ends the episode: an MCP client has no harness that would stop the
agent."""
FINISHED_KEY = "orsweb/finished"
REWARD_KEY = "orsweb/reward"
"""Keys of a result's `_meta`, for programs."""


def parse(text: str) -> Any:
    """Return the value of this server's own JSON, with every text valid Unicode."""
    value = json.loads(text)
    return _valid(value) if "\\ud" in text else value


def _valid(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_valid(key): _valid(item) for key, item in value.items()}
    return [_valid(item) for item in value] if isinstance(value, list) else value


def tools_of(listing: Json) -> list[Json]:
    """Return the tools in a ListToolsOutput. The terminal tool is one of them, because no harness
    calls it."""
    tools = [
        _tool(spec["name"], spec["description"], spec["input_schema"]) for spec in listing["tools"]
    ]
    if terminal := listing.get("terminal_tool"):
        schema = None
        if name := terminal["arg"]:
            properties = {name: {"type": "string"}}
            schema = {**NO_PARAMETERS, "properties": properties, "required": [name]}
        tools.append(_tool(terminal["name"], terminal["description"], schema))
    return tools


def _tool(name: str, description: str, schema: Json | None) -> Json:
    return {
        "name": callable_name(name),
        "description": description,
        "inputSchema": object_schema(schema),
    }


def prompt_of(blocks: Iterable[Json]) -> list[Json]:
    """Return the messages of a prompt that is an array of blocks."""
    return [{"role": "user", "content": content} for content in content_of(blocks)]


def conversation_of(messages: Iterable[Json]) -> list[Json]:
    """Return the messages of a prompt that is an array of messages. MCP has no role "system", so
    that is the user's."""
    return [
        {"role": "assistant" if message["role"] == "assistant" else "user", "content": content}
        for message in messages
        for content in content_of(message["blocks"])
    ]


def content_of(blocks: Iterable[Json]) -> list[Json]:
    """Return the content for blocks of any type; MCP has no type for reasoning and calls, so they
    become text."""
    return [content for block in blocks for content in _content(block)]


def _content(block: Json) -> list[Json]:
    match block["type"]:
        case "image":
            if problem := image_problem(block["mimeType"], block["data"]):
                return [_text(f"An image that cannot be shown: {problem}.")]
            return [{"type": "image", "data": block["data"], "mimeType": block["mimeType"]}]
        case "tool_call":
            return [_text(f"{block['name']}({json.dumps(block['input'], ensure_ascii=False)})")]
        case "tool_result":
            return content_of(block["blocks"])
        case _:
            return [_text(block["text"])]


def _text(text: str) -> Json:
    return {"type": "text", "text": text}


def resource_of(messages: Iterable[Json]) -> list[Json]:
    """Return the contents of the resource that holds the prompt, which `messages` are."""
    contents = []
    for message in messages:
        content = message["content"]
        if content["type"] == "image":
            contents.append(
                {"uri": PROMPT_URI, "mimeType": content["mimeType"], "blob": content["data"]}
            )
        else:
            contents.append({"uri": PROMPT_URI, "mimeType": "text/plain", "text": content["text"]})
    return contents


def result_of(output: Mapping[str, Any], *, shows_reward: bool) -> Json:
    """Return the result for a ToolOutput."""
    content = content_of(output["blocks"])
    meta: Json = {FINISHED_KEY: output["finished"]}
    if shows_reward:
        meta[REWARD_KEY] = reward = output["reward"]
        if reward is not None:
            content.append(_text(f"Reward: {reward:g}"))
    if output["finished"]:
        content.append(_text(FINISHED_TEXT))
    return {"content": content, "isError": False, "_meta": meta}


def error_result(text: str) -> Json:
    """Return the result of a call that failed or was refused, which the agent may read and
    correct."""
    return {"content": [_text(text)], "isError": True}
