"""The requests of MCP that an episode answers, one function for each method.

The package `mcp_types` checks the parameters against the version of the protocol that was
negotiated, and brings the result into the form of that version. A function gets the request, which
knows its session, and the checked parameters.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import structlog
from mcp_types import INVALID_PARAMS, METHOD_NOT_FOUND
from mcp_types.methods import parse_client_request, serialize_server_result
from pydantic import ValidationError

from environments import conf, wire
from environments.agents.mcp import content
from environments.agents.mcp.content import Json
from environments.agents.mcp.refusals import INTERNAL_ERROR, McpRefusal
from environments.agents.mcp.sessions import PendingRequest
from environments.schemas.callable_names import is_replaced, tool_called, tool_names

log = structlog.get_logger(__name__)

PROMPT_NAME = "task"
MAX_WAIT_SECONDS = 60.0
"""Interval at which `call_tool` checks whether its call has finished. The wait as a whole has no
limit."""
UNKNOWN_TOOL_REASONS = ("not_found", "name_collision")


async def answer_to(request: PendingRequest) -> Json:
    """Return the result of a request. Raises: McpRefusal, and what the service raises."""
    method, version = request.message.method, request.session.version
    if (answer := METHODS.get(method)) is None:
        raise McpRefusal(400, "Method not found", METHOD_NOT_FOUND, method)
    try:
        params = parse_client_request(method, version, request.message.params).params
    except ValidationError:
        raise McpRefusal(400, "Invalid request parameters", INVALID_PARAMS, "") from None
    result = await answer(request, params)
    try:
        return serialize_server_result(method, version, result)
    except ValidationError as error:
        log.error("a result cannot be sent over MCP", method=method, problems=error.error_count())
        raise McpRefusal(
            500, "The result of this request cannot be sent over MCP", INTERNAL_ERROR
        ) from None


def introduction(environment: str, version: str) -> Json:
    """Return the result of `initialize`. `version`: of the protocol, as negotiated."""
    text = (
        f"This server is one episode of the environment {environment!r}. The prompt "
        f"{PROMPT_NAME!r}, which is also the resource {content.PROMPT_URI}, says what the task is: "
        "read it first. Then solve the task by calling this server's tools. When the episode is "
        "over, further calls are refused."
    )
    return {
        "protocolVersion": version,
        "capabilities": {
            "prompts": {"listChanged": False},
            "resources": {"listChanged": False, "subscribe": False},
            "tools": {"listChanged": False},
        },
        "serverInfo": {
            "name": "orsweb",
            "title": f"orsweb: {environment}",
            "version": conf.version(),
        },
        "instructions": text,
    }


async def ping(request: PendingRequest, params: Any) -> Json:
    """Return an empty result. As every request, it keeps the session from expiring."""
    return {}


async def list_tools(request: PendingRequest, params: Any) -> Json:
    """Return the tools of the session."""
    session = request.session
    listing = content.parse(await session.service.task_tools_json(*session.address))
    return {"tools": content.tools_of(listing)}


async def call_tool(request: PendingRequest, params: Any) -> Json:
    """Run a tool. A refusal or a failure is a result that the agent reads, except for a tool that
    does not exist."""
    session = request.session
    name = params.name
    if is_replaced(name):
        listing = content.parse(await session.service.task_tools_json(*session.address))
        name = tool_called(name, tool_names(listing))
    message = wire.ToolCall(name=name, input=params.arguments or {})
    call = await session.service.call(*session.address, message)
    request.attach(call)
    while not await call.wait(MAX_WAIT_SECONDS):
        pass
    assert call.result is not None
    if call.result.event == "error":
        return content.error_result(content.parse(wire.value_json(call.result.data)))
    answer = content.parse(call.result.data)
    if answer["ok"]:
        return content.result_of(answer["output"], shows_reward=session.shows_rewards)
    if answer["reason"] in UNKNOWN_TOOL_REASONS:
        raise McpRefusal(400, answer["error"], INVALID_PARAMS)
    return content.error_result(answer["error"])


async def list_prompts(request: PendingRequest, params: Any) -> Json:
    """Return the only prompt, that of the task."""
    return {
        "prompts": [{"name": PROMPT_NAME, "title": "Task", "description": _description(request)}]
    }


async def get_prompt(request: PendingRequest, params: Any) -> Json:
    """Return the messages of the prompt."""
    if params.name != PROMPT_NAME:
        raise McpRefusal(
            400, f"Unknown prompt {params.name!r}; this server has {PROMPT_NAME!r}", INVALID_PARAMS
        )
    return {"description": _description(request), "messages": await _messages(request)}


async def list_resources(request: PendingRequest, params: Any) -> Json:
    """Return the only resource, which holds the prompt: some clients let the model read resources,
    but not prompts."""
    return {
        "resources": [
            {
                "uri": content.PROMPT_URI,
                "name": "prompt",
                "title": "Task",
                "description": _description(request),
            }
        ]
    }


async def list_resource_templates(request: PendingRequest, params: Any) -> Json:
    """Return an empty list. Some clients ask for templates wherever there are resources."""
    return {"resourceTemplates": []}


async def read_resource(request: PendingRequest, params: Any) -> Json:
    """Return the contents of the prompt."""
    if str(params.uri) != content.PROMPT_URI:
        text = f"Unknown resource {str(params.uri)!r}; this server has {content.PROMPT_URI!r}"
        raise McpRefusal(400, text, INVALID_PARAMS)
    return {"contents": content.resource_of(await _messages(request))}


def _description(request: PendingRequest) -> str:
    return f"The task of this episode of {request.session.environment!r}"


async def _messages(request: PendingRequest) -> list[Json]:
    """Return the prompt, which is recorded as read by the agent. A class may have a conversation in
    its place."""
    session = request.session
    if session.service.registry.get(session.environment).has_own_prompt:
        prompt = await session.service.prompt_json(*session.address)
        return content.prompt_of(content.parse(prompt))
    messages = await session.service.messages_json(*session.address)
    return content.conversation_of(content.parse(messages))


METHODS: dict[str, Callable[[PendingRequest, Any], Awaitable[Json]]] = {
    "ping": ping,
    "tools/list": list_tools,
    "tools/call": call_tool,
    "prompts/list": list_prompts,
    "prompts/get": get_prompt,
    "resources/list": list_resources,
    "resources/templates/list": list_resource_templates,
    "resources/read": read_resource,
}
