"""Blocks hold what their episodes hold, on every level and for every scope."""

from __future__ import annotations

import json
from collections import Counter
from itertools import product
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from episodes.attempts.endings import Ending
from episodes.attempts.sketches import above, count_of, mean_of
from episodes.models import CurveBlock, Episode
from episodes.rollups import blocks
from episodes.rollups.blocks import BlocksPart
from episodes.rollups.follower import catch_up
from episodes.rollups.summaries import RETURN_COLUMNS
from tests.episodes.playing import THRESHOLD, causes, expired, own, play, played

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("no_follower")]
SIZE = 8
SCOPES = ("environment", "split", "run")


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reduce the size of blocks to SIZE endings."""
    monkeypatch.setattr(blocks, "BLOCK_ENDINGS", SIZE)


def found() -> list[tuple[CurveBlock, list[Ending]]]:
    """Yield every block with the endings that it should hold."""
    of_scope: dict[tuple[str, int], list[Ending]] = {}
    pairs = []
    for block in CurveBlock.objects.all():
        key = block.scope, block.scope_id
        if key not in of_scope:
            of_scope[key] = played(**{block.scope: block.scope_id})
        size = SIZE * 4**block.level
        endings = of_scope[key][block.number * size :][:size]
        split = block.split_id if block.scope == "run" else None
        held = [one for one in endings if one.environment == block.environment_id]
        pairs.append((block, [one for one in held if split is None or (one.split or 0) == split]))
    return pairs


def values(endings: list[Ending], name: str) -> list[float]:
    column = "steps" if name == "length" else name
    return [value for ending in own(endings) if (value := getattr(ending, column)) is not None]


def test_there_are_as_many_as_are_full() -> None:
    play(400)
    catch_up()
    expected = {
        (scope, pk, level): len(played(**{scope: pk})) // (SIZE * 4**level)
        for scope in SCOPES
        for pk in set(Episode.objects.exclude(**{scope: None}).values_list(scope, flat=True))
        for level in range(4)
    }
    numbers = set(CurveBlock.objects.values_list("scope", "scope_id", "level", "number"))
    counted = Counter((scope, pk, level) for scope, pk, level, _ in numbers)
    assert counted == Counter(expected)
    assert max(block.level for block in CurveBlock.objects.all()) == 2


def test_nothing_is_looked_for_before_the_first_ending() -> None:
    play(5)
    with CaptureQueriesContext(connection) as queries:
        catch_up()
    assert not any('FROM "episodes_curveblock"' in one["sql"] for one in queries)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_each_holds_its_own_endings(seed: int) -> None:
    play(300, seed=seed)
    catch_up()
    for block, endings in found():
        assert (block.first_end, block.last_end) == (endings[0].number, endings[-1].number)
        assert (block.began.timestamp(), block.ended.timestamp()) == (
            endings[0].ended,
            endings[-1].ended,
        )
        assert block.episodes == len(endings)
        assert json.loads(block.causes) == causes(endings)
        assert block.steps == sum(values(endings, "length"))
        assert (block.failed, block.refused) == (
            sum(values(endings, "failed")),
            sum(values(endings, "refused")),
        )


def test_returns_and_lengths_keep_their_mean_and_their_successes() -> None:
    play(300)
    catch_up()
    for name, (block, endings) in product([*RETURN_COLUMNS, "length"], found()):
        sketch, expected = json.loads(getattr(block, name)), values(endings, name)
        assert len(sketch) <= 32
        assert count_of(sketch) == len(expected)
        assert mean_of(sketch) == (
            pytest.approx(sum(expected) / len(expected)) if expected else None
        )
        assert above(sketch, THRESHOLD) == sum(value > THRESHOLD for value in expected)


def test_returns_of_expired_episodes_are_held_apart() -> None:
    play(300)
    catch_up()
    for block, endings in found():
        late = expired(endings)
        assert bool(block.expired) == bool(late)
        if late:
            sums, _, _, _, lengths, failed, refused, _ = json.loads(block.expired)
            assert mean_of(sums) == pytest.approx(sum(one.return_sum for one in late) / len(late))
            assert count_of(lengths) == len(late)
            assert (failed, refused) == (
                sum(one.failed for one in late),
                sum(one.refused for one in late),
            )


def test_a_return_beyond_what_sums_bear_counts_as_the_largest() -> None:
    play(SIZE, cause="finished", return_max=1.7e308)
    catch_up()
    largest = CurveBlock.objects.filter(level=0, scope="environment").values_list(
        "return_max", flat=True
    )
    assert set(largest) <= {f"[[1e+290,{SIZE}]]"}


def test_while_its_scopes_are_remembered_a_batch_costs_one_query(
    django_assert_num_queries: Any,
) -> None:
    play(3 * SIZE - 1, cause="finished")
    part = BlocksPart()
    endings = played()
    part.gather(endings[:-1])
    with django_assert_num_queries(1):  # the thresholds of environments
        part.gather(endings[-1:])
