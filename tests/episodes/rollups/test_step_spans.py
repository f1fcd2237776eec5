"""Spans hold what the episodes of their training steps hold, for every scope and any order of
endings."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import product
from random import Random
from typing import Any

import pytest

from episodes.attempts.endings import Ending
from episodes.attempts.sketches import above, count_of, mean_of
from episodes.models import Episode, StepSpan
from episodes.rollups import step_spans
from episodes.rollups.follower import catch_up, start_over
from episodes.rollups.step_spans import SpansPart
from episodes.rollups.summaries import RETURN_COLUMNS
from tests.episodes.ended import end_episode, end_episodes
from tests.episodes.playing import THRESHOLD, causes, own, play, played
from tests.stored import make_environment, make_run, make_task

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("no_follower")]
SCOPES = ("environment", "split", "run")


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limit a scope to four spans, and batches to a small size."""
    monkeypatch.setattr(step_spans, "MAX_SPANS", 4)
    monkeypatch.setattr(SpansPart, "most_endings", 37)


def shuffled() -> None:
    """Record episodes of one run whose training steps, from -300 to 900, end in no order; a fifth
    of them has none."""
    random, run = Random(3), make_run("shuffled")
    steps = [
        random.choice([None, *(random.randint(-300, 900) for _ in range(4))]) for _ in range(150)
    ]
    end_episodes(*((1.0, {"run": run, "run_step": step}) for step in steps))


def of(span: StepSpan) -> list[Ending]:
    """Return the endings that the span should hold."""
    endings = played(**{span.scope: span.scope_id})
    held = [one for one in endings if one.environment == span.environment_id]
    held = [one for one in held if span.scope != "run" or (one.split or 0) == span.split_id]
    return [
        one
        for one in held
        if one.run_step is not None and one.run_step // span.width == span.number
    ]


def counted() -> list[tuple[Any, ...]]:
    """Return the content of spans that does not depend on how the endings came in batches."""
    names = (
        "scope",
        "scope_id",
        "width",
        "number",
        "step_low",
        "step_high",
        "first_end",
        "last_end",
        "causes",
    )
    return sorted(StepSpan.objects.values_list(*names), key=str)


def test_spans_of_many_environments_are_fewer_but_not_too_few(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in (("MAX_SPANS", 16), ("MAX_ROWS", 20), ("MIN_SPANS", 5)):
        monkeypatch.setattr(step_spans, name, value)
    run, tasks = (
        make_run(),
        [make_task(environment=make_environment(f"world-{n}")) for n in range(3)],
    )
    values = [{"run": run, "run_step": step, "task": task} for step in range(16) for task in tasks]
    end_episodes(*((1.0, one | {"environment": one["task"].environment}) for one in values))
    catch_up()
    assert StepSpan.objects.filter(scope="run").values("number").distinct().count() == 4
    assert StepSpan.objects.filter(scope="environment").values("number").distinct().count() == 16


@pytest.mark.parametrize("make", [lambda: play(300), shuffled], ids=["in order", "in no order"])
def test_each_holds_its_own_endings(make: Callable[[], None]) -> None:
    make()
    catch_up()
    assert StepSpan.objects.exists()
    for span in StepSpan.objects.all():
        endings = of(span)
        steps = [ending.run_step for ending in endings if ending.run_step is not None]
        assert (span.step_low, span.step_high) == (min(steps), max(steps))
        assert (span.first_end, span.last_end) == (endings[0].number, endings[-1].number)
        assert (span.began.timestamp(), span.ended.timestamp()) == (
            endings[0].ended,
            endings[-1].ended,
        )
        assert span.episodes == len(endings)
        assert json.loads(span.causes) == causes(endings)
        assert span.steps == sum(ending.steps for ending in own(endings))


@pytest.mark.parametrize("make", [lambda: play(300), shuffled], ids=["in order", "in no order"])
def test_every_ending_is_held_once_in_each_scope(make: Callable[[], None]) -> None:
    make()
    catch_up()
    for scope in SCOPES:
        for pk in set(Episode.objects.exclude(**{scope: None}).values_list(scope, flat=True)):
            spans = StepSpan.objects.filter(scope=scope, scope_id=pk)
            assert sum(span.episodes for span in spans) == len(
                played(**{scope: pk}, run_step__isnull=False)
            )
            assert len({span.width for span in spans}) <= 1
            assert len({span.number for span in spans}) <= 4


@pytest.mark.parametrize(
    ("run_steps", "width", "numbers"),
    [
        ((30, 0, 20, 10), 1, [0, 10, 20, 30]),
        ((30, 0, 20, 10, 40), 16, [0, 1, 2]),
        ((-1, 0, 9, 2, 1), 2, [-1, 0, 1, 4]),
    ],
)
def test_spans_are_as_narrow_as_they_can_be(
    run_steps: Sequence[int], width: int, numbers: list[int]
) -> None:
    run = make_run("narrow")
    for step in run_steps:
        end_episode(run=run, run_step=step)
    catch_up()
    found = StepSpan.objects.filter(scope="run").order_by("number")
    assert {span.width for span in found} == {width}
    assert [span.number for span in found] == numbers


def test_returns_and_lengths_keep_their_mean_and_their_successes() -> None:
    play(300)
    catch_up()
    attempts = [(span, own(of(span))) for span in StepSpan.objects.all()]
    for name, (span, endings) in product([*RETURN_COLUMNS, "length"], attempts):
        column = "steps" if name == "length" else name
        expected = [value for one in endings if (value := getattr(one, column)) is not None]
        sketch = json.loads(getattr(span, name))
        assert len(sketch) <= 32
        assert count_of(sketch) == len(expected)
        assert mean_of(sketch) == (
            pytest.approx(sum(expected) / len(expected)) if expected else None
        )
        assert above(sketch, THRESHOLD) == sum(value > THRESHOLD for value in expected)


def test_it_remembers_only_some_scopes(monkeypatch: pytest.MonkeyPatch) -> None:
    shuffled()
    play(90, first=1000)
    catch_up()
    plenty = counted()
    start_over()
    monkeypatch.setattr(step_spans, "MAX_SCOPES", 1)
    catch_up()
    assert counted() == plenty


def test_while_its_scopes_are_remembered_a_batch_asks_for_what_it_changes(
    django_assert_num_queries: Any,
) -> None:
    play(200)
    part, endings = SpansPart(), played(run_step__isnull=False)
    part.gather(endings[:-1])
    # thresholds, spans, and of a run its groups, its latest total and the spans for that
    with django_assert_num_queries(2 + 3 * (endings[-1].run is not None)):
        part.gather(endings[-1:])


def test_endings_without_a_step_cause_no_query(django_assert_num_queries: Any) -> None:
    shuffled()
    part, endings = SpansPart(), played(run_step=None)
    assert endings
    with django_assert_num_queries(0):
        part.gather(endings)
