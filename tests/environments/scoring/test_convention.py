"""Tests of conventions, and of the sentence that says how many rollouts a figure counts."""

from __future__ import annotations

import pytest

from environments.models import DEFAULT_CONVENTION
from environments.scoring.convention import (
    CONVENTION_PARTS,
    Convention,
    coverage_of,
    coverages_together,
    kinds_counted,
)
from environments.scoring.definition import DefinitionOverrides
from tests.rows import each

KINDS = {
    "finished": 20,
    "abandoned": 3,
    "expired": 1,
    "no_call": 6,
    "env_error": 1,
    "setup_failed": 1,
}


def test_the_default_is_the_first_of_the_allowed_values() -> None:
    assert Convention() == Convention(
        **{name: allowed[0] for name, allowed in CONVENTION_PARTS.items()}
    )
    assert Convention().code == DEFAULT_CONVENTION


def test_a_code_stands_for_one_convention() -> None:
    convention = Convention(no_call="out", expired="zero", env_error="zero")
    assert Convention.from_code(convention.code) == convention
    assert str(convention) == "no_call=out, expired=zero, env_error=zero"


@each(
    ("convention", "text"),
    [
        (Convention(), "30 attempts; 6 no call scored 0, 2 infrastructure failures excluded"),
        (
            Convention(no_call="out"),
            "24 attempts; 6 no call excluded, 2 infrastructure failures excluded",
        ),
        (
            Convention(env_error="zero"),
            "32 attempts; 6 no call scored 0, 2 infrastructure failures scored 0",
        ),
        (
            Convention(expired="zero"),
            "30 attempts; 6 no call scored 0, 1 expired scored 0, 2 infrastructure failures "
            "excluded",
        ),
        (
            Convention(expired="out"),
            "29 attempts; 6 no call scored 0, 1 expired excluded, 2 infrastructure failures "
            "excluded",
        ),
    ],
)
def test_the_sentence_says_what_counts_and_how(convention: Convention, text: str) -> None:
    found = coverage_of(KINDS, convention)
    assert found.text == text
    assert found.rollouts == 32 == found.counted + sum(found.out.values())


def test_probes_and_continuations_are_no_rollouts() -> None:
    found = coverage_of({"finished": 1, "probe": 5, "continued": 2}, Convention())
    assert (found.text, found.others) == ("1 attempt", {"probe": 5, "continued": 2})


def test_failures_that_count_differently_are_named_apart() -> None:
    found = coverage_of({"interrupted": 1, "env_error": 2}, Convention(interrupted="zero"))
    assert found.text == "1 attempt; 1 interrupted scored 0, 2 environment error excluded"
    assert [part.ending for part in found.parts] == ["interrupted", "env_error"]


def test_each_part_has_a_filter_that_finds_it() -> None:
    assert [(part.ending, part.count) for part in coverage_of(KINDS, Convention()).parts] == [
        ("no_call", 6),
        ("failure", 2),
    ]


@pytest.mark.parametrize(
    "convention", [Convention(), Convention(no_call="out"), Convention(expired="out")]
)
def test_counts_by_kind_give_back_the_coverage(convention: Convention) -> None:
    parts = {"no_call": 6, "expired": 1, "interrupted": 0, "env_error": 2}
    counted = coverage_of({"": 23, **parts}, convention).counted
    assert kinds_counted(counted, parts, convention) == {"": 23, **parts}


def test_coverages_add_up() -> None:
    both = coverages_together(
        [coverage_of(KINDS, Convention()), coverage_of(KINDS, Convention(no_call="out"))]
    )
    assert (
        both.text
        == "54 attempts; 6 no call scored 0, 6 no call excluded, 4 infrastructure failures excluded"
    )


def test_given_parts_replace_those_of_the_environment() -> None:
    own = Convention(no_call="out", expired="zero")
    assert DefinitionOverrides(expired="keep").convention(own) == Convention(no_call="out")
    assert DefinitionOverrides("max", 0.5, no_call="out").values() == {
        "return": "max",
        "threshold": "0.5",
        "no_call": "out",
    }
    assert own.parameters(Convention(no_call="out")) == {"expired": "zero"}
