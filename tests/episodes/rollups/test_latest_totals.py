"""Totals of the latest training steps of runs hold what their spans hold, however endings came."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from episodes.attempts.sketches import count_of, mean_of
from episodes.models import LatestTotal, StepSpan
from episodes.rollups import step_spans
from episodes.rollups.follower import catch_up, start_over
from episodes.rollups.step_spans import SpansPart
from tests.episodes.ended import end_episodes
from tests.episodes.playing import causes, own, play, played
from tests.episodes.rollups.test_step_spans import shuffled
from tests.stored import make_run

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("no_follower")]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limit a scope to 24 spans, of which two are the latest, and batches to a small size."""
    monkeypatch.setattr(step_spans, "MAX_SPANS", 24)
    monkeypatch.setattr(SpansPart, "most_endings", 37)


def of_splits(total: LatestTotal) -> dict[str, Any]:
    """Return the condition on episodes, besides that on their training steps."""
    is_of_all = total.split_id == LatestTotal.ALL_SPLITS
    return {"run": total.scope_id} | ({} if is_of_all else {"split": total.split_id or None})


@pytest.mark.parametrize("make", [lambda: play(300), shuffled], ids=["in order", "in no order"])
def test_each_holds_the_endings_of_its_tenth(make: Callable[[], None]) -> None:
    make()
    catch_up()
    assert LatestTotal.objects.exists()
    for total in LatestTotal.objects.all():
        endings = played(**of_splits(total), run_step__isnull=False)
        numbers = [one.run_step // total.width for one in endings if one.run_step is not None]
        first = max(numbers) - (max(numbers) - min(numbers)) // 10
        endings = [one for one, number in zip(endings, numbers, strict=True) if number >= first]
        latest = [one for one in endings if one.environment == total.environment_id]
        steps = [one.run_step for one in latest]
        assert (total.number, total.step_low, total.step_high) == (first, min(steps), max(steps))  # type: ignore[type-var]
        assert (total.episodes, json.loads(total.causes)) == (len(latest), causes(latest))
        returns = [one.return_sum for one in own(latest) if one.return_sum is not None]
        sketch = json.loads(total.return_sum)
        mean = pytest.approx(sum(returns) / len(returns)) if returns else None
        assert (count_of(sketch), mean_of(sketch)) == (len(returns), mean)


def test_there_is_one_for_each_place_and_for_all_splits_of_a_run() -> None:
    play(300)
    catch_up()
    splits = set(StepSpan.objects.filter(scope="run").values_list("scope_id", "split_id"))
    counts = Counter(run for run, _ in splits)
    several = {(run, LatestTotal.ALL_SPLITS) for run, count in counts.items() if count > 1}
    totals = set(LatestTotal.objects.values_list("scope_id", "split_id"))
    assert several and totals == splits | several


def test_they_do_not_depend_on_how_endings_came_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    shuffled()
    play(90, first=1000)
    columns = ("scope_id", "environment_id", "split_id", "width", "number", "causes", "steps")
    rows = list[Any]()
    for size in (1, 1000):
        monkeypatch.setattr(SpansPart, "most_endings", size)
        start_over()
        catch_up()
        totals = LatestTotal.objects.order_by(*columns[:3]).values(*columns)
        rows.append([row | {"causes": json.loads(row["causes"])} for row in totals])
    assert rows[0] == rows[1]


def test_endings_of_a_step_that_has_begun_are_merged_into_them(
    django_assert_num_queries: Any,
) -> None:
    end_episodes(*[(1.0, {"run": make_run(), "run_step": step}) for step in range(12)] * 2)
    part, endings = SpansPart(), played()
    part.write(part.gather(endings[:-1]))
    with django_assert_num_queries(4):  # thresholds, spans, groups, totals
        change = part.gather(endings[-1:])
    part.write(change)
    assert LatestTotal.objects.get().episodes == 4
