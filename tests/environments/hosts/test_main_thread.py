"""Code that needs the main thread, as signals do, has it in a session with a process of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from environments.authoring.registry import Registry, load_class
from environments.hosts.worker_host import WorkerHost
from environments.hosts.worker_instance import WorkerInstance
from environments.limits import Limits, WorkerSettings
from environments.runtime.local_host import LocalHost
from environments.runtime.threads import ThreadPool

SLOW, QUICK = {"to": 10**12}, {"to": 3}


async def opened(instance: Any) -> Any:
    if await instance.construct({"id": 1}, {}, None):
        await instance.set_up()
    return instance


@pytest.fixture(
    params=["tests.envs_alarm:Alone", 'tests.envs_alarm:Alarm?isolation="session"&own_thread=true']
)
async def workers(request: pytest.FixtureRequest) -> AsyncIterator[WorkerHost]:
    workers = WorkerHost(load_class(request.param), Limits(), WorkerSettings())
    yield workers
    await workers.close()


@pytest.mark.parametrize("tool", ["count", "count_later"])
async def test_alarms_end_what_takes_too_long(workers: WorkerHost, tool: str) -> None:
    instance: WorkerInstance = await opened(workers.instance())
    assert "too slow" in (await instance.run(tool, SLOW)).output_json
    assert (await instance.run(tool, QUICK)).reward == 1.0
    await instance.close()


async def test_other_hosts_say_how_it_gets_the_main_thread() -> None:
    hosted = load_class("tests.envs_alarm:Alarm")
    instance = await opened(
        LocalHost(Registry([hosted]), ThreadPool(), Limits()).instance(hosted.name)
    )
    error = (await instance.run("count", QUICK)).error
    assert "signal only works in main thread" in error
    assert 'module:Class?isolation="session"&own_thread=true' in error
