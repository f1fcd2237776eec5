"""A session of another server, behind the contract of `runtime/host.py`: one session here is one
session there.

Divergences from what the clients of the SDKs do: a call of which nothing was answered is not sent
again, because the tool may have run; a result is checked more strictly, so that a reward is always
a finite number or null; a listed tool that the server then does not know is its failure, not the
agent's.
"""

from __future__ import annotations

import asyncio
import base64
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ValidationError

from environments import wire
from environments.authoring.messages import as_messages
from environments.errors import REMOTE_ERROR, EnvironmentFault, InvalidRequest, shorten
from environments.hosts.event_stream import StreamEnd
from environments.hosts.remote_environment import HostedRemote, read_tools
from environments.hosts.remote_server import (
    JSON_HEADERS,
    STREAM_HEADERS,
    RemoteFault,
    RemoteServer,
    encoded,
    parsed,
)
from environments.runtime.author_errors import text_of
from environments.runtime.call_outcome import (
    UNSTATED,
    CallOutcome,
    failed,
    faulted,
    refused,
    refused_after_end,
)
from environments.runtime.instance import scores_json

PING_SECONDS = 20.0
"""Interval of pings of a session without other requests. The specification lets sessions expire
after 15 minutes; both SDKs ping every 10 s."""
MAX_HEADER_CHARACTERS = 16_384
"""Longest header with secrets that is sent; servers refuse requests with longer ones."""
GONE = frozenset((404, 410))
"""Statuses that say that a session is unknown or was deleted."""
_OUTPUT_KEYS = ("blocks", "metadata", "reward", "finished")
_PREFIXES = {
    "Tool input validation error": "input_validation",
    "Tool name collision": "name_collision",
}
_REASONS = frozenset(("not_found", "name_collision", "input_validation", "episode_finished"))


