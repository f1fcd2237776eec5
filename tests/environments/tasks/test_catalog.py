"""The catalogue over listed tasks: names, positions and what they cost."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext

from environments.authoring.task_source import CHUNK_TASKS
from environments.database import worker_threads
from environments.errors import InvalidIndex, InvalidSplit, UnknownEnvironment
from environments.tasks import listed_tasks
from environments.tasks.catalog import Catalogue
from environments.tasks.listed_tasks import FRESH_SECONDS, ListedTasks
from environments.tasks.split_change import SplitChange, commit
from environments.wire import Split
from tests.environments.listings import catalogue_of, collected, listing, numbered, synced
from tests.rows import each
from tests.stored import make_environment, make_split, make_task

pytestmark = pytest.mark.django_db(transaction=True)


async def everything(catalogue: Catalogue, split: str) -> list[str]:
    return await collected(catalogue.tasks("shop", split))


async def test_it_serves_a_task_as_the_author_wrote_it() -> None:
    task = {
        "z": 1e20,
        "a": -0.0,
        "text": "é\0\u2028\ud800",
        "big": 2**70,
        "nested": {"b": None, "a": [True]},
    }
    async with catalogue_of(listing({"train": [task]})) as catalogue:
        assert await catalogue.get("shop", "train", 0) == json.dumps(task, separators=(",", ":"))


@each(("index", "n"), [(0, 0), (4, 4), (-1, 4), (-5, 0)])
async def test_it_indexes_like_a_list(index: int, n: int) -> None:
    async with catalogue_of(listing({"train": numbered(5)})) as catalogue:
        assert await catalogue.get("shop", "train", index) == f'{{"n":{n}}}'


@each("index", [5, -6, 10**30, -(10**30)])
async def test_it_refuses_an_index_beyond_either_end(index: int) -> None:
    async with catalogue_of(listing({"train": numbered(5)})) as catalogue:
        with pytest.raises(InvalidIndex, match="'train' has 5 tasks, so -5 to 4 are valid"):
            await catalogue.get("shop", "train", index)


async def test_a_task_is_waited_for_while_the_database_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with catalogue_of(listing({"train": numbered(5)})) as catalogue:
        read, failures = ListedTasks.get, iter(range(4))

        def get(listed: ListedTasks, environment: str, split: str, index: int) -> str:
            if next(failures, None) is not None:
                raise OperationalError("the database system is shutting down")
            return read(listed, environment, split, index)

        monkeypatch.setattr(ListedTasks, "get", get)
        monkeypatch.setattr(worker_threads, "RETRY_SECONDS", 0.001)
        assert await catalogue.get("shop", "train", 1) == '{"n":1}'


@pytest.mark.parametrize(
    ("places", "reads"),
    [
        (range(192), 4),
        # two in turn
        ([place for pair in zip(range(96), range(96, 192), strict=True) for place in pair], 6),
        (range(191, -1, -1), 192),
        (range(0, 192, 65), 3),
    ],
    ids=["in order", "two in order", "backwards", "far apart"],
)
def test_tasks_that_are_played_in_order_are_read_together(
    places: Sequence[int], reads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listed_tasks, "MAX_TEXT_CACHE_BYTES", 1500)  # less than all of them have
    assert reads_of(places, monkeypatch) == reads


@pytest.mark.parametrize("places", [range(191, -1, -1), [n * 89 % 192 for n in range(192)]])
def test_short_tasks_that_all_fit_into_memory_are_read_together_in_any_order(
    places: Sequence[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert reads_of(places, monkeypatch) <= 4


def reads_of(places: Sequence[int], monkeypatch: pytest.MonkeyPatch) -> int:
    """Return how many queries it takes to get the tasks at `places` of a split of 192."""
    monkeypatch.setattr(listed_tasks, "FRESH_SECONDS", 60.0)
    environment = make_environment("shop")
    make_split(
        *(make_task({"n": n}, environment=environment) for n in range(192)), environment=environment
    )
    listed = listed_tasks.ListedTasks()
    listed.ids("shop", "train")
    with CaptureQueriesContext(connection) as queries:
        assert [listed.get("shop", "train", place) for place in places] == [
            f'{{"n": {n}}}' for n in places
        ]
    return len(queries)


def test_only_short_tasks_are_read_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listed_tasks, "FRESH_SECONDS", 60.0)
    monkeypatch.setattr(listed_tasks, "MAX_AHEAD_CHARACTERS", 20)
    environment = make_environment("shop")
    texts = [f"{n:060}" if n % 2 else f"{n}" for n in range(8)]
    make_split(
        *(make_task({"n": text}, environment=environment) for text in texts),
        environment=environment,
    )
    listed = listed_tasks.ListedTasks()
    listed.ids("shop", "train")
    with CaptureQueriesContext(connection) as queries:
        found = [json.loads(listed.get("shop", "train", place))["n"] for place in range(8)]
    assert found == texts
    # the first, the four long ones, and the other short ones with one of those
    assert len(queries) == 5


def test_a_task_that_was_just_added_is_served() -> None:
    environment = make_environment("shop")
    split = make_split(make_task({"n": 0}, environment=environment), environment=environment)
    added = make_task({"n": 1}, environment=environment)
    listed = listed_tasks.ListedTasks()
    with SplitChange(split) as change:
        change.add([added.pk])
        assert listed.get("shop", "train", 0) == '{"n": 0}'  # for another agent, a moment before
        commit(change)
        assert listed.get("shop", "train", 1) == '{"n": 1}'


async def test_it_refuses_every_index_of_an_empty_split() -> None:
    async with catalogue_of(listing({"train": []})) as catalogue:
        with pytest.raises(InvalidIndex, match="'train' has no tasks"):
            await catalogue.get("shop", "train", 0)


@each(
    ("start", "stop"),
    [(None, None), (1, 3), (-2, None), (-99, 2), (3, 99), (3, 1), (5, None), (-(10**30), 10**30)],
)
async def test_it_slices_like_a_list(start: int | None, stop: int | None) -> None:
    async with catalogue_of(listing({"train": numbered(5)})) as catalogue:
        expected = [f'{{"n":{n}}}' for n in range(5)][start:stop]
        assert await collected(catalogue.range("shop", "train", start, stop)) == expected


async def test_it_keeps_the_order_of_a_range_that_takes_several_reads() -> None:
    count = 2 * CHUNK_TASKS + 5
    async with catalogue_of(listing({"train": numbered(count)})) as catalogue:
        texts = await collected(catalogue.range("shop", "train", 3, None))
        assert [json.loads(text)["n"] for text in texts] == list(range(3, count))


async def test_it_hands_out_a_whole_split_in_chunks() -> None:
    count = CHUNK_TASKS + 1
    async with catalogue_of(listing({"train": numbered(count)})) as catalogue:
        sizes = [len(chunk) async for chunk in catalogue.tasks("shop", "train")]
        assert sizes == [CHUNK_TASKS, 1]


async def test_it_hands_out_a_range_in_chunks() -> None:
    async with catalogue_of(listing({"train": numbered(CHUNK_TASKS + 5)})) as catalogue:
        sizes = [len(chunk) async for chunk in catalogue.range("shop", "train", 3, None)]
        assert sizes == [CHUNK_TASKS, 2]


async def test_it_finishes_a_whole_split_as_it_was_when_asked() -> None:
    count = CHUNK_TASKS + 1
    async with catalogue_of(listing({"train": numbered(count)})) as catalogue:
        chunks = catalogue.tasks("shop", "train")
        first = await anext(chunks)
        await synced(listing({"train": numbered(2, start=7)}))
        rest = [text async for chunk in chunks for text in chunk]
        assert [json.loads(text)["n"] for text in [*first, *rest]] == list(range(count))


async def test_it_serves_a_task_at_each_of_its_places() -> None:
    async with catalogue_of(listing({"train": [{"n": 1}, {"n": 2}, {"n": 1}]})) as catalogue:
        assert await catalogue.count("shop", "train") == 3
        assert await catalogue.get("shop", "train", 2) == '{"n":1}'


async def test_it_serves_a_changed_split_without_a_restart() -> None:
    async with catalogue_of(listing({"train": numbered(3)})) as catalogue:
        assert await catalogue.count("shop", "train") == 3
        await synced(listing({"train": [{"n": 9}, {"n": 0}]}))
        assert await everything(catalogue, "train") == ['{"n":9}', '{"n":0}']


async def test_it_tells_the_splits_in_order() -> None:
    async with catalogue_of(listing({"test": [], "extra": []})) as catalogue:
        assert await catalogue.splits("shop") == [
            Split(name="test", type="test"),
            Split(name="extra", type="validation"),
        ]


async def test_it_finds_an_environment_in_any_case() -> None:
    async with catalogue_of(listing({"train": numbered(3)})) as catalogue:
        assert await catalogue.count("SHOP", "train") == 3


async def test_it_refuses_an_unknown_split_naming_those_there_are() -> None:
    async with catalogue_of(listing({"train": [], "test": []})) as catalogue:
        with pytest.raises(InvalidSplit, match="'Train': 'shop' has 'train', 'test'"):
            await catalogue.get("shop", "Train", 0)


async def test_it_refuses_an_unknown_environment() -> None:
    async with catalogue_of(listing({"train": []})) as catalogue:
        with pytest.raises(UnknownEnvironment, match="did you mean 'shop'"):
            await catalogue.count("shops", "train")


async def test_it_keeps_environments_apart() -> None:
    async with catalogue_of(
        listing({"train": [{"n": 1}]}), listing({"train": [{"n": 2}]}, "bank")
    ) as catalogue:
        assert await catalogue.get("shop", "train", 0) == '{"n":1}'
        assert await catalogue.get("bank", "train", 0) == '{"n":2}'


@pytest.mark.parametrize("size", [1, 3000])
async def test_it_gets_a_task_with_at_most_two_queries_whatever_the_size(
    size: int, queries: list[str]
) -> None:
    async with catalogue_of(listing({"train": numbered(size + 1)})) as catalogue:
        await catalogue.get("shop", "train", 0)
        await catalogue.get("shop", "train", 0)  # either reader may have come first
        queries.clear()
        await catalogue.get("shop", "train", size)
        assert 1 <= len(queries) <= 2  # one where the split was looked at just before


@pytest.mark.parametrize("size", [1, 3000])
async def test_it_gets_a_known_task_with_one_query_whatever_the_size(
    size: int, queries: list[str]
) -> None:
    async with catalogue_of(listing({"train": numbered(size)})) as catalogue:
        await catalogue.get("shop", "train", -1)
        queries.clear()
        await catalogue.get("shop", "train", -1)
        assert len(queries) <= 1  # none where the split was looked at just before


async def test_it_serves_a_change_at_the_latest_when_what_it_knows_is_no_longer_fresh() -> None:
    async with catalogue_of(listing({"train": [{"n": 1}]})) as catalogue:
        seen = [await catalogue.get("shop", "train", 0)]
        # syncs another list into the same rows
        async with catalogue_of(listing({"train": [{"n": 2}]})):
            async with asyncio.timeout(FRESH_SECONDS * 50):
                while seen[-1] != '{"n":2}':
                    seen.append(await catalogue.get("shop", "train", 0))
    assert set(seen) == {'{"n":1}', '{"n":2}'}


@pytest.mark.parametrize("size", [10, 3000])
async def test_it_reads_a_range_with_two_queries_whatever_the_size(
    size: int, queries: list[str]
) -> None:
    async with catalogue_of(listing({"train": numbered(size)})) as catalogue:
        await catalogue.count("shop", "train")
        queries.clear()
        assert len(await collected(catalogue.range("shop", "train", -10, None))) == 10
        assert len(queries) == 2
