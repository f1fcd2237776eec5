"""The contract between live play and whatever runs environments.

Live play (`session_life.py`, `call_execution.py`, `task_trial.py`) opens an instance for each session
and keeps it with the session, so that a tool call costs no lookup. Only plain data crosses the
contract: tasks and results as JSON values or text, failures as EnvironmentFault.
`local_host.py` plays classes of this process behind it, `environments/hosts` what runs in worker
processes and on other servers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from environments import wire
from environments.authoring.hosted_environment import EnvironmentTasks
from environments.runtime.call_outcome import CallOutcome


class PlayedInstance(Protocol):
    """What plays one session: created empty, constructed for a task, called, and closed exactly
    once.

    `construct` comes first and `close` last; if `construct` raises or is cancelled, only `close`
    may follow. Every method runs the environment's code, wherever that is, and may raise
    EnvironmentFault. Failures that the host itself detects, such as a connection that is lost, are
    EnvironmentFaults too, whose text says where and what.
    """

    async def construct(self, spec: Any, secrets: dict[str, str], toolset: str | None) -> bool:
        """Create the instance for the task `spec`; return whether it needs `set_up`. Raises:
        InvalidRequest."""

    async def set_up(self) -> None:
        """Run the author's setup."""

    async def restore(self, state: bytes) -> None:
        """Go on from a snapshot (`CallOutcome.snapshot`) of another instance of a class that
        `saves`, after setup."""

    async def prompt_json(self) -> str:
        """Return the prompt as a JSON array of blocks."""

    async def messages_json(self) -> str:
        """Return the prompt as a JSON array of messages."""

    async def task_tools_json(self) -> str:
        """Return the tools of this session as JSON of ListToolsOutput. May be called before
        `set_up` has ended."""

    async def run(self, tool: str, arguments: wire.JSONObject, /) -> CallOutcome:
        """Run one tool call and return its outcome, which may be a refusal or a failure.

        It waits as long as the call takes, within `tool_timeout_seconds`; while it does, live play
        sends comments to the agent. A cancellation stops the call as far as possible. Raises only
        asyncio.CancelledError.
        """

    async def score(self, candidates: list[wire.GroupCandidate]) -> str:
        """Return JSON `{"scores": [...]}` with one score for each candidate, in their order."""

    async def close(self) -> None:
        """Tear the instance down, within `close_wait_seconds`.

        Raises: EnvironmentFault when that failed; the instance is gone nevertheless.
        """


def ignore_loss(instance: PlayedInstance, reason: str) -> None:
    """Do nothing: the next request about the instance says that it is gone."""


class Host(Protocol):
    """Runs environments. Whether one can be played now is part of its description
    (`HostedEnvironment.unavailable`)."""

    on_loss: Callable[[PlayedInstance, str], None]
    """Set by live play; called when an instance is gone that was not closed, with a sentence that
    says why."""

    def instance(self, environment: str) -> PlayedInstance:
        """Return a new instance, without running code of the environment. Raises:
        UnknownEnvironment."""

    def tasks(self, environment: str) -> EnvironmentTasks:
        """Return the tasks of an environment, read from the environment. Raises:
        UnknownEnvironment."""

    async def keep_alive(self) -> None:
        """Keep alive what the host's instances need, until cancelled; return at once if they need
        nothing."""

    async def close(self) -> None:
        """Release what the host holds besides instances. Called when all instances have been
        closed."""