class RemoteInstance:
    """One session of another server. `on_close` is called when it is closed."""

    __slots__ = (
        "_environment",
        "_headers",
        "_is_finished",
        "_lost",
        "_on_close",
        "_server",
        "_tools",
        "_was_ready",
        "last_request",
    )

    def __init__(
        self,
        environment: HostedRemote,
        server: RemoteServer,
        on_close: Callable[[RemoteInstance], None],
    ) -> None:
        self._environment, self._server, self._on_close = environment, server, on_close
        self._headers: dict[str, str] | None = None  # those of the session, once it has an id
        self._is_finished = False
        self._was_ready = False  # whether something was answered that waits for the setup there
        self._lost = ""  # why the session is gone there, once that is known
        self._tools: frozenset[str] | None = None  # the names that were listed to the agent
        self.last_request = 0.0

    # --- life -------------------------------------------------------------------------------------

    async def construct(self, spec: Any, secrets: dict[str, str], toolset: str | None) -> bool:
        """Open the session. Its setup is waited for by what needs it, so this returns False.

        Raises: RemoteFault; InvalidRequest when the server refuses the toolset.
        """
        answer = await self._server.ask("POST", "/create_session", None, STREAM_HEADERS)
        sid = _session_id(answer)
        if not sid or not sid.isascii() or not sid.isprintable():
            raise RemoteFault(
                f"{self._server.url.server} answered POST /create_session without a session id"
            )
        self._headers = {"X-Session-ID": sid}
        values: dict[str, Any] = {"env_name": self._server.url.env_name, "task_spec": spec}
        if toolset is not None:
            values["toolset_name"] = toolset
        try:
            await self._create(values, secrets)
        except RemoteFault as fault:
            if toolset is not None and fault.status in (400, 422):
                raise InvalidRequest(fault.text) from None
            raise
        return False

    async def _create(self, values: Mapping[str, Any], secrets: Mapping[str, str]) -> None:
        """Create the session. Secrets go into the body and the header, as servers may forbid one.

        Source: ors-sdk 0.1.0 reads the body only; openreward 0.1.167 reads the header and answers
        422 to the body.
        """
        headers = {**self._session(), **JSON_HEADERS}
        seconds = self._server.limits.setup_wait_seconds
        if not secrets:
            await self._ask("POST", "/create", encoded(values), headers, seconds)
            return
        items = {name: {"value": value, "allowed_domains": []} for name, value in secrets.items()}
        header = base64.b64encode(wire.value_json(items).encode("ascii")).decode("ascii")
        if len(header) <= MAX_HEADER_CHARACTERS:
            headers["X-Secrets"] = header
        try:
            await self._ask(
                "POST", "/create", encoded({**values, "secrets": secrets}), headers, seconds
            )
        except RemoteFault as fault:
            if fault.status != 422:
                raise
            await self._ask("POST", "/create", encoded(values), headers, seconds)

    async def set_up(self) -> None:
        """Do nothing: the other server sets the session up by itself."""

    async def close(self) -> None:
        """End the session there. Raises: RemoteFault, unless it is gone there already."""
        self._on_close(self)
        headers, self._headers = self._headers, None
        if headers is None:
            return
        limit = self._server.limits.close_wait_seconds
        try:
            await self._server.ask("POST", "/delete", None, {**headers, **JSON_HEADERS}, limit)
            await self._server.ask(
                "POST", "/delete_session", None, {**headers, **JSON_HEADERS}, limit
            )
        except RemoteFault as fault:
            if fault.status not in GONE and not self._lost:
                raise

    async def ping(self) -> None:
        """Keep the session from expiring there, or note that it is gone. Other failures are left
        to the next request."""
        try:
            await self._ask("POST", "/ping", None, {**self._session(), **JSON_HEADERS})
        except RemoteFault as fault:
            if fault.status in GONE:
                self._lost = fault.text

    # --- what the agent reads ---------------------------------------------------------------------

    async def restore(self, state: bytes) -> None:
        """Raise EnvironmentFault: another server keeps its snapshots to itself."""
        raise EnvironmentFault(REMOTE_ERROR, "A session of another server has no snapshot.")

    async def prompt_json(self) -> str:
        """Return the prompt as a JSON array of blocks. Raises: RemoteFault."""
        value = await self._read("prompt")
        try:
            return wire.adapted_json(wire.BLOCKS, wire.BLOCKS.validate_python(value))
        except ValidationError as error:
            raise RemoteFault(
                f"{self._server.url} sent a prompt that is not valid: {text_of(error)}"
            ) from None

    async def messages_json(self) -> str:
        """Return the prompt as a JSON array of messages; ors-sdk 0.1.0 has blocks only. Raises:
        RemoteFault."""
        try:
            value = await self._read("messages")
        except RemoteFault as fault:
            if fault.status != 404:
                raise
            prompt = wire.BLOCKS.validate_json(await self.prompt_json())
            return wire.adapted_json(wire.MESSAGES, as_messages(prompt))
        try:
            return wire.adapted_json(wire.MESSAGES, wire.MESSAGES.validate_python(value))
        except ValidationError as error:
            raise RemoteFault(
                f"{self._server.url} sent messages that are not valid: {text_of(error)}"
            ) from None

    async def task_tools_json(self) -> str:
        """Return the tools of this session as JSON of ListToolsOutput. Raises: RemoteFault."""
        try:
            value = await self._read("task_tools")
        except RemoteFault as fault:
            if fault.status != 404:
                raise
            value = await self._read("tools")  # both SDKs' clients do this too
        listing = read_tools(self._server, value)
        self._tools = frozenset(tool.name for tool in listing.tools)
        return wire.model_json(listing)

    async def _read(self, name: str) -> Any:
        headers = {**self._session(), **JSON_HEADERS}
        value = await self._ask(
            "GET", self._server.path(name), None, headers, self._server.limits.setup_wait_seconds
        )
        self._was_ready = self._was_ready or name in ("prompt", "messages")
        return value

    # --- what the agent does ----------------------------------------------------------------------

    async def run(self, tool: str, arguments: wire.JSONObject, /) -> CallOutcome:
        """Pass one tool call on. Raises only asyncio.CancelledError."""
        if self._is_finished:
            return refused_after_end(tool)
        limit = self._server.limits.tool_timeout_seconds
        try:
            async with asyncio.timeout(limit):
                end = await self._stream("call", {"name": tool, "input": arguments})
            return self._outcome(tool, end)
        except TimeoutError:
            text = (
                f"{tool!r} ran longer than {limit:g} s on {self._server.url} (ORSWEB_TOOL_TIMEOUT)"
            )
            return failed(text, "timeout")
        except EnvironmentFault as fault:
            return faulted(fault)

    async def score(self, candidates: list[wire.GroupCandidate]) -> str:
        """Return JSON `{"scores": [...]}` with one score for each candidate, in their order.
        Raises: RemoteFault."""
        values = {"candidates": [candidate.model_dump() for candidate in candidates]}
        end = await self._stream("score_group", values)
        if end.event == "error":
            raise RemoteFault(f"{self._server.url} couldn't score the group: {end.data}")
        try:
            scores = [wire.GroupScore.model_validate(each) for each in parsed(end.data)["scores"]]
            return scores_json(scores, len(candidates))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            is_invalid = isinstance(error, ValidationError)
            problem = text_of(error) if is_invalid else shorten(str(error), 200)
            raise RemoteFault(
                f"{self._server.url} sent scores that are not valid: {problem}"
            ) from None

    async def _stream(self, name: str, values: Mapping[str, Any]) -> StreamEnd:
        self._check_present()
        self.last_request = time.monotonic()
        headers = {**self._session(), **STREAM_HEADERS}
        try:
            end = await self._server.stream(
                self._server.path(name), values, headers, was_ready=self._was_ready
            )
        except RemoteFault as fault:
            if fault.status in GONE:  # further requests fail at once with the same reason
                self._lost = fault.text
            raise
        self._was_ready = True
        return end

    def _outcome(self, tool: str, end: StreamEnd) -> CallOutcome:
        """Return the outcome that the end of a call's stream describes. Raises: RemoteFault."""
        if end.event == "error":
            return failed(
                f"{self._server.url} reported that {tool!r} failed: {end.data}", REMOTE_ERROR
            )
        try:
            value = parsed(end.data)
        except (ValueError, RecursionError) as error:
            raise self._invalid(
                tool, f"{shorten(end.data, 80)!r} is not valid JSON ({error})"
            ) from None
        if not isinstance(value, dict) or not isinstance(value.get("ok"), bool):
            raise self._invalid(tool, 'it has no "ok" that is true or false')
        if value["ok"]:
            return self._ok(tool, value.get("output"))
        return self._refusal(tool, value)

    def _ok(self, tool: str, value: Any) -> CallOutcome:
        if self._is_finished:  # a call that ran at the same time has ended the episode
            return refused_after_end(tool)
        if not isinstance(value, dict):
            raise self._invalid(tool, "it has no output")
        try:
            fields = {key: value[key] for key in _OUTPUT_KEYS if key in value}
            output = wire.ToolOutput.model_validate(fields, strict=True)
        except ValidationError as error:
            raise self._invalid(tool, text_of(error)) from None
        if isinstance(value.get("reward"), bool) or (
            output.reward is not None and not math.isfinite(output.reward)
        ):
            raise self._invalid(tool, f"reward: {value['reward']!r} is not a finite number or null")
        if not output.blocks:
            output = output.model_copy(update={"blocks": [wire.TextBlock(text="")]})
        self._is_finished = output.finished
        return CallOutcome("ok", wire.model_json(output), output.reward, output.finished)

    def _refusal(self, tool: str, value: Mapping[str, Any]) -> CallOutcome:
        """Return the refusal of a call. Raises: RemoteFault if the server has listed the tool and
        does not know it."""
        error, reason = value.get("error"), value.get("reason")
        if not isinstance(error, str):
            raise self._invalid(tool, "it is a refusal without a text")
        if reason not in _REASONS:  # ors-sdk 0.1.0 sends none
            default = "not_found" if f"{tool!r} is not a valid tool" in error else UNSTATED
            prefixes = (name for start, name in _PREFIXES.items() if error.startswith(start))
            reason = next(prefixes, default)
        tools = self._tools
        if tools is None and (description := self._environment.described) is not None:
            tools = frozenset(tool.name for tool in description.tools.tools)
        if reason == "not_found" and tool in (tools or ()):
            raise RemoteFault(
                f"{self._server.url} lists the tool {tool!r}, but refused its call: {error}"
            )
        return refused(error or reason, reason)

    def _invalid(self, tool: str, problem: str) -> RemoteFault:
        return RemoteFault(
            f"{self._server.url} answered the call of {tool!r} with an invalid result: {problem}"
        )

    # --- requests ---------------------------------------------------------------------------------

    def _session(self) -> dict[str, str]:
        if self._headers is None:
            raise RemoteFault(f"{self._server.url.server} was not asked: the session has ended")
        return self._headers

    def _check_present(self) -> None:
        if self._lost:
            raise RemoteFault(f"{self._server.url} lost the session: {self._lost}")

    async def _ask(
        self,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str],
        seconds: float | None = None,
    ) -> Any:
        self._check_present()
        self.last_request = time.monotonic()
        return await self._server.ask(method, path, body, headers, seconds)


def _session_id(answer: Any) -> str:
    """Return the id in the answer to POST /create_session: JSON with `sid`, or events."""
    if isinstance(answer, list):
        data = dict(answer)
        try:
            answer = parsed(data.get("end", ""))
        except (ValueError, RecursionError):
            answer = None
        sid = answer.get("sid") if isinstance(answer, dict) else None
        return str(sid or data.get("task_id", ""))
    return str(answer.get("sid") or "") if isinstance(answer, dict) else ""
