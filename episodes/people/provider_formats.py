"""A session's prompt and tools in the formats of model providers, as clients send them. Used by the
view of the agent.

The results equal those of the SDK's `list_tools(format=…)` and `get_messages(format=…)`, oddities
included, because agents get them: schemas for OpenAI have only the first branch of a union, those
for Google none, and members named "title" are lost. Two things differ, because providers refuse
what the SDK sends: the root of a schema is an object, and names are those of `callable_name`.
Source: `openreward/api/environments/client.py` 0.1.167. `ors/client/environment.py` 0.1.0 differs
in one thing: for OpenAI it drops the keywords next to a union, such as its description.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Literal

from environments.display.images import image_problem
from environments.schemas.callable_names import callable_name
from environments.schemas.object_schemas import object_schema

Format = Literal["openai", "anthropic", "google"]
Object = dict[str, Any]

_UNIONS = ("anyOf", "oneOf", "allOf")
_NOT_OPENAI = {"additionalProperties", "patternProperties", "not", *_UNIONS}
_NOT_GOOGLE = {*_NOT_OPENAI, "additional_properties", "title", "default", "examples", "example"}
_RENAMED = {"$ref": "ref", "$defs": "defs"}
_ALLOWED = {
    "system": ("text", "image"),
    "user": ("text", "image", "tool_result"),
    "assistant": ("text", "image", "reasoning", "tool_call"),
}


class Unrepresentable(ValueError):
    """The provider's format cannot represent a part of the prompt. The SDK raises an error there,
    too, except for images that providers refuse.
    """


# --- tools ----------------------------------------------------------------------------------------


def tools_as(tools: Sequence[Object], provider: Format) -> list[Object]:
    """Return the tools of a listing in the format of `provider`. A terminal tool is not among
    them."""
    return [_tool(tool, provider) for tool in tools]


def _tool(tool: Object, provider: Format) -> Object:
    schema = tool.get("input_schema")
    schema = object_schema(schema) if schema else schema
    facts = {
        key: _untitled(value) for key, value in tool.items() if key not in ("input_schema", "title")
    }
    facts["name"] = _name(tool["name"], provider)
    if provider == "anthropic":
        empty = {"type": "object", "properties": {}}
        return {"type": "custom", **facts, "input_schema": _untitled(schema) if schema else empty}
    if provider == "google":
        return {**facts, "parameters": _for_google(_untitled(schema)) if schema else None}
    return {
        "type": "function",
        **facts,
        "parameters": _for_openai(_untitled(schema)) if schema else None,
    }


def _name(name: str, provider: Format) -> str:
    return callable_name(name, needs_letter=provider == "google")


def _untitled(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _untitled(inner) for key, inner in value.items() if key != "title"}
    return [_untitled(inner) for inner in value] if isinstance(value, list) else value


def _for_google(value: Any) -> Any:
    if isinstance(value, dict):
        schema = {key: inner for key, inner in value.items() if key not in _NOT_GOOGLE}
        return {_RENAMED.get(key, key): _for_google(inner) for key, inner in schema.items()}
    return [_for_google(inner) for inner in value] if isinstance(value, list) else value


def _for_openai(value: Any) -> Any:
    if isinstance(value, list):
        return [_for_openai(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    union = next((key for key in _UNIONS if value.get(key) and isinstance(value[key], list)), None)
    if union:
        branches = value[union]
        if union == "anyOf":
            branches = [
                branch
                for branch in branches
                if not (isinstance(branch, dict) and branch.get("type") == "null")
            ] or branches
        branch = branches[0]
        others = {key: inner for key, inner in value.items() if key != union}
        return _for_openai({**others, **branch} if isinstance(branch, dict) else branch)
    schema = {key: _for_openai(inner) for key, inner in value.items() if key not in _NOT_OPENAI}
    kind = schema.get("type")
    is_array = kind == "array" or (isinstance(kind, list) and "array" in kind)
    return schema | {"items": {}} if is_array and "items" not in schema else schema


# --- prompt ---------------------------------------------------------------------------------------


def prompt_as(prompt: Sequence[Object], provider: Format) -> Any:
    """Return a prompt in the format of `provider`. Blocks without roles become one message of the
    user.

    OpenAI: a list of messages; Anthropic: `system` and `messages`; Google: `system_instruction` and
    `contents`.
    Raises: Unrepresentable; LookupError or TypeError if `prompt` is not a prompt.
    """
    is_conversation = any("role" in item for item in prompt)
    messages = list(prompt) if is_conversation else [{"role": "user", "blocks": prompt}]
    for message in messages:
        _check(message)
    return _CONVERSATIONS[provider](messages)


def _check(message: Object) -> None:
    kinds = _ALLOWED.get(message["role"], ("text", "image"))
    for block in _blocks(message):
        if block["type"] not in kinds:
            raise Unrepresentable(
                f"A {message['role']!r} message can't contain a {block['type']!r} block."
            )
        for part in _blocks(block) if block["type"] == "tool_result" else [block]:
            if part["type"] == "image" and (
                problem := image_problem(part.get("mimeType"), part.get("data"))
            ):
                raise Unrepresentable(
                    f"Providers refuse an image of a {message['role']!r} message: {problem}."
                )


def _blocks(holder: Object) -> list[Object]:
    """Return the blocks of the types that the SDK supports; it skips others."""
    kinds_allowed = {kind for kinds in _ALLOWED.values() for kind in kinds}
    return [block for block in holder["blocks"] if block.get("type") in kinds_allowed]


def _for_openai_messages(messages: list[Object]) -> list[Object]:
    entries = (_chat_entries(message["role"], _blocks(message)) for message in messages)
    return list(chain.from_iterable(entries))


def _chat_entries(role: str, blocks: list[Object]) -> Iterator[Object]:
    if role == "assistant":
        yield _chat_assistant(blocks)
        return
    for block in blocks:
        if block["type"] == "tool_result":
            yield {
                "role": "tool",
                "tool_call_id": block["tool_call_id"],
                "content": _result_text(block, "openai"),
            }
    others = [block for block in blocks if block["type"] != "tool_result"]
    if others or role != "user":
        yield {"role": role, "content": _chat_content(others)}


def _chat_assistant(blocks: list[Object]) -> Object:
    visible_blocks = [block for block in blocks if block["type"] in ("text", "image")]
    reasoning = [block["text"] for block in blocks if block["type"] == "reasoning"]
    calls = [
        {
            "id": block["id"],
            "type": "function",
            "function": {
                "name": _name(block["name"], "openai"),
                "arguments": json.dumps(block["input"]),
            },
        }
        for block in blocks
        if block["type"] == "tool_call"
    ]
    entry: Object = {
        "role": "assistant",
        "content": _chat_content(visible_blocks) if visible_blocks else None,
    }
    entry |= {"reasoning_content": "\n\n".join(reasoning)} if reasoning else {}
    return entry | ({"tool_calls": calls} if calls else {})


def _chat_content(blocks: list[Object]) -> Any:
    if len(blocks) == 1 and blocks[0]["type"] == "text":
        return blocks[0]["text"]
    return [
        {"type": "text", "text": block["text"]}
        if block["type"] == "text"
        else {
            "type": "image_url",
            "image_url": {"url": f"data:{block['mimeType']};base64,{block['data']}"},
        }
        for block in blocks
    ]


def _for_anthropic(messages: list[Object]) -> Object:
    system, others = _system(messages, "anthropic")
    entries = []
    for message in others:
        blocks = sorted(
            _blocks(message), key=lambda block: block["type"] != "tool_result"
        )  # tool results have to come first
        entries.append(
            {"role": message["role"], "content": [_anthropic_part(block) for block in blocks]}
        )
    return {"system": system, "messages": entries}


def _anthropic_part(block: Object) -> Object:
    if block["type"] == "text":
        return {"type": "text", "text": block["text"]}
    if block["type"] == "image":
        return {
            "type": "image",
            "source": {"type": "base64", "media_type": block["mimeType"], "data": block["data"]},
        }
    if block["type"] == "reasoning":
        signature = {"signature": block["signature"]} if block.get("signature") else {}
        return {"type": "thinking", "thinking": block["text"], **signature}
    if block["type"] == "tool_call":
        return {
            "type": "tool_use",
            "id": block["id"],
            "name": _name(block["name"], "anthropic"),
            "input": block["input"],
        }
    content = [_anthropic_part(inner) for inner in _blocks(block)]
    result = {"type": "tool_result", "tool_use_id": block["tool_call_id"], "content": content}
    return result | ({"is_error": True} if block.get("is_error") else {})


def _for_gemini(messages: list[Object]) -> Object:
    calls = {
        block["id"]: block["name"]
        for message in messages
        for block in _blocks(message)
        if block["type"] == "tool_call"
    }
    system, others = _system(messages, "google")
    contents = [
        {
            "role": "model" if message["role"] == "assistant" else "user",
            "parts": [_google_part(block, calls) for block in _blocks(message)],
        }
        for message in others
    ]
    return {"system_instruction": system, "contents": contents}


def _google_part(block: Object, calls: Mapping[str, str]) -> Object:
    if block["type"] == "text":
        return {"text": block["text"]}
    if block["type"] == "image":
        return {"inline_data": {"mime_type": block["mimeType"], "data": block["data"]}}
    if block["type"] == "tool_call":
        return {"function_call": {"name": _name(block["name"], "google"), "args": block["input"]}}
    if block["type"] == "reasoning":
        raise Unrepresentable("Google's format doesn't support reasoning.")
    if block["tool_call_id"] not in calls:
        raise Unrepresentable(
            f"The result {block['tool_call_id']!r} belongs to no call, but Google's format needs "
            "the tool's name."
        )
    response = {"output": _result_text(block, "google")}
    return {
        "function_response": {
            "name": _name(calls[block["tool_call_id"]], "google"),
            "response": response,
        }
    }


def _result_text(block: Object, provider: str) -> str:
    parts = _blocks(block)
    if any(part["type"] == "image" for part in parts):
        raise Unrepresentable(f"The format of {provider} doesn't support images in tool results.")
    return "\n".join(part["text"] for part in parts)


def _system(messages: list[Object], provider: str) -> tuple[str | None, list[Object]]:
    """Return the text of the leading system messages, and the other messages."""
    others = [message for message in messages if message["role"] != "system"]
    leading = messages[: len(messages) - len(others)]
    if any(message["role"] != "system" for message in leading):
        raise Unrepresentable(
            f"The format of {provider} doesn't support a system message after others."
        )
    blocks = [block for message in leading for block in _blocks(message)]
    if any(block["type"] != "text" for block in blocks):
        raise Unrepresentable(f"System messages of {provider} can only contain text.")
    return ("\n\n".join(block["text"] for block in blocks) if blocks else None), others


_CONVERSATIONS: Mapping[Format, Callable[[list[Object]], Any]] = {
    "openai": _for_openai_messages,
    "anthropic": _for_anthropic,
    "google": _for_gemini,
}
