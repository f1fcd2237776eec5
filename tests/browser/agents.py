"""Agents: sessions of `echo`, driven over the wire while a page is open, for browser tests of the
replay."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from tests.server import LiveServer


class Agent:
    """A session of `echo` that a client plays."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http

    def ask(self) -> None:
        """Request the prompt."""
        self._http.get("/echo/prompt").raise_for_status()

    def call(self, tool: str, text: str = "hi") -> None:
        self._http.post(
            "/echo/call", json={"name": tool, "input": {"text": text}}
        ).raise_for_status()

    def say(self, rollout: str, first: int, *messages: tuple[str, str, str]) -> None:
        """Upload messages from index `first` on: type, name of the tool or empty, and content of
        each."""
        start = {
            **{"eventType": "rollout", "eventId": rollout, "timestamp": 1, "runName": "uploaded"},
            **{
                "rolloutName": rollout,
                "environment": "local/echo",
                "metadata": {"session_id": "replayed"},
            },
        }
        events = [
            {
                **{
                    "eventType": "message",
                    "eventId": f"{rollout}-{index}",
                    "rolloutEventId": rollout,
                    "index": index,
                },
                **{
                    "timestamp": 1,
                    "type": kind,
                    "name": name,
                    "content": content,
                    "isFinished": False,
                },
            }
            for index, (kind, name, content) in enumerate(messages, first)
        ]
        self._http.post("/v1/rollouts", json={"events": [start, *events]}).raise_for_status()


@contextmanager
def playing(live: LiveServer, goal: str = "talk", run: str | None = None) -> Iterator[Agent]:
    """Play a session that ends with the block. `goal` distinguishes tasks."""
    with httpx.Client(base_url=live.url, headers={"X-Session-ID": "replayed"}, timeout=30) as http:
        named = {"X-Run": run} if run else {}
        http.post(
            "/create", json={"env_name": "echo", "task_spec": {"goal": goal}}, headers=named
        ).raise_for_status()
        try:
            yield Agent(http)
        finally:
            http.post("/delete").raise_for_status()


def latest(live: LiveServer) -> str:
    """Return the address of the newest episode's replay."""
    [newest, *_] = httpx.get(f"{live.url}/api/episodes", timeout=30).json()["results"]
    return f"/episodes/{newest['id']}/"
