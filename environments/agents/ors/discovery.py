"""The endpoints with which clients discover environments, tools, splits and tasks.

Source: Open Reward Standard, HTTP API, "Discovery".

Divergences from the references: `/get_task` and `/get_task_range` (the names on the page Tasks &
Splits) are served too; every response with tasks contains `env_name`; long lists of tasks are
streamed.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence

from environments import conf, wire
from environments.agents.http.request import HttpRequest
from environments.agents.http.response import Response, json_response, text_response
from environments.agents.http.view import ProtocolView
from environments.agents.ors.tasks_for_key import ListedTasksOfKey
from environments.keys.agent_key import CURATE, PLAY
from environments.wire import value_json


class Health(ProtocolView):
    """GET /health: the process answers. It needs no key, database or open service; `/ready` says
    more."""

    needs_key = False
    over_quota = "answer"

    async def dispatch(self, http_request: HttpRequest, **kwargs: str) -> Response:  # type: ignore[override]
        if http_request.method == "GET" and "%00" not in http_request.query_string:
            return await self.get()
        return await super().dispatch(http_request, **kwargs)

    async def get(self) -> Response:
        return text_response('{"status":"ok"}')


class Version(ProtocolView):
    scopes = ()

    async def get(self) -> Response:
        return json_response({"version": conf.version(), "build_sha": conf.build_sha()})


class ListEnvironments(ProtocolView):
    """GET /list_environments: the names that the key may use."""

    scopes = ()

    async def get(self) -> Response:
        return json_response(self.key.among(self.service.registry.names))


class DiscoveryView(ProtocolView):
    """Base of the endpoints that describe one environment."""

    scopes = (PLAY, CURATE)

    async def tasks_of(self, split: str) -> ListedTasksOfKey:
        """Return the tasks of the split as the key may read them. Raises: Forbidden."""
        return await ListedTasksOfKey.of(self.service.tasks, self.key, self.hosted, split)


class Tools(DiscoveryView):
    async def get(self) -> Response:
        environment = self.hosted
        if not environment.is_described:
            environment.check_available()
        return text_response(environment.tools_json)


class Splits(DiscoveryView):
    async def get(self) -> Response:
        splits = await self.service.tasks.splits(self.hosted.name)
        return json_response(
            [split.model_dump() for split in splits if self.key.has_split(split.name)]
        )


class Tasks(DiscoveryView):
    """POST …/tasks `{split}`: all tasks of a split, in order."""

    async def post(self) -> Response:
        tasks = await self.tasks_of(self.read_body(wire.ListTasks).split)
        return await _task_list_response(tasks.all(), self.env_name)


class NumTasksView(DiscoveryView):
    async def post(self) -> Response:
        split = self.read_body(wire.NumTasks).split
        self.key.check_split(split)
        return json_response({"num_tasks": await self.service.tasks.count(self.hosted.name, split)})


class GetTaskView(DiscoveryView):
    async def post(self) -> Response:
        request = self.read_body(wire.GetTask)
        task = await (await self.tasks_of(request.split)).one(request.index)
        return text_response(f'{{"task":{task},"env_name":{value_json(self.env_name)}}}')


class TaskRange(DiscoveryView):
    """POST …/task_range `{split, start?, stop?}`: a slice of a split, which may have 10**12
    tasks."""

    async def post(self) -> Response:
        request = self.read_body(wire.GetTaskRange)
        tasks = await self.tasks_of(request.split)
        return await _task_list_response(tasks.range(request.start, request.stop), self.env_name)


async def _task_list_response(chunks: AsyncIterator[Sequence[str]], env_name: str) -> Response:
    # The first chunk is read here, so that errors become responses. A list as default, because
    # Python 3.11 unpacks a tuple into several values.
    first: Sequence[str] = await anext(chunks, [])
    return Response(_task_list(first, chunks, env_name))


async def _task_list(
    first: Sequence[str], rest: AsyncIterator[Sequence[str]], env_name: str
) -> AsyncGenerator[bytes, None]:
    """Yield the body in pieces, one per chunk, even an empty one: after each, the handler checks
    the connection."""
    yield b'{"tasks":[' + ",".join(first).encode("ascii")
    has_tasks = bool(first)
    async for chunk in rest:
        comma = b"," if has_tasks and chunk else b""
        yield comma + ",".join(chunk).encode("ascii")
        has_tasks = has_tasks or bool(chunk)
    yield b'],"env_name":' + value_json(env_name).encode("ascii") + b"}"
