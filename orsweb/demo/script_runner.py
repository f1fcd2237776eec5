"""Plays the demo's script: opens the service with the demo's clock and plays one episode after
another.

Episodes do not overlap, so the same seed gives the same record in the same order. `manage.py demo`
calls this while it holds the database's lock.
"""

from __future__ import annotations

import contextlib
import json
import logging
import time
from collections.abc import Callable, Iterator
from random import Random

from django.conf import settings

from environments.errors import EnvironmentFault, OrsError
from environments.runtime.service import SessionService
from environments.service import close_service, open_service
from orsweb.demo.bulk_play import play_all
from orsweb.demo.players import PLAYERS
from orsweb.demo.pretended_time import CLOCK
from orsweb.demo.research import research_script
from orsweb.demo.script import ScriptPart, script
from orsweb.demo.scripted_session import EpisodeOver, ScriptedSession

DAY_SECONDS = 86_400.0
MAX_CLOSE_SECONDS = 10.0
SLOW = frozenset(("code", "shell"))
"""Environments whose episodes take a second each, because they run programs in sandboxes."""
MIN_PAUSE_SECONDS = 1.0
"""Shortest time between the starts of two episodes; they start in the order in which they are
played."""


async def play(episodes: int, seed: int, progress: Callable[[int, int], None]) -> list[ScriptPart]:
    """Play about `episodes` episodes and return the script. Calls `progress` with the numbers of
    finished and of all episodes. Raises: Unhostable; django.db.Error."""
    with _demo_settings("orsweb.demo.pretended_time.ClockedRecorder", []):
        service = await open_service(recovers=True)
        try:
            return await _play_all(service, episodes, seed, progress)
        finally:
            await close_service(MAX_CLOSE_SECONDS)


async def play_research(
    episodes: int, seed: int, progress: Callable[[int, int], None]
) -> list[ScriptPart]:
    """Play about `episodes` episodes of a record as researchers have it, and return the script.
    Raises: Unhostable; django.db.Error."""
    with _demo_settings(settings.ORSWEB_RECORD, research_environments()):
        service = await open_service(recovers=True)
        try:
            parts = research_script(await _task_counts(service), episodes, seed)
            await play_all(service, parts, seed, progress)
            return parts
        finally:
            await close_service(MAX_CLOSE_SECONDS)


class NothingToPlay(OrsError):
    """None of the environments that the demo plays is hosted."""


async def play_beside_others(
    service: SessionService, episodes: int, progress: Callable[[int, int], None]
) -> None:
    """Play about `episodes` episodes on a server that runs, whose clock stays as it is. Raises:
    NothingToPlay."""
    counts = await _task_counts(service)
    names = [name for name in dict.fromkeys(name for name, _ in counts) if name not in SLOW]
    if not names:
        quick = ", ".join(name for name in PLAYERS if name not in SLOW)
        raise NothingToPlay(
            f"The demo plays {quick}, and this server hosts none of them. Start it without "
            "arguments to host them."
        )
    parts = script(names, counts, episodes, seed=0)
    playable_parts = [part for part in parts if part.environment in names]
    await play_all(service, playable_parts, 0, progress)


def research_environments() -> list[str]:
    """Return the environments of `play_research` as settings.ORSWEB_ENVIRONMENTS has them."""
    return [*settings.ORSWEB_BUNDLED_ENVIRONMENTS, "orsweb.demo.repair:Repair"]


async def _play_all(
    service: SessionService, episodes: int, seed: int, progress: Callable[[int, int], None]
) -> list[ScriptPart]:
    counts = await _task_counts(service)
    parts = script(list(dict.fromkeys(name for name, _ in counts)), counts, episodes, seed)
    start = time.time()
    for number, part in enumerate(parts):
        progress(number, len(parts))
        earliest = CLOCK.moment + MIN_PAUSE_SECONDS if number else 0.0
        CLOCK.start(max(start - part.days_ago * DAY_SECONDS, earliest))
        await _play(service, part, Random(f"demo/{seed}/{number}"))
    progress(len(parts), len(parts))
    return parts


@contextlib.contextmanager
def _demo_settings(record: str, environments: list[str]) -> Iterator[None]:
    """Host `environments` only, by default the bundled ones, record with `record`, and log no
    warnings.

    Some tasks of the script fail on purpose, which would be logged.
    """
    logger = logging.getLogger("environments.runtime")
    before = settings.ORSWEB_RECORD, settings.ORSWEB_ENVIRONMENTS, logger.level
    settings.ORSWEB_RECORD, settings.ORSWEB_ENVIRONMENTS = record, environments
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        settings.ORSWEB_RECORD, settings.ORSWEB_ENVIRONMENTS = before[:2]
        logger.setLevel(before[2])


async def _task_counts(service: SessionService) -> dict[tuple[str, str], int]:
    """Return the number of tasks by environment and split, of the environments that this machine
    can run; some need a sandbox that it may lack."""
    return {
        (name, split): await service.tasks.count(name, split)
        for name in PLAYERS
        if name in service.registry.names and not service.registry.get(name).unavailable
        for split in ("train", "test")
    }


async def _play(service: SessionService, part: ScriptPart, random: Random) -> None:
    spec = part.spec
    if spec is None:
        spec = json.loads(await service.tasks.get(part.environment, part.split, part.index))
    session = ScriptedSession(service, part, random)
    try:
        await session.open()
        await session.read()
        if part.max_calls:
            await PLAYERS[part.environment](spec, part.skill, random, session.act)
    except (EpisodeOver, EnvironmentFault):  # both are recorded; a task may fail on purpose
        pass
    if not part.is_left_open:
        await session.leave()
