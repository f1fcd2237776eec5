"""Actions on an environment as a whole: how it is scored, and whether agents and people may play
it."""

from __future__ import annotations

from typing import Any

import pytest

from environments.curation.action import ActionRefused
from environments.curation.environment_settings import SetEnabled, SetScoring, is_overridden
from environments.models import Environment
from tests.environments.curation.tasks import AUTHOR
from tests.rows import each
from tests.stored import make_environment

pytestmark = pytest.mark.django_db


def declared() -> Environment:
    row = {"return": "max", "low": -1.0, "high": 2.0, "threshold": 1.5}
    values: dict[str, Any] = {f"declared_{name}": value for name, value in row.items()}
    return make_environment(**values)


def in_force() -> tuple[str, float, float, float]:
    row = Environment.objects.get()
    return row.default_return, row.reward_low, row.reward_high, row.success_threshold


def test_it_overrides_what_is_given_and_leaves_the_rest_as_declared() -> None:
    row = declared()
    outcome = SetScoring(row.pk, default_return="last", success_threshold=0.0).apply(AUTHOR)
    assert in_force() == ("last", -1.0, 2.0, 0.0)
    assert is_overridden(Environment.objects.get())
    assert outcome.sentence == (
        "'math' is scored by its own definition: returns are the last of the rewards, from -1 to "
        "2; more than 0 is a success."
    )


def test_it_goes_back_to_what_the_class_declares() -> None:
    row = declared()
    SetScoring(row.pk, "last", 0.0, 1.0, 0.5).apply(AUTHOR)
    outcome = SetScoring(row.pk).apply(AUTHOR)
    assert in_force() == ("max", -1.0, 2.0, 1.5)
    assert not is_overridden(Environment.objects.get())
    assert outcome.sentence.startswith(
        "'math' is scored as its class declares: returns are the max"
    )


@each(
    ("values", "why"),
    [
        ({"default_return": "median"}, "Use sum, last, max, mean"),
        ({"reward_low": 2.0}, r"lowest reward \(2\) has to be less than the highest \(2\)"),
        ({"reward_high": float("inf")}, "finite"),
        ({"success_threshold": float("nan")}, "finite"),
    ],
)
def test_it_refuses_what_makes_no_sense(values: dict[str, Any], why: str) -> None:
    row = declared()
    for refused in (
        SetScoring(row.pk, **values).plan,
        lambda: SetScoring(row.pk, **values).apply(AUTHOR),
    ):
        with pytest.raises(ActionRefused, match=why):
            refused()


def test_it_disables_and_enables_an_environment() -> None:
    row = make_environment()
    assert SetEnabled(row.pk, False).apply(AUTHOR).sentence == "'math' is disabled."
    assert not Environment.objects.get().is_enabled
    SetEnabled(row.pk, True).apply(AUTHOR)
    assert Environment.objects.get().is_enabled


def test_it_plans_in_sentences() -> None:
    row = declared()
    assert SetScoring(row.pk).plan().sentences[0].endswith("more than 1.5 is a success.")
    assert SetEnabled(row.pk, False).plan().sentences == ("'math' is disabled.",)


def test_it_refuses_an_environment_that_does_not_exist() -> None:
    for action in (SetEnabled(9, True), SetScoring(9)):
        with pytest.raises(ActionRefused, match="does not exist"):
            action.plan()


def test_another_definition_of_success_makes_a_recount_due() -> None:
    row = Environment.objects.create(name="counted", counted="sum > 0.9")
    SetScoring(row.pk, reward_high=5.0).apply("ann")
    row.refresh_from_db()
    assert row.counted == row.definition
    SetScoring(row.pk, success_threshold=0.5).apply("ann")
    row.refresh_from_db()
    assert row.counted == ""
