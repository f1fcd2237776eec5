"""Tests of how numbers and rewards are written on pages. Scripts write numbers in the same format
(`tests/browser/test_figures.py`).
"""

from __future__ import annotations

import math
import re

import pytest
from django.template.defaultfilters import floatformat

from environments.display.formats import NONE, code_spans, coverage, grouped, reward, success_range
from environments.display.numbers import plain, signed, unsigned
from environments.models import Environment
from environments.scoring.attempt_figures import Figures
from environments.scoring.convention import Convention, Coverage, coverage_of
from tests.rows import each


@each(
    ("value", "text"),
    [
        (0.0, "0.00"),
        (-0.0, "0.00"),
        (-1.4e-17, "0.00"),
        (5.6e-17, "0.00"),
        (0.075, "+0.08"),
        (0.125, "+0.13"),
        (-0.005, "\u22120.01"),
        (1234.5, "+1,234.50"),
        (0.0049, "+0.0049"),
        (5.5e-05, "+0.00"),
        (-0.00012, "\u22120.00012"),
        (1_000_000.0, "+1M"),
        (1_234_567.0, "+1.23M"),
        (1_125_000.0, "+1.13M"),
        (-12_345_678.0, "\u221212.3M"),
        (999_999_999.0, "+1B"),
        (4.56e14, "+456T"),
        (1.2e18, "+1.2\u00d710¹⁸"),
        (-3e290, "\u22123\u00d710²⁹⁰"),
        (1, "+1.00"),
    ],
)
def test_two_decimals_and_a_sign_unless_they_would_hide_the_value(value: float, text: str) -> None:
    assert signed(value) == text
    assert unsigned(value) == text.removeprefix("+")


@each(
    ("value", "text"),
    [
        *(
            (1e6, "1,000,000"),
            (999_999.6, "1,000,000"),
            (-1234567.0, "\u22121,234,567"),
            (999_999.4, "999999"),
        ),
        *((0.123456789, "0.123457"), (2e20, "2e+20")),
    ],
)
def test_a_sentence_has_all_digits_of_a_large_number(value: float, text: str) -> None:
    assert plain(value) == text


def test_a_number_with_few_digits_has_no_exponent_either() -> None:
    assert (plain(12345.6, 3), plain(-999.6, 3), plain(999.4, 3)) == (
        "12,346",
        "\u22121,000",
        "999",
    )


def test_the_exact_value_of_a_large_reward_is_shown_on_hover() -> None:
    assert reward(1234567.25, Environment()).endswith('title="1234567.25">+1.23M</span>')


@each(
    ("value", "level"),
    [
        *((0.0, 0), (0.1, 1), (0.5, 2), (1.0, 3), (7.0, 3), (-0.1, -1), (-9.0, -3)),
        *((1e308, 3), (-1e308, -3), (math.inf, 3), (-math.inf, -3), (math.nan, 0)),
    ],
)
@each("high", [1.0, pytest.param(1e-9, id="tiny"), pytest.param(math.inf, id="infinite")])
def test_every_reward_has_a_level_on_the_scale(value: float, level: int, high: float) -> None:
    shown = reward(value, Environment(reward_low=-1.0, reward_high=high))
    assert 'data-level="' in shown
    assert high != 1.0 or f'data-level="{level}"' in shown


@pytest.mark.parametrize("value", [-0.0, -1.4e-17])
def test_an_error_of_rounding_is_neither_shown_nor_coloured(value: float) -> None:
    assert (
        reward(value, Environment())
        == '<span class="reward" data-level="0" title="0.0">0.00</span>'
    )


def test_nan_is_written_without_a_sign() -> None:
    assert reward(math.nan, Environment()).endswith(">nan</span>")


def test_words_between_backticks_are_code() -> None:
    assert (
        code_spans("Whether `<hint>` & more are `cut…")
        == "Whether <code>&lt;hint&gt;</code> &amp; more are cut…"
    )


@each("value", [0, 7, 999, 1000, -1234567, 10**15, 1234.5, 0.49, None, "", "x"])
def test_a_grouped_number_is_what_django_writes_without_decimals(value: float | str | None) -> None:
    assert grouped(value) == floatformat(value, "0g")


KINDS = {"finished": 1200, "no_call": 2, "env_error": 1, "expired": 3, "probe": 2, "continued": 1}


def test_coverage_links_the_rollouts_that_do_not_count_with_their_own_return() -> None:
    html = coverage(coverage_of(KINDS, Convention(expired="out")), "environment=a&player=others")
    start = '<a href="/episodes/?environment=a&amp;player=others&amp;ending='
    assert html == (
        '<details class="coverage"><summary title="1,202 attempts; 2 no call scored 0, 3 expired '
        'excluded, 1 infrastructure failure excluded"><span class="number">1,202</span> · 4 excluded'
        f'</summary>{start}no_call" data-ending="no_call">2 no call scored 0</a>, '
        f'{start}expired" data-ending="expired">3 expired excluded</a>, '
        f'{start}failure" data-ending="failure">1 infrastructure failure excluded</a> '
        f'+ {start}probe">2 not played</a>, '
        f'{start}continued">1 continued, repeated or left</a>, not counted</details>'
    )


@each(
    ("kinds", "line"),
    [
        ({"finished": 1200}, "1,200"),
        ({"finished": 2, "no_call": 3, "env_error": 1}, "5 · 1 excluded"),
        ({"finished": 2, "no_call": 3}, "5 · 3 scored 0"),
        ({"finished": 2, "probe": 1}, "2 · 1 not counted"),
        ({}, "\N{EN DASH}"),
    ],
)
def test_coverage_is_a_short_line(kinds: dict[str, int], line: str) -> None:
    figures = coverage_of(kinds, Convention())
    words = [
        re.sub("<[^>]*>", "", coverage(figures, is_rest=is_rest).partition("</summary>")[0])
        for is_rest in (False, True)
    ]
    assert words == [line, line.partition(" · ")[2]]


def test_coverage_of_several_conventions_has_no_links_to_parts() -> None:
    html = coverage(coverage_of({"finished": 1, "no_call": 1}, Convention()), is_mixed=True)
    assert html.endswith("</summary>1 no call scored 0</details>")
    assert "<a" not in html


@pytest.mark.parametrize("covered", [None, "", Coverage(0, 0, {}, {}, {})])
def test_nothing_has_no_coverage(covered: Coverage | None) -> None:
    assert coverage(covered) == NONE


def test_a_success_rate_is_shown_with_its_interval_in_percent() -> None:
    covered = Coverage(4, 4, {}, {}, {})
    assert success_range(Figures(coverage=covered, n=4, scored=4, mean=0.5, successes=2)) == (
        '50% <span class="hint nowrap">15\N{EN DASH}85</span>'
    )
    assert success_range(Figures(coverage=covered, n=0, scored=0, mean=None, successes=0)) == NONE
