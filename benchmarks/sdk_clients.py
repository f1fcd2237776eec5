"""Agents that are the unmodified clients of both SDKs, as a check that the bytes of `agents.py` cost a
server what real clients do.

A client takes several times the CPU time of a server for an episode, so there are few agents, each
in a thread of the load process.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Literal

from benchmarks.agents import CALLS_PER_EPISODE, REQUESTS_PER_EPISODE
from benchmarks.client import Tally

SDK = Literal["ors-sdk", "openreward"]


def start(
    sdk: SDK, agents: int, port: int, text_bytes: int, tally: Tally
) -> list[threading.Thread]:
    """Start threads that play episodes of five calls while the load lasts."""
    url, indexes = f"http://127.0.0.1:{port}", itertools.count()
    client = _CLIENTS[sdk]
    threads = [
        threading.Thread(target=_play, args=(client, url, text_bytes, indexes, tally), daemon=True)
        for _ in range(agents)
    ]
    for thread in threads:
        thread.start()
    return threads


def _play(
    client: Callable[[str], Any], url: str, text_bytes: int, indexes: Iterator[int], tally: Tally
) -> None:
    api = client(url)  # its connections close with it
    environment = api.environments.get("echo")
    tasks = environment.list_tasks(split="train")
    try:
        while tally.is_playing:
            number = next(indexes)
            with environment.session(task=tasks[number % len(tasks)]) as session:
                session.get_prompt()
                for call in range(1, CALLS_PER_EPISODE + 1):
                    text = f"{number:08} {call} ".ljust(text_bytes, "x")
                    began = time.perf_counter()
                    arguments = {"text": text, "last": call == CALLS_PER_EPISODE}
                    result = session.call_tool("echo", arguments)
                    tally.add(tally.calls, time.perf_counter() - began)
                    if result.finished != arguments["last"]:
                        tally.fail(f"not the result of the call: {result!r:.500}")
            if tally.is_measuring:
                tally.answered += REQUESTS_PER_EPISODE
    except Exception as error:  # of whatever kind, it is told with the sample
        tally.fail(repr(error))


def _ors(url: str) -> Any:
    from ors.client import ORS

    return ORS(base_url=url)


def _openreward(url: str) -> Any:
    os.environ |= {"OPENREWARD_SESSION_URL": url, "OPENREWARD_API_URL": url}
    os.environ["OPENREWARD_DISABLE_UPDATE_CHECK"] = "1"
    from openreward.client import OpenReward

    return OpenReward(api_key="", base_url=url)


_CLIENTS: dict[SDK, Callable[[str], Any]] = {"ors-sdk": _ors, "openreward": _openreward}
