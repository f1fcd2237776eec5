"""The order of the tool calls of an instance, and which of them may overlap.

Calls of one tool run one after another unless it is concurrent. A call of an exclusive or terminal
tool waits for all running calls and holds back those that come after it. First come, first served.

Source: openreward 0.1.167, `_ExclusiveGate`.
"""

from __future__ import annotations

import asyncio
from collections import deque

from environments.authoring.tools import Tool


class ToolQueue:
    """Admits the tool calls of one instance. On the event loop only; `leave` must follow every
    completed `enter`."""

    __slots__ = ("_has_lone", "_running", "_waiting")

    def __init__(self) -> None:
        self._running: dict[str, int] = {}  # tool name -> calls running
        self._has_lone = False  # whether an exclusive call runs, which is then the only one
        self._waiting: deque[tuple[Tool, asyncio.Future[None]]] | None = None

    async def enter(self, tool: Tool) -> None:
        """Wait until a call of `tool` may run."""
        if self._may_start(tool) and not any(other.runs_alone for other, _ in self._waiting or ()):
            self._start(tool)
            return
        turn = asyncio.get_running_loop().create_future()
        if self._waiting is None:
            self._waiting = deque()
        self._waiting.append((tool, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave(tool)
            else:
                self._waiting.remove((tool, turn))
                self._advance()  # a cancelled exclusive call may have held others back
            raise

    def leave(self, tool: Tool) -> None:
        """End a call of `tool`, and admit the calls that waited for it."""
        remaining = self._running[tool.name] - 1
        if remaining:
            self._running[tool.name] = remaining
        else:
            del self._running[tool.name]
        self._has_lone = False
        if self._waiting:
            self._advance()

    def _may_start(self, tool: Tool) -> bool:
        if self._has_lone or (tool.runs_alone and self._running):
            return False
        return tool.concurrent or tool.name not in self._running

    def _start(self, tool: Tool) -> None:
        self._running[tool.name] = self._running.get(tool.name, 0) + 1
        self._has_lone = tool.runs_alone

    def _advance(self) -> None:
        waiting: deque[tuple[Tool, asyncio.Future[None]]] = deque()
        is_held = False
        for tool, turn in self._waiting or ():
            if not is_held and not turn.done() and self._may_start(tool):
                self._start(tool)
                turn.set_result(None)
            else:
                waiting.append((tool, turn))
            is_held = is_held or tool.runs_alone
        self._waiting = waiting
