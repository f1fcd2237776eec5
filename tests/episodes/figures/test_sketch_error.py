"""Figures from blocks against those from single endings: the mean and its standard error are the
same, and success at a threshold that blocks were not written with is within a bound that is not too
wide.
"""

from __future__ import annotations

from itertools import product

import pytest

from environments.models import Environment
from environments.scoring.convention import Convention, Treatment
from environments.scoring.definition import Definition, DefinitionOverrides, definition_of
from episodes.figures.block_queries import Axis
from episodes.figures.curves.curve_points import Curve, curve, curve_of
from episodes.figures.environments.histogram import histogram
from episodes.figures.scopes import Scope, scope_of
from episodes.figures.sketch_error import error_bound_of, sentence_of
from episodes.figures.summary_cover import covers_of
from episodes.rollups.follower import catch_up
from tests.episodes.playing import THRESHOLD, play

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("no_follower")]


@pytest.fixture
def scope(no_follower: None, monkeypatch: pytest.MonkeyPatch) -> Scope:
    """The scope of 600 episodes whose returns (max) are nearly all different."""
    monkeypatch.setattr("episodes.rollups.step_spans.MAX_SPANS", 3)
    play(600)
    Environment.objects.update(declared_threshold=THRESHOLD)
    catch_up()
    return scope_of(Environment.objects.get(name="echo"))


def from_blocks(scope: Scope, definition: Definition) -> tuple[float, Curve]:
    found = covers_of([scope], definition, least_blocks=1, most_rows=0)[0]
    assert found.blocks
    return error_bound_of(found, definition), curve_of(found, scope, definition, "episode")


def test_a_rate_is_off_by_no_more_than_the_bound(scope: Scope) -> None:
    for threshold in (0.1, 0.35, 0.62, 0.9):
        assert_within_the_bound(scope, threshold)


def assert_within_the_bound(scope: Scope, threshold: float) -> None:
    definition = Definition("max", threshold)
    bound, found = from_blocks(scope, definition)
    whole = curve(scope, definition).total
    assert found.total and whole and found.total.success is not None and whole.success is not None
    assert 0 < bound < 0.1 and abs(found.total.success - whole.success) <= bound
    assert (
        f"success above {threshold} may be off by up to" in found.note
        and found.success_error == bound
    )


def test_a_sentence_about_the_bound_writes_large_thresholds_out() -> None:
    assert "success above 1,250,000 may be off" in sentence_of(0.01, Definition("max", 1_250_000.0))


def test_the_mean_and_its_standard_error_are_exact(scope: Scope) -> None:
    conventions: tuple[Treatment, ...] = ("keep", "zero", "out")
    axes: tuple[Axis, ...] = ("episode", "step")
    for axis, expired in product(axes, conventions):
        assert_exact(scope, axis, expired)


def assert_exact(scope: Scope, axis: Axis, expired: Treatment) -> None:
    definition = Definition("max", 0.3, Convention(expired=expired))
    found = covers_of([scope], definition, axis, least_blocks=1, most_rows=0)[0]
    assert any(one.own.scatters for block in found.blocks for one in block.parts.values())
    small, whole = (
        curve_of(found, scope, definition, axis).total,
        curve(scope, definition, axis).total,
    )
    assert small and whole
    assert (small.mean, small.error) == (pytest.approx(whole.mean), pytest.approx(whole.error))
    assert (small.tool_errors, small.refused_calls) == (whole.tool_errors, whole.refused_calls)


def test_at_the_threshold_in_force_it_is_exact(scope: Scope) -> None:
    environment = Environment.objects.get(name="echo")
    bound, found = from_blocks(scope, definition_of(environment, DefinitionOverrides("max")))
    assert (bound, found.note) == (0.0, "")
    environment.success_threshold = 0.7  # blocks were written before
    assert from_blocks(scope, definition_of(environment, DefinitionOverrides("max")))[0] > 0


def test_it_is_exact_again_after_a_change_of_the_threshold(scope: Scope) -> None:
    Environment.objects.update(success_threshold=0.2)
    play(600, first=601)
    catch_up()
    Environment.objects.update(success_threshold=THRESHOLD)
    definition = definition_of(Environment.objects.get(name="echo"), DefinitionOverrides("max"))
    bound, found = from_blocks(scope, definition)
    whole = curve(scope, definition).total
    assert bound == 0.0 and found.total and whole
    assert found.total.successes == whole.successes


def test_few_distinct_returns_are_exact_at_any_threshold(scope: Scope) -> None:
    bound, found = from_blocks(scope, Definition("last", 0.3))
    assert (bound, found.note) == (0.0, "")


def test_what_is_read_one_by_one_is_exact(scope: Scope) -> None:
    assert curve(scope, Definition("max", 0.3)).note == ""


def test_a_histogram_has_the_bound_too(scope: Scope, monkeypatch: pytest.MonkeyPatch) -> None:
    assert histogram(scope, Definition("max", 0.3)).note == ""
    monkeypatch.setattr("episodes.figures.summary_cover.MAX_RAW_ENDINGS", 0)
    monkeypatch.setattr("episodes.figures.summary_cover.MIN_RAW", 0)
    assert "may be off by up to" in histogram(scope, Definition("max", 0.3)).note
