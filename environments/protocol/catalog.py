"""Discovery: what there is to play. Source: Open Reward Standard, HTTP API, "Discovery".

Divergences from the references: `/get_task` and `/get_task_range` (the Tasks & Splits page's names) are served too;
`env_name` stands in every answer with tasks; long task lists are streamed.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence

from environments import conf, wire
from environments.protocol.base import ProtocolView
from environments.protocol.response import Response, json_response, text_response
from environments.wire import value_json


class Health(ProtocolView):
    """GET /health; open to all, so that a load balancer needs no key."""

    authenticators = (type("Anybody", (), {"authenticate": lambda *_: None, "authenticate_header": lambda *_: ""})(),)

    async def get(self) -> Response:
        return text_response('{"status":"ok"}')


class Version(ProtocolView):
    async def get(self) -> Response:
        return json_response({"version": conf.version(), "build_sha": conf.build_sha()})


class ListEnvironments(ProtocolView):
    async def get(self) -> Response:
        return json_response(self.service.registry.names)


class Tools(ProtocolView):
    async def get(self) -> Response:
        return text_response(self.hosted.tools_json)


class Splits(ProtocolView):
    async def get(self) -> Response:
        return json_response([split.model_dump() for split in await self.service.tasks.splits(self.hosted.name)])


class Tasks(ProtocolView):
    """POST …/tasks `{split}`: every task of a split, in order."""

    async def post(self) -> Response:
        split = self.body(wire.ListTasks).split
        return await _listed(self.service.tasks.tasks(self.hosted.name, split), self.env_name)


class NumTasksView(ProtocolView):
    async def post(self) -> Response:
        split = self.body(wire.NumTasks).split
        return json_response({"num_tasks": await self.service.tasks.count(self.hosted.name, split)})


class GetTaskView(ProtocolView):
    async def post(self) -> Response:
        request = self.body(wire.GetTask)
        task = await self.service.tasks.get(self.hosted.name, request.split, request.index)
        return text_response(f'{{"task":{task},"env_name":{value_json(self.env_name)}}}')


class TaskRange(ProtocolView):
    """POST …/task_range `{split, start?, stop?}`: a slice of a split; a procedural class may have no end of tasks."""

    async def post(self) -> Response:
        request = self.body(wire.GetTaskRange)
        chunks = self.service.tasks.range(self.hosted.name, request.split, request.start, request.stop)
        return await _listed(chunks, self.env_name)


async def _listed(chunks: AsyncIterator[Sequence[str]], env_name: str) -> Response:
    # refusals come before the first byte; the default is no tuple, which Python 3.11 takes for several values
    first: Sequence[str] = await anext(chunks, [])
    return Response(_task_list(first, chunks, env_name))


async def _task_list(
    first: Sequence[str], rest: AsyncIterator[Sequence[str]], env_name: str
) -> AsyncGenerator[bytes, None]:
    """The body in pieces. Empty chunks have one too, for after each piece the handler looks whether the client left."""
    yield b'{"tasks":[' + ",".join(first).encode("ascii")
    has_tasks = bool(first)
    async for chunk in rest:
        comma = b"," if has_tasks and chunk else b""
        yield comma + ",".join(chunk).encode("ascii")
        has_tasks = has_tasks or bool(chunk)
    yield b'],"env_name":' + value_json(env_name).encode("ascii") + b"}"
