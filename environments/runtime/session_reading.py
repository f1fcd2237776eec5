"""What agents read of a session: its prompt and its tools. SessionService answers these questions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable

from environments.errors import EnvironmentFault
from environments.runtime.crash_notes import RunningCalls
from environments.runtime.fault_log import log_fault
from environments.runtime.limits import Limits
from environments.runtime.live_episode import LiveEpisode
from environments.runtime.records import Record
from environments.runtime.returning_sessions import ReturningSessions
from environments.runtime.session_checks import check_alive, check_path


class SessionReading:
    """The part of SessionService that reads sessions and changes none."""

    limits: Limits
    _sessions: ReturningSessions
    _record: Record
    _running: RunningCalls

    async def _enter(self, sid: str, owner: str, path_environment: str | None) -> LiveEpisode:
        """Return the live session, bound to an environment and marked as used."""
        episode = self._sessions.find(sid, owner)
        check_path(episode, path_environment)
        episode.last_used = time.monotonic()
        if episode.state == "dormant":
            await self._sessions.wake(episode)
        await self._sessions.bind_late(episode, path_environment)
        check_alive(episode)
        check_path(episode, path_environment)  # another request may have bound it in the meantime
        return episode

    def is_live(self, sid: str) -> bool:
        """Return whether this server has the session, no matter which client opened it."""
        return sid in self._sessions.live

    def is_suspended(self, sid: str) -> bool:
        """Return whether this server has ended the session, and the next one goes on with it."""
        return sid in self._sessions.suspended

    def environment_of(self, sid: str, owner: str) -> str:
        """Return the name of the environment that the session plays; empty until it is bound to one."""
        return self._sessions.find(sid, owner).environment

    def remaining_seconds(self, sid: str, owner: str) -> float:
        """Return the time until the session expires if it is not used; it does not expire while a call runs."""
        episode = self._sessions.find(sid, owner)
        idle = 0.0 if episode.calls.running else time.monotonic() - episode.last_used
        return max(0.0, self.limits.session_timeout_seconds - idle)

    async def prompt_json(self, sid: str, owner: str, path_environment: str | None) -> str:
        """Return the prompt as a JSON array of blocks. Raises: EnvironmentFault, SessionDeleted, SessionStarting."""
        episode = await self._enter(sid, owner, path_environment)
        await self._sessions.until_ready(episode, self.limits.setup_wait_seconds)
        prompt = await self._read(episode, "prompt", episode.get_instance().prompt_json())
        self._note(episode, prompt_json=prompt)
        return prompt

    async def messages_json(self, sid: str, owner: str, path_environment: str | None) -> str:
        """Return the prompt as a JSON array of messages. Raises: EnvironmentFault, SessionDeleted, SessionStarting."""
        episode = await self._enter(sid, owner, path_environment)
        await self._sessions.until_ready(episode, self.limits.setup_wait_seconds)
        messages = await self._read(episode, "prompt", episode.get_instance().messages_json())
        self._note(episode, prompt_json=messages)
        return messages

    async def task_tools_json(self, sid: str, owner: str, path_environment: str | None) -> str:
        """Return the session's tools as JSON of ListToolsOutput; does not wait for setup. Raises: EnvironmentFault."""
        episode = await self._enter(sid, owner, path_environment)
        tools = await self._read(episode, "task tools", episode.get_instance().task_tools_json())
        self._note(episode, tools_json=tools)
        return tools

    async def until_recorded(self) -> None:
        """Wait until everything that was reported so far is durable, such as the tools that an agent has just got."""
        durable = asyncio.Event()
        self._record.record(committed=durable.set)
        await durable.wait()

    def _note(self, episode: LiveEpisode, *, prompt_json: str | None = None, tools_json: str | None = None) -> None:
        """Record what was sent to the agent, without waiting: the row is durable before the episode's next step."""
        if (note := episode.noted_row(prompt_json=prompt_json, tools_json=tools_json)) is not None:
            self._record.record(note)

    async def _read(self, episode: LiveEpisode, what: str, answer: Awaitable[str]) -> str:
        """Return what the environment answers. A fault is logged, and stored as the cause of an end right after it.

        Raises: EnvironmentFault without the session's secrets.
        """
        try:
            with self._running.note(episode.number, episode.environment, what):
                text = await answer
        except EnvironmentFault as fault:
            log_fault(f"{what} failed", episode, fault)
            episode.note_reading(what, fault)
            raise episode.masked(fault) from None
        episode.note_reading(what, None)
        return text
