"""Plays thousands of episodes in a minute: the environments' own code, prompts and rewards, but
without sessions, and with pretended times.

The rows are those of live play (`LiveEpisode` makes them). They are recorded once all episodes are
played, in the order of their ends, as if they had been played side by side.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from random import Random
from textwrap import shorten
from typing import Any

from environments.errors import EnvironmentFault
from environments.runtime.call_table import Call
from environments.runtime.live_episode import LiveEpisode
from environments.runtime.local_host import LocalHost
from environments.runtime.records import Row, RunInfo, StepTaken
from environments.runtime.service import SessionService
from environments.runtime.session_request import SessionRequest
from environments.runtime.threads import ThreadPool
from environments.service import get_record
from episodes.uploads.events import read_events
from orsweb.demo.players import PLAYERS, exploit_repair
from orsweb.demo.script import ScriptPart
from orsweb.demo.scripted_session import EpisodeOver, ScriptedAnswer

DAY_SECONDS = 86_400.0


async def play_all(
    service: SessionService,
    parts: Sequence[ScriptPart],
    seed: int,
    progress: Callable[[int, int], None],
) -> None:
    """Play and record the parts, which are in the order of their starts."""
    record, now = get_record(), time.time()
    host = LocalHost(service.registry, ThreadPool(), service.limits)
    episodes = []
    for number, part in enumerate(parts):
        progress(number, len(parts))
        start = now - part.days_ago * DAY_SECONDS
        episode = PlayedEpisode(
            part, record.next_episode(), start, Random(f"research/{seed}/{number}")
        )
        await episode.play(service, host)
        episodes.append(episode)
    commit = asyncio.Event()
    for episode in sorted(episodes, key=lambda episode: episode.now):
        record.record(*episode.rows)
    sources = [
        episode for episode in episodes if episode.part.environment == "math" and episode.part.run
    ]
    for source in (sources or episodes)[-CONVERSATIONS:]:
        upload = json.dumps({"events": _conversation(source)}).encode()
        for chunk in read_events(upload, "", source.now).chunks:
            record.upload(chunk, commit.set)  # after all others
    await commit.wait()
    progress(len(parts), len(parts))


CONVERSATIONS = 12
"""Newest episodes with which a client uploads what its model wrote."""


class PlayedEpisode:
    """An episode that a script plays, and its rows."""

    def __init__(self, part: ScriptPart, number: int, start: float, random: Random) -> None:
        self.part, self.now = part, start
        self.rows: list[Row] = []
        self.prompt_json = "[]"
        self._random = random
        self._calls_left = part.max_calls
        has_spec = part.spec is not None
        self.request = SessionRequest(
            sid=f"{random.getrandbits(128):032x}",
            owner="",
            environment=part.environment,
            spec=part.spec,
            split=None if has_spec else part.split,
            index=None if has_spec else part.index,
            user_agent="orsweb demo",
            run=RunInfo(part.run, part.step, part.model),
            player=part.player,
        )
        self._episode = LiveEpisode(self.request)
        self._episode.environment, self._episode.number = part.environment, number

    async def play(self, service: SessionService, host: LocalHost) -> None:
        """Play the episode to its end."""
        part, episode = self.part, self._episode
        spec_json = (
            await service.tasks.get(part.environment, part.split, part.index)
            if part.spec is None
            else json.dumps(part.spec)
        )
        environment = service.registry.get(part.environment)
        self.rows.append(episode.started_row(self.request, environment, spec_json, self.now))
        self._instance = host.instance(part.environment)
        spec = json.loads(spec_json)
        try:
            if await self._instance.construct(spec, {}, None):
                await self._instance.set_up()
            self.now += self._random.uniform(0.01, 0.2)
            episode.ready = self.now
            self.prompt_json = await self._instance.prompt_json()
            note = episode.noted_row(
                prompt_json=self.prompt_json,
                tools_json=await self._instance.task_tools_json(),
            )
            assert note is not None
            self.rows.append(note)
            if part.max_calls:
                play = exploit_repair if part.is_exploit else PLAYERS[part.environment]
                await play(spec, part.skill, self._random, self.act)
        except EpisodeOver:
            pass
        except EnvironmentFault as fault:  # a task may fail on purpose
            episode.end("setup_failed", self.now, str(fault))
        finally:
            await self._instance.close()
        self.rows.append(episode.leave("abandoned", self.now))

    async def act(self, tool: str, **arguments: Any) -> ScriptedAnswer:
        """Call a tool, after a pretended time for thinking. Raises: EpisodeOver."""
        if not self._calls_left:
            raise EpisodeOver
        self._calls_left -= 1
        self.now += self._random.uniform(0.4, 4.0)
        start = self.now
        outcome = await self._instance.run(tool, arguments)
        self.now += self._random.expovariate(5.0)
        call = Call(f"call-{len(self.rows)}", tool, arguments)
        self.rows.append(self._episode.step_row(call, outcome, start, start, self.now))
        if outcome.finished:
            self._episode.end("finished", self.now)
        if outcome.finished or outcome.status == "failed":
            raise EpisodeOver
        return ScriptedAnswer(outcome.status == "ok", outcome.error)


def _conversation(episode: PlayedEpisode) -> list[dict[str, Any]]:
    """Return the events of a conversation that a client uploads with its episode."""
    session, prompt = episode.request.sid, _text_of(json.loads(episode.prompt_json))
    contents: list[tuple[str, str, dict[str, Any]]] = [
        ("system_message", "You solve word problems. Answer with one number.", {}),
        ("user_message", prompt, {}),
    ]
    for step in (row for row in episode.rows if isinstance(row, StepTaken)):
        contents += [
            ("reasoning", "I add the numbers up\nand check the sum.", {}),
            ("tool_call", step.input_json, {"name": step.tool, "callId": step.task_id}),
            (
                "tool_result",
                _text_of(json.loads(step.output_json)["blocks"] if step.output_json else []),
                {"callId": step.task_id, "reward": step.reward},
            ),
        ]
    milliseconds = int(episode.now * 1000)
    messages = [
        {
            "eventType": "message",
            "eventId": f"{session}-{index}",
            "rolloutEventId": session,
            "timestamp": milliseconds + index,
            "index": index,
            "type": kind,
            "content": content,
            "isFinished": False,
            "metadata": {},
            **more,
        }
        for index, (kind, content, more) in enumerate(contents)
    ]
    start = {
        "eventType": "rollout",
        "eventId": session,
        "timestamp": milliseconds,
        "runName": episode.part.run,
        "rolloutName": shorten(prompt, width=72, placeholder="…"),
        "environment": f"local/{episode.part.environment}",
        "metadata": {"session_id": session},
    }
    return [start, *messages]


def _text_of(blocks: list[dict[str, Any]]) -> str:
    return "\n".join(block["text"] for block in blocks if block["type"] == "text")
