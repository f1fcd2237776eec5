"""The catalogue over classes that list no tasks."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from structlog.testing import capture_logs

from environments.authoring.task_source import CHUNK_TASKS
from environments.errors import (
    EnvironmentFault,
    InvalidIndex,
    InvalidIndexRange,
    InvalidSplit,
    ListingUnsupported,
)
from environments.models import Split as Row
from environments.wire import Split
from tests.environments.listings import catalogue_of, collected, procedural
from tests.rows import each
from tests.stored import NOW, make_environment, make_split, make_task

pytestmark = pytest.mark.django_db(transaction=True)


def plain_count(split: str) -> int:
    return 5


def plain_task(split: str, index: int) -> dict[str, Any]:
    return {"n": index}


async def async_count(split: str) -> int:
    return 5


async def async_task(split: str, index: int) -> dict[str, Any]:
    return {"n": index}


def broken(split: str, *_: Any) -> Any:
    raise KeyError("broken")


def at_first(method: Callable[..., Any]) -> Callable[[str], Any]:
    """Return a `num_tasks` that answers when the server starts, and is `method` afterwards."""
    starts = iter([5])
    return lambda split: next(starts, None) or method(split)


def out_of_range(split: str, *_: Any) -> Any:
    raise IndexError


PLAIN = procedural(num_tasks=plain_count, get_task=plain_task)
ASYNC = procedural(num_tasks=async_count, get_task=async_task)


@pytest.mark.parametrize("hosted", [PLAIN, ASYNC])
async def test_it_asks_plain_and_async_methods(hosted: Any) -> None:
    async with catalogue_of(hosted) as catalogue:
        assert await catalogue.count("dice", "train") == 5
        assert await catalogue.get("dice", "train", -1) == '{"n":4}'
        assert await collected(catalogue.range("dice", "train", -2, 99)) == ['{"n":3}', '{"n":4}']


@pytest.mark.parametrize("index", [5, -6, 10**30])
async def test_it_refuses_an_index_beyond_the_count(index: int) -> None:
    async with catalogue_of(PLAIN) as catalogue:
        with pytest.raises(InvalidIndex, match="has 5 tasks"):
            await catalogue.get("dice", "train", index)


async def test_it_takes_the_class_at_its_word_that_an_index_is_bad() -> None:
    async with catalogue_of(procedural(num_tasks=plain_count, get_task=out_of_range)) as catalogue:
        with pytest.raises(InvalidIndex, match="Invalid index 1"):
            await catalogue.get("dice", "train", 1)


async def test_it_asks_once_for_a_range_that_the_class_can_answer() -> None:
    asked = []

    def get_task_range(split: str, start: int, stop: int) -> list[dict[str, int]]:
        asked.append((start, stop))
        return [{"n": n} for n in range(start, stop)]

    async with catalogue_of(
        procedural(num_tasks=plain_count, get_task_range=get_task_range)
    ) as catalogue:
        assert await collected(catalogue.range("dice", "train", None, -3)) == ['{"n":0}', '{"n":1}']
        assert asked == [(0, 2)]


async def test_it_asks_in_parts_for_a_range_that_is_long() -> None:
    asked = []

    def get_task_range(split: str, start: int, stop: int) -> list[dict[str, int]]:
        asked.append((start, stop))
        return [{"n": n} for n in range(start, stop)]

    async with catalogue_of(
        procedural(num_tasks=lambda split: 10**30, get_task_range=get_task_range)
    ) as catalogue:
        texts = await collected(catalogue.range("dice", "train", 7, 2 * CHUNK_TASKS))
        assert texts == [f'{{"n":{n}}}' for n in range(7, 2 * CHUNK_TASKS)]
        assert asked == [(7, 7 + CHUNK_TASKS), (7 + CHUNK_TASKS, 2 * CHUNK_TASKS)]


async def test_it_lets_others_work_while_a_class_that_never_suspends_is_asked() -> None:
    asked: list[int] = []
    started = asyncio.Event()

    async def get_task(split: str, index: int) -> dict[str, int]:
        asked.append(index)
        started.set()
        return {"n": index}

    async with catalogue_of(
        procedural(num_tasks=lambda split: 10**12, get_task=get_task)
    ) as catalogue:
        chunks = catalogue.range("dice", "train", None, None)
        first = asyncio.ensure_future(anext(chunks))
        await started.wait()
        assert len(asked) < CHUNK_TASKS
        assert len(await first) == len(asked) == CHUNK_TASKS


async def test_it_refuses_more_tasks_than_were_asked_for() -> None:
    endless = procedural(
        num_tasks=plain_count, get_task_range=lambda *_: ({"n": n} for n in itertools.count())
    )
    async with catalogue_of(endless) as catalogue:
        with pytest.raises(EnvironmentFault, match="more than the 2 tasks"):
            await collected(catalogue.range("dice", "train", 1, 3))


async def test_it_names_the_task_of_a_range_that_is_no_json_object() -> None:
    async with catalogue_of(
        procedural(num_tasks=plain_count, get_task=lambda split, index: index)
    ) as catalogue:
        with pytest.raises(EnvironmentFault, match="task 3: "):
            await collected(catalogue.range("dice", "train", 3, None))


@pytest.mark.parametrize("method", ["num_tasks", "get_task", "get_task_range"])
async def test_it_logs_what_a_class_raises(method: str) -> None:
    broken_later = at_first(broken) if method == "num_tasks" else broken
    hosted = procedural(**{"num_tasks": plain_count, "get_task": plain_task, method: broken_later})
    async with catalogue_of(hosted) as catalogue:
        with capture_logs() as logged, pytest.raises(EnvironmentFault):
            await catalogue.get("dice", "train", 1)
            await collected(catalogue.range("dice", "train", 1, 3))
    [line] = logged
    trace = line.pop("trace")
    about = {
        "event": "tasks failed",
        "log_level": "warning",
        "environment": "dice",
        "split": "train",
    }
    assert line == {**about, "error": "KeyError: 'broken'"} and "in broken" in trace


async def test_it_answers_an_empty_range_without_asking_for_tasks() -> None:
    async with catalogue_of(procedural(num_tasks=plain_count, get_task=broken)) as catalogue:
        assert await collected(catalogue.range("dice", "train", 3, 3)) == []


async def test_it_refuses_a_range_that_the_class_refuses() -> None:
    async with catalogue_of(
        procedural(num_tasks=plain_count, get_task_range=out_of_range)
    ) as catalogue:
        with pytest.raises(InvalidIndexRange, match="1 to 3"):
            await collected(catalogue.range("dice", "train", 1, 3))


async def test_it_tells_the_declared_splits() -> None:
    async with catalogue_of(PLAIN) as catalogue:
        assert await catalogue.splits("dice") == [Split(name="train", type="train")]


async def test_it_refuses_an_undeclared_split() -> None:
    async with catalogue_of(PLAIN) as catalogue:
        with pytest.raises(InvalidSplit, match="'test': 'dice' has 'train'"):
            await catalogue.count("dice", "test")


async def test_it_does_not_list_tasks() -> None:
    async with catalogue_of(PLAIN) as catalogue:
        with pytest.raises(ListingUnsupported):
            await anext(catalogue.tasks("dice", "train"))


async def test_it_says_which_method_is_missing() -> None:
    async with catalogue_of(procedural(num_tasks=plain_count)) as catalogue:
        with pytest.raises(EnvironmentFault, match=r"must implement get_task\(\)"):
            await catalogue.get("dice", "train", 0)


async def test_it_tells_an_exception_of_the_class_as_its_fault() -> None:
    async with catalogue_of(procedural(num_tasks=plain_count, get_task=broken)) as catalogue:
        with pytest.raises(EnvironmentFault, match="KeyError: 'broken'"):
            await catalogue.get("dice", "train", 0)


@each("count", [-1, 2.0, None, "5"])
async def test_it_refuses_a_count_that_is_none(count: Any) -> None:
    async with catalogue_of(procedural(num_tasks=at_first(lambda split: count))) as catalogue:
        with pytest.raises(EnvironmentFault, match="not a number of tasks"):
            await catalogue.count("dice", "train")


@each("task", [{"n": float("nan")}, ["n"], {"n": object()}, None])
async def test_it_refuses_a_task_that_is_no_json_object(task: Any) -> None:
    async with catalogue_of(
        procedural(num_tasks=plain_count, get_task=lambda split, index: task)
    ) as catalogue:
        with pytest.raises(EnvironmentFault, match=r"task 3: .* a task is a JSON object"):
            await catalogue.get("dice", "train", 3)


async def test_it_serves_a_split_that_people_made_next_to_procedural_ones() -> None:
    async with catalogue_of(procedural(num_tasks=plain_count, get_task=plain_task)) as catalogue:
        await asyncio.to_thread(_make_hard)
        assert [split.name for split in await catalogue.splits("dice")] == ["train", "hard"]
        assert await catalogue.count("dice", "hard") == 1
        assert await catalogue.get("dice", "hard", 0) == '{"hard": true}'
        assert await catalogue.count("dice", "train") == 5


def _make_hard() -> None:
    dice = make_environment("dice")
    make_split(make_task({"hard": True}, dice), name="hard", environment=dice)
    connection.close()


@pytest.mark.parametrize(
    "mark", [{"is_curated": True}, {"frozen": NOW}, {"frozen": NOW, "is_served": False}]
)
def test_it_serves_what_people_made_or_froze_under_a_name_that_the_class_declares_too(
    mark: dict[str, Any],
) -> None:
    dice = make_environment("dice")
    split = make_split(make_task({"own": 1}, dice), environment=dice)
    Row.objects.filter(pk=split.pk).update(**mark, version=1)
    assert asyncio.run(_names_and_first()) == (["train"], '{"own": 1}')


async def _names_and_first() -> tuple[list[str], str]:
    async with catalogue_of(PLAIN) as catalogue:
        return [split.name for split in await catalogue.splits("dice")], await catalogue.get(
            "dice", "train", 0
        )
