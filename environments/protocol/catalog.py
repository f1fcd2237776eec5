"""Discovery: what there is to play. Source: Open Reward Standard, HTTP API, "Discovery".

Divergences from the references: `/get_task` and `/get_task_range` (the Tasks & Splits page's names) are served too;
`env_name` stands in every answer with tasks; long task lists are streamed.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from importlib.metadata import version

from django.http import HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase

from environments import wire
from environments.protocol.base import ProtocolView, json_response, text_response
from environments.wire import value_json

VERSION = {"version": version("orsweb"), "build_sha": os.environ.get("ORSWEB_BUILD_SHA")}


class Health(ProtocolView):
    """GET /health; open to all, so that a load balancer needs no key."""

    authenticators = (type("Anybody", (), {"authenticate": lambda *_: None, "authenticate_header": lambda *_: ""})(),)

    async def get(self) -> HttpResponse:
        return text_response('{"status":"ok"}')


class Version(ProtocolView):
    async def get(self) -> HttpResponse:
        return json_response(VERSION)


class ListEnvironments(ProtocolView):
    async def get(self) -> HttpResponse:
        return json_response(self.service.registry.names)


class Tools(ProtocolView):
    async def get(self) -> HttpResponse:
        return text_response(self.hosted.tools_json)


class Splits(ProtocolView):
    async def get(self) -> HttpResponse:
        return json_response([split.model_dump() for split in await self.service.tasks.splits(self.hosted.name)])


class Tasks(ProtocolView):
    """POST …/tasks `{split}`: every task of a split, in order."""

    async def post(self) -> HttpResponseBase:
        split = self.body(wire.ListTasks).split
        chunks = self.service.tasks.tasks(self.hosted.name, split)
        first = await anext(chunks, [])  # refusals come before the first byte
        return StreamingHttpResponse(_task_list(first, chunks, self.env_name), content_type="application/json")


class NumTasks(ProtocolView):
    async def post(self) -> HttpResponse:
        split = self.body(wire.NumTasks).split
        return json_response({"num_tasks": await self.service.tasks.count(self.hosted.name, split)})


class Task(ProtocolView):
    async def post(self) -> HttpResponse:
        request = self.body(wire.GetTask)
        task = await self.service.tasks.get(self.hosted.name, request.split, request.index)
        return text_response(f'{{"task":{task},"env_name":{value_json(self.env_name)}}}')


class TaskRange(ProtocolView):
    async def post(self) -> HttpResponse:
        request = self.body(wire.GetTaskRange)
        tasks = await self.service.tasks.range(self.hosted.name, request.split, request.start, request.stop)
        return text_response(f'{{"tasks":[{",".join(tasks)}],"env_name":{value_json(self.env_name)}}}')


async def _task_list(first: list[str], rest: AsyncIterator[list[str]], env_name: str) -> AsyncIterator[bytes]:
    yield b'{"tasks":[' + ",".join(first).encode("ascii")
    async for chunk in rest:
        yield b"," + ",".join(chunk).encode("ascii")
    yield b'],"env_name":' + value_json(env_name).encode("ascii") + b"}"
