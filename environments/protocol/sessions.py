"""The endpoints of sessions: create_session, create, ping, delete, prompt, messages and task_tools.

Source: Open Reward Standard, HTTP API, "Sessions".

Divergences from the references: /create_session answers JSON unless the client accepts an event stream; secrets are
read from the body and from X-Secrets (the body wins); secrets named `orsweb_…` describe the run and are not passed to
the environment.
"""

from __future__ import annotations

import base64
import binascii
import json

from environments import wire
from environments.errors import InvalidRequest
from environments.protocol import sse
from environments.protocol.errors import Unprocessable
from environments.protocol.response import Response, json_response, text_response
from environments.protocol.view import ProtocolView, utf8
from environments.runtime.ids import new_session_id
from environments.runtime.live_episode import NewSession
from environments.runtime.records import RunInfo
from environments.wire import value_json

RUN_PREFIX = "orsweb_"
"""First part of the names of secrets that describe the run."""


class CreateSessionView(ProtocolView):
    """POST /create_session: a new session id. Nothing is stored, and the body is ignored."""

    async def post(self) -> Response:
        sid = new_session_id()
        if "text/event-stream" not in self.http_request.META.get("HTTP_ACCEPT", ""):
            return json_response({"sid": sid})
        return sse.whole_response(sse.event("task_id", sid) + sse.event("end", value_json({"sid": sid})))


class Create(ProtocolView):
    """POST /create: start an episode."""

    async def post(self) -> Response:
        message = self.read(wire.CreateSession)
        sid = self.session_id()
        if isinstance(message, Unprocessable):
            raise message
        await self.service.create(self._request(sid, message))
        return json_response({"sid": sid})

    def _request(self, sid: str, message: wire.CreateSession) -> NewSession:
        meta = self.http_request.META
        secrets = {**_header_secrets(meta.get("HTTP_X_SECRETS", "")), **(message.secrets or {})}
        run_fields = {name: secrets.pop(name) for name in list(secrets) if name.startswith(RUN_PREFIX)}
        return NewSession(
            sid=sid,
            owner=self.owner,
            environment=self._environment(message),
            spec=message.task_spec,
            split=message.split,
            index=message.index,
            secrets=secrets,
            masked=(*secrets.values(), meta.get("HTTP_X_API_KEY", "")),
            toolset=message.toolset_name,
            user_agent=meta.get("HTTP_USER_AGENT", "")[:300],
            run=_run_info(run_fields, utf8(meta.get("HTTP_X_RUN", ""), "X-Run")),
        )

    def _environment(self, message: wire.CreateSession) -> str | None:
        """Return the environment to play; None if several are hosted and the session's first path has to name one."""
        registry = self.service.registry
        if message.env_name is not None:
            return registry.get(message.env_name).name
        if self.deployment is not None:
            return self.deployment.name
        return None if message.task_spec is None and len(registry) > 1 else registry.default.name


def _header_secrets(header: str) -> dict[str, str]:
    """Return the secrets in X-Secrets, base64 of `{name: {"value": string, …}}`.

    Raises: InvalidRequest, whose message shows nothing of the header.
    """
    if not header:
        return {}
    try:
        secrets: dict[str, str] = {
            name: secret["value"] for name, secret in json.loads(base64.b64decode(header, validate=True)).items()
        }
    except (binascii.Error, ValueError, AttributeError, KeyError, TypeError, RecursionError):
        secrets = {"": None}  # type: ignore[dict-item]
    if not all(isinstance(value, str) for value in secrets.values()):
        raise InvalidRequest('X-Secrets must be base64 of a JSON object {name: {"value": string}}')
    return secrets


def _run_info(run_fields: dict[str, str], header: str) -> RunInfo:
    """Return the run that the header X-Run and the secrets named `orsweb_…` describe. Raises: InvalidRequest."""
    values = {name.removeprefix(RUN_PREFIX): value for name, value in run_fields.items()}
    name = values.pop("run", "").strip() or header.strip()
    step, model = values.pop("step", "").strip(), values.pop("model", "").strip()
    for field, text in (("run", name), ("model", model)):
        if len(text) > 200:
            raise InvalidRequest(f"The {field}'s name has {len(text)} characters; at most 200 are allowed")
    return RunInfo(name, _whole_number(step), model, value_json(values) if values else "")


def _whole_number(text: str) -> int | None:
    if not text:
        return None
    try:
        number = int(text)
    except ValueError:
        number = 2**62
    if abs(number) >= 2**62:
        raise InvalidRequest(f"orsweb_step is {text[:40]!r}; it must be a whole number")
    return number


class Ping(ProtocolView):
    async def post(self) -> Response:
        self.service.ping(self.session_id(), self.owner)
        return text_response('{"status":"ok"}')


class Delete(ProtocolView):
    """POST /delete and /delete_session: end the episode. The response is the same for unknown ids."""

    async def post(self) -> Response:
        sid = self.session_id()
        await self.service.delete(sid, self.owner)
        return json_response({"sid": sid})


class Prompt(ProtocolView):
    async def get(self) -> Response:
        return text_response(await self.service.prompt_json(self.session_id(), self.owner, self.path_environment))


class Messages(ProtocolView):
    async def get(self) -> Response:
        return text_response(await self.service.messages_json(self.session_id(), self.owner, self.path_environment))


class TaskTools(ProtocolView):
    async def get(self) -> Response:
        return text_response(await self.service.task_tools_json(self.session_id(), self.owner, self.path_environment))
