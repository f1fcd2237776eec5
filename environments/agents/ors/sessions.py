"""The endpoints of sessions: create_session, create, ping, delete, prompt, messages and task_tools.

Source: Open Reward Standard, HTTP API, "Sessions".

Divergences from the references: /create_session answers JSON unless the client accepts an event
stream; secrets are read from the body and from X-Secrets (the body wins); secrets named `orsweb_…`
describe the run and are not passed to the environment.
"""

from __future__ import annotations

from environments import wire
from environments.agents.http.response import Response, json_response, text_response
from environments.agents.http.secrets_and_run import (
    run_headers,
    run_info,
    secrets_in,
    take_run_fields,
)
from environments.agents.http.view import ProtocolView
from environments.agents.ors import sse
from environments.agents.ors.tasks_for_key import resolved
from environments.errors import Forbidden
from environments.keys.agent_key import CURATE, sent_key
from environments.runtime.ids import new_session_id
from environments.runtime.session_request import SessionRequest
from environments.wire import value_json


class CreateSessionView(ProtocolView):
    """POST /create_session: a new session id. Nothing is stored, and the body is ignored."""

    over_quota = "wait"

    async def post(self) -> Response:
        sid = new_session_id()
        if "text/event-stream" not in self.http_request.META.get("HTTP_ACCEPT", ""):
            return json_response({"sid": sid})
        return sse.response(sse.event("task_id", sid) + sse.event("end", value_json({"sid": sid})))


class Create(ProtocolView):
    """POST /create: start an episode."""

    over_quota = "wait"

    def check_session(self) -> None:
        self.session_id()

    async def post(self) -> Response:
        message, sid = self.read_body(wire.CreateSession), self.session_id()
        request = await resolved(
            self._request(sid, message), self.service.tasks, self.key, self.service.registry
        )
        self._check_task(request)
        await self.service.create(request)
        return json_response({"sid": sid})

    def _request(self, sid: str, message: wire.CreateSession) -> SessionRequest:
        meta = self.http_request.META
        secrets = {**secrets_in(meta.get("HTTP_X_SECRETS", "")), **(message.secrets or {})}
        run_fields = take_run_fields(secrets)
        environments = self.key.environments
        if self.key.hidden_environments:
            environments = frozenset(self.key.among(self.service.registry.names))
        return SessionRequest(
            sid=sid,
            owner=self.owner,
            environment=self._environment(message),
            allowed_environments=environments,
            spec=message.task_spec,
            split=message.split,
            index=message.index,
            secrets=secrets,
            masked_texts=(*secrets.values(), sent_key(meta)),
            sent_key=sent_key(meta),
            toolset=message.toolset_name,
            user_agent=meta.get("HTTP_USER_AGENT", "")[:300],
            usage=self.key.usage,
            reads_tasks=self.key.may(CURATE),
            run=run_info(run_headers(meta) | run_fields, self.key),
            can_return=True,
        )

    def _check_task(self, request: SessionRequest) -> None:
        """Check that the key may play the task. Raises: Forbidden."""
        if request.split is not None:
            self.key.check_split(request.split)
        elif self.key.splits is not None:
            raise Forbidden(
                f"The API key {self.owner!r} may use some splits only, so it opens tasks by split "
                "and index, not by task_spec"
            )

    def _environment(self, message: wire.CreateSession) -> str | None:
        """Return the environment to play; None if several are hosted, so that the session's first
        path has to name one."""
        default = self.default
        if message.env_name is not None:
            return self.find_environment(message.env_name).name
        if self.deployment is not None:
            return self.deployment.name
        names = [
            name for name in self.service.registry.names if name not in self.key.hidden_environments
        ]
        return None if message.task_spec is None and len(names) > 1 else default.name


class Ping(ProtocolView):
    over_quota = "answer"

    async def post(self) -> Response:
        self.service.ping(self.session_id(), self.owner)
        return text_response('{"status":"ok"}')


class Delete(ProtocolView):
    """POST /delete and /delete_session: end the episode. Unknown ids get the same response."""

    over_quota = "answer"

    async def post(self) -> Response:
        sid = self.session_id()
        await self.service.delete(sid, self.owner)
        return json_response({"sid": sid})


class Prompt(ProtocolView):
    over_quota = "wait"
    is_of_session = True

    async def get(self) -> Response:
        return text_response(
            await self.service.prompt_json(self.session_id(), self.owner, self.path_environment)
        )


class Messages(ProtocolView):
    over_quota = "wait"
    is_of_session = True

    async def get(self) -> Response:
        return text_response(
            await self.service.messages_json(self.session_id(), self.owner, self.path_environment)
        )


class TaskTools(ProtocolView):
    over_quota = "wait"
    is_of_session = True

    async def get(self) -> Response:
        return text_response(
            await self.service.task_tools_json(self.session_id(), self.owner, self.path_environment)
        )
