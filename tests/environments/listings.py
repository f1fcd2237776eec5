"""Environments made for one test, and the catalogue over them. All code of theirs runs as the
server runs it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from environments import Environment, TextBlock, ToolOutput, tool
from environments.authoring.hosted_class import HostedClass
from environments.authoring.registry import Registry
from environments.limits import Limits
from environments.runtime.local_host import LocalHost
from environments.runtime.threads import ThreadPool
from environments.tasks.catalog import Catalogue
from environments.tasks.sync import sync, sync_environment
from environments.tasks.sync_report import SplitSync, SyncReport


class Playable(Environment):
    """Whatever it takes to be hosted, but for splits and tasks."""

    def get_prompt(self) -> list[TextBlock]:
        return [TextBlock(text="Submit.")]

    @tool
    def submit(self) -> ToolOutput:
        return ToolOutput(blocks=[], finished=True)


def listing(tasks: Mapping[str, Any], name: str = "shop", **attributes: Any) -> HostedClass:
    """Return a class whose list_tasks answers from `tasks`, by split; an exception there is
    raised."""

    def list_tasks(split: str) -> Any:
        if isinstance(tasks[split], Exception):
            raise tasks[split]
        return tasks[split]

    return _made(name, list(tasks), {"list_tasks": staticmethod(list_tasks), **attributes})


def procedural(name: str = "dice", **methods: Callable[..., Any]) -> HostedClass:
    """Return a class with split "train" whose list_tasks raises NotImplementedError and which
    counts no tasks, with these static methods."""

    def list_tasks(split: str) -> Any:
        raise NotImplementedError

    methods = {"list_tasks": list_tasks, "num_tasks": lambda split: 0, **methods}
    static = {key: staticmethod(method) for key, method in methods.items()}
    return _made(name, ["train"], {"list_tasks": staticmethod(_list_nothing), **static})


def _list_nothing(split: str) -> Any:
    raise NotImplementedError


def _made(name: str, splits: list[str], attributes: dict[str, Any]) -> HostedClass:
    return HostedClass(
        type(
            name.title(), (Playable,), {"list_splits": staticmethod(lambda: splits), **attributes}
        ),
        name,
    )


async def collected(chunks: AsyncIterator[Sequence[str]]) -> list[str]:
    """Return the texts of all chunks."""
    return [text async for chunk in chunks for text in chunk]


def numbered(count: int, start: int = 0) -> list[dict[str, int]]:
    return [{"n": n} for n in range(start, start + count)]


async def synced(*hosted: HostedClass, is_alone: bool = False) -> SyncReport:
    pool = ThreadPool()
    try:
        registry = Registry(hosted)
        return await sync(registry, LocalHost(registry, pool, Limits()), is_alone=is_alone)
    finally:
        pool.close()


async def synced_beside(hosted: HostedClass) -> list[SplitSync]:
    """Sync one environment while others are served, as those of other servers are."""
    pool = ThreadPool()
    try:
        return await sync_environment(hosted, LocalHost(Registry([hosted]), pool, Limits()))
    finally:
        pool.close()


@asynccontextmanager
async def catalogue_of(*hosted: HostedClass) -> AsyncIterator[Catalogue]:
    """Yield the catalogue after a sync of `hosted`."""
    await synced(*hosted)
    pool = ThreadPool()
    registry = Registry(hosted)
    catalogue = Catalogue(registry, LocalHost(registry, pool, Limits()))
    try:
        yield catalogue
    finally:
        catalogue.close()
        pool.close()
