"""The requests of MCP that an episode answers, as handlers of the low-level server of the package `mcp`.

The package checks each message against the version of the protocol that was negotiated, calls the handler and brings
the result into the form of that version. A handler finds the request, and through it the session, in `ctx.request`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any

from mcp.server.lowlevel import Server
from mcp.server.models import InitializationOptions
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    GetPromptRequestParams,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    RequestParams,
)

from environments import conf, wire
from environments.authoring.callable_tools import is_replaced, tool_called, tool_names
from environments.mcp_protocol import content
from environments.mcp_protocol.content import Json

PROMPT_NAME = "task"
MAX_WAIT_SECONDS = 60.0
"""Interval at which a handler checks whether its call has finished. The wait as a whole has no limit."""
UNKNOWN_TOOL_REASONS = ("not_found", "name_collision")


@cache
def mcp_server() -> Server[Any]:
    """Return the server of this process, which all sessions share."""
    server: Server[Any] = Server("orsweb", version=conf.version())
    for method, (params, handler) in HANDLERS.items():
        server.add_request_handler(method, params, handler)
    return server


def introduction(environment: str) -> InitializationOptions:
    """Return the description of the session that its client gets in response to `initialize`."""
    text = (
        f"This server is one episode of the environment {environment!r}. The prompt {PROMPT_NAME!r}, which is also the "
        f"resource {content.PROMPT_URI}, says what the task is: read it first. Then solve the task by calling this "
        "server's tools. When the episode is over, further calls are refused."
    )
    options = mcp_server().create_initialization_options()
    return options.model_copy(update={"title": f"orsweb: {environment}", "instructions": text})


async def ping(ctx: Any, params: Any) -> Json:
    """Return an empty result. Every request keeps its session from expiring, so nothing else is to be done."""
    return {}


async def list_tools(ctx: Any, params: Any) -> Json:
    """Return the tools of the session."""
    session = ctx.request.session
    return {"tools": content.tools_of(content.parse(await session.service.task_tools_json(*session.address)))}


async def call_tool(ctx: Any, params: Any) -> Json:
    """Run a tool. A refusal or a failure is a result that the agent reads, except for a tool that does not exist."""
    request = ctx.request
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
    if call.result.event == "error":
        return content.error_result(content.parse(wire.value_json(call.result.data)))
    answer = content.parse(call.result.data)
    if answer["ok"]:
        return content.result_of(answer["output"], shows_reward=session.shows_rewards)
    if answer["reason"] in UNKNOWN_TOOL_REASONS:
        raise MCPError(code=INVALID_PARAMS, message=answer["error"])
    return content.error_result(answer["error"])


async def list_prompts(ctx: Any, params: Any) -> Json:
    """Return the only prompt, that of the task."""
    return {"prompts": [{"name": PROMPT_NAME, "title": "Task", "description": _description(ctx)}]}


async def get_prompt(ctx: Any, params: Any) -> Json:
    """Return the messages of the prompt."""
    if params.name != PROMPT_NAME:
        raise MCPError(code=INVALID_PARAMS, message=f"Unknown prompt {params.name!r}; this server has {PROMPT_NAME!r}")
    return {"description": _description(ctx), "messages": await _messages(ctx)}


async def list_resources(ctx: Any, params: Any) -> Json:
    """Return the only resource, which holds the prompt: some clients let the model read resources, but not prompts."""
    return {
        "resources": [{"uri": content.PROMPT_URI, "name": "prompt", "title": "Task", "description": _description(ctx)}]
    }


async def list_resource_templates(ctx: Any, params: Any) -> Json:
    """Return an empty list. Some clients ask for templates wherever there are resources."""
    return {"resourceTemplates": []}


async def read_resource(ctx: Any, params: Any) -> Json:
    """Return the contents of the prompt."""
    if str(params.uri) != content.PROMPT_URI:
        text = f"Unknown resource {str(params.uri)!r}; this server has {content.PROMPT_URI!r}"
        raise MCPError(code=INVALID_PARAMS, message=text)
    return {"contents": content.resource_of(await _messages(ctx))}


def _description(ctx: Any) -> str:
    return f"The task of this episode of {ctx.request.session.environment!r}"


async def _messages(ctx: Any) -> list[Json]:
    """Return the prompt, which is recorded as read by the agent. A class may have a conversation in its place."""
    session = ctx.request.session
    if session.service.registry.get(session.environment).has_own_prompt:
        return content.prompt_of(content.parse(await session.service.prompt_json(*session.address)))
    return content.conversation_of(content.parse(await session.service.messages_json(*session.address)))


HANDLERS: dict[str, tuple[type[RequestParams], Callable[[Any, Any], Awaitable[Json]]]] = {
    "ping": (RequestParams, ping),
    "tools/list": (PaginatedRequestParams, list_tools),
    "tools/call": (CallToolRequestParams, call_tool),
    "prompts/list": (PaginatedRequestParams, list_prompts),
    "prompts/get": (GetPromptRequestParams, get_prompt),
    "resources/list": (PaginatedRequestParams, list_resources),
    "resources/templates/list": (PaginatedRequestParams, list_resource_templates),
    "resources/read": (ReadResourceRequestParams, read_resource),
}
"""The handler of each method, and the type of the parameters that the package passes to it."""
