"""The implementation of `checked_environment.py` for an environment on any server, with the same
requests as the clients of both SDKs.

Requests run on threads of the pool and use the standard library, so that authors need not install
an HTTP client.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from environments.checking.checked_environment import (
    Broken,
    CallAnswer,
    RequestRefused,
    Sample,
    TimeLimit,
)
from environments.checking.http import Client, Reply
from environments.runtime.ids import new_task_id
from environments.runtime.threads import ThreadPool
from environments.runtime.usercode import UserCode

T = TypeVar("T")

STREAM = {"Accept": "text/event-stream"}
_UNSUPPORTED = "list_tasks is not supported"


class RemoteEnvironment:
    """An environment on a server. It has to be created on the event loop that uses it.

    `name` is empty until `check_reach` has found an environment.
    """

    def __init__(
        self,
        url: str,
        environment: str | None,
        headers: Mapping[str, str],
        limit: TimeLimit,
        secrets: Mapping[str, str],
    ) -> None:
        self.name = environment or ""
        self._client = Client(url, headers, limit.seconds)
        self._limit, self._secrets = limit, dict(secrets)
        self._pool = ThreadPool()
        self._code = UserCode(self._pool)

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] = {},
        *,
        what: str = "",
    ) -> Reply:
        """Return the response, whatever its status; `what` names the request in messages.

        Raises: Broken when there is none.
        """
        what = what or f"{method} {path}"
        asking = self._code.call(
            self._client.request, method, path, body, dict(headers), passing=(Exception,)
        )
        try:
            return await self._limit.within(what, asking)
        except (OSError, ValueError) as error:
            raise Broken(
                f"{what} has no valid response: {type(error).__name__}: {error}."
            ) from error

    async def stream(
        self, path: str, body: Any, headers: Mapping[str, str], *, what: str = ""
    ) -> Reply:
        """Return a response with the events of its stream. Raises: Broken unless its status is
        200."""
        reply = await self.request("POST", path, body, headers, what=what)
        if reply.status != 200:
            raise Broken(f"POST {path} was answered with status {reply.status}: {reply.detail}.")
        return reply

    async def ask(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] = {}
    ) -> Any:
        """Return the value of a response with status 200. Raises: RequestRefused for 4xx, else
        Broken."""
        reply = await self.request(method, path, body, headers)
        if 400 <= reply.status < 500:
            raise RequestRefused(
                f"{method} {path} was refused with status {reply.status}: {reply.detail}"
            )
        if reply.status != 200:
            raise Broken(
                f"{method} {path} was answered with status {reply.status}: {reply.detail}."
            )
        return reply.value

    async def tools(self) -> dict[str, Any]:
        return _typed(dict, await self.ask("GET", f"/{self.name}/tools"), "/tools")

    async def splits(self) -> list[dict[str, Any]]:
        splits: list[dict[str, Any]] = await self.ask("GET", f"/{self.name}/splits")
        return splits

    async def tasks(self, split: str) -> list[Any] | None:
        try:
            answer = await self.ask("POST", f"/{self.name}/tasks", {"split": split})
        except RequestRefused as refusal:
            if _UNSUPPORTED in str(refusal):
                return None
            raise
        return _typed(list, answer, "/tasks", "tasks")

    async def count(self, split: str) -> int:
        answer = await self.ask("POST", f"/{self.name}/num_tasks", {"split": split})
        if (count := _typed(int, answer, "/num_tasks", "num_tasks")) < 0:
            raise Broken(
                f"/num_tasks returned {count!r} for split {split!r}; it has to be 0 or more."
            )
        return count

    async def task(self, split: str, index: int) -> Any:
        answer = await self.ask("POST", f"/{self.name}/task", {"split": split, "index": index})
        return _typed(object, answer, "/task", "task")

    async def task_range(self, split: str, start: int | None, stop: int | None) -> list[Any]:
        body = {"split": split, "start": start, "stop": stop}
        answer = await self.ask("POST", f"/{self.name}/task_range", body)
        return _typed(list, answer, "/task_range", "tasks")

    async def open(self, sample: Sample, *, with_setup: bool = True) -> RemoteSeat:
        """Open a session for the content of a task, as `session(task)` of the clients does; the
        server sets it up."""
        sid = await self.new_session()
        body: dict[str, Any] = {"env_name": self.name, "task_spec": sample.task}
        if self._secrets:
            body["secrets"] = self._secrets
        await self.ask("POST", "/create", body, {"X-Session-ID": sid})
        return RemoteSeat(self, sid)

    def shut(self) -> None:
        self._pool.close()

    async def new_session(self) -> str:
        """Return a new session id, from a response that is JSON or a stream whose first event has
        the id."""
        reply = await self.stream("/create_session", {}, STREAM)
        data = reply.events[-1][1] if reply.events else ""
        answer = _parsed(data) if data else reply.value
        sid = answer.get("sid") if isinstance(answer, dict) else None
        sid = sid or next((data for event, data in reply.events if event == "task_id"), None)
        if not sid:
            raise Broken(
                'POST /create_session returned no session id; answer with {"sid": …} or a '
                "task_id event."
            )
        return str(sid)


class RemoteSeat:
    def __init__(self, environment: RemoteEnvironment, sid: str) -> None:
        self._door, self.headers = environment, {"X-Session-ID": sid}

    async def prompt(self) -> Any:
        return await self._door.ask("GET", f"/{self._door.name}/prompt", None, self.headers)

    async def tools(self) -> dict[str, Any]:
        answer = await self._door.ask("GET", f"/{self._door.name}/task_tools", None, self.headers)
        return _typed(dict, answer, "/task_tools")

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> CallAnswer:
        answer, _ = await self.call_with({"name": tool, "input": dict(arguments)})
        return answer

    async def call_with(self, body: Mapping[str, Any]) -> tuple[CallAnswer, Reply]:
        """Return the result of a call with `body`, and the response with the events of its
        stream."""
        what, headers = f"Tool {body['name']!r}", {**self.headers, **STREAM}
        reply = await self._door.stream(f"/{self._door.name}/call", body, headers, what=what)
        return _answer(reply), reply

    async def score(self, candidates: list[dict[str, Any]]) -> Any:
        body, headers = {"candidates": candidates}, {**self.headers, **STREAM}
        reply = await self._door.stream(f"/{self._door.name}/score_group", body, headers)
        if _ending(reply) == "error":
            raise Broken(f"POST /score_group failed: {reply.events[-1][1]}.")
        return _parsed(_text(reply))

    async def close(self) -> None:
        await self._door.ask("POST", "/delete", {}, self.headers)
        await self._door.ask("POST", "/delete_session", {}, self.headers)


def new_name() -> str:
    """Return a name or id that no server has."""
    return f"unknown-{new_task_id()}"


def _answer(reply: Reply) -> CallAnswer:
    """Return the result of a call. Raises: Broken."""
    if _ending(reply) == "error":
        return CallAnswer("failed", error=reply.events[-1][1])
    text = _text(reply)
    result = _parsed(text)
    if not isinstance(result, dict) or not isinstance(result.get("ok"), bool):
        raise Broken(
            f"A tool's result is {text[:80]!r}; it has to be an object with ok true or false."
        )
    if result["ok"]:
        return CallAnswer("ok", _typed(dict, result.get("output"), "/call"))
    return CallAnswer(
        "refused", error=str(result.get("error", "")), reason=str(result.get("reason") or "")
    )


def _ending(reply: Reply) -> str:
    """Return the name of the last event. Raises: Broken when it is neither `end` nor `error`."""
    if not reply.events or reply.events[-1][0] not in ("end", "error"):
        raise Broken("A stream ended without an end or an error event.")
    return reply.events[-1][0]


def _text(reply: Reply) -> str:
    return "".join(data for event, data in reply.events if event in ("chunk", "end"))


def _parsed(text: str) -> Any:
    """Parse the data of a stream. Raises: Broken."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise Broken(f"The data of a stream is not JSON ({error}): {text[:80]!r}.") from error


def _typed(kind: type[T], answer: Any, path: str, name: str = "") -> T:
    """Return the answer, or its member `name`, if it is of the kind. Raises: Broken."""
    if name and (not isinstance(answer, dict) or name not in answer):
        raise Broken(f"The answer of {path} has no {name!r}.")
    value = answer[name] if name else answer
    if not isinstance(value, kind):
        what = f"{name!r} of the answer of {path}" if name else f"The answer of {path}"
        raise Broken(f"{what} is {type(value).__name__}, not {kind.__name__}.")
    return value
