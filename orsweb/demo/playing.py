"""Stage: opens the service with the demo's clock and plays a script, one episode after another.

One after another, so that the same seed gives the same record in the same order. Driven by `manage.py demo`, which
holds the database's lock.
"""

from __future__ import annotations

import contextlib
import json
import logging
import time
from collections.abc import Callable, Iterator
from random import Random

from django.conf import settings

from environments.errors import EnvironmentFault
from environments.runtime.service import SessionService
from environments.service import close_service, open_service
from orsweb.demo.players import PLAYERS
from orsweb.demo.pretended_time import CLOCK
from orsweb.demo.script import ScriptPart, script
from orsweb.demo.scripted_session import Over, ScriptedSession

DAY_SECONDS = 86_400.0
CLOSING_SECONDS = 10.0
PAUSE_SECONDS = 1.0
"""Between two episodes at least; they begin in the order in which they are played."""


async def play(episodes: int, seed: int, told: Callable[[int, int], None]) -> list[ScriptPart]:
    """Play `episodes`, about; answers what was played. `told` hears how many are done, and of how many.

    Raises: Unhostable; django.db.Error.
    """
    with _set():
        service = await open_service(recovers=True)
        try:
            return await _play_all(service, episodes, seed, told)
        finally:
            await close_service(CLOSING_SECONDS)


async def _play_all(
    service: SessionService, episodes: int, seed: int, told: Callable[[int, int], None]
) -> list[ScriptPart]:
    parts = await _script(service, episodes, seed)
    begun = time.time()
    for number, part in enumerate(parts):
        told(number, len(parts))
        CLOCK.start(max(begun - part.days_ago * DAY_SECONDS, CLOCK.moment + PAUSE_SECONDS if number else 0.0))
        await _play(service, part, Random(f"demo/{seed}/{number}"))
    told(len(parts), len(parts))
    return parts


@contextlib.contextmanager
def _set() -> Iterator[None]:
    """The bundled environments whatever else this server hosts, the demo's clock, and no warnings: the script breaks
    some tasks on purpose."""
    logger = logging.getLogger("environments.runtime")
    before = settings.ORSWEB_RECORD, settings.ORSWEB_ENVIRONMENTS, logger.level
    settings.ORSWEB_RECORD, settings.ORSWEB_ENVIRONMENTS = "orsweb.demo.pretended_time.ClockedRecorder", []
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        settings.ORSWEB_RECORD, settings.ORSWEB_ENVIRONMENTS = before[:2]
        logger.setLevel(before[2])


async def _script(service: SessionService, episodes: int, seed: int) -> list[ScriptPart]:
    """The script for the environments that can run here: some need a sandbox that this machine may not have."""
    names = [name for name in PLAYERS if name in service.registry.names and not service.registry.get(name).unavailable]
    counts = {(name, split): await service.tasks.count(name, split) for name in names for split in ("train", "test")}
    return script(names, counts, episodes, seed)


async def _play(service: SessionService, part: ScriptPart, random: Random) -> None:
    spec = part.spec
    if spec is None:
        spec = json.loads(await service.tasks.get(part.environment, part.split, part.index))
    seat = ScriptedSession(service, part, random)
    try:
        await seat.open()
        await seat.read()
        if part.most_calls:
            await PLAYERS[part.environment](spec, part.skill, random, seat.act)
    except (Over, EnvironmentFault):  # it has ended, or was never to end otherwise; the record tells how
        pass
    if not part.is_left_open:
        await seat.leave()
