"""Tests of how numbers and rewards are written on pages. Scripts write numbers in the same format
(`tests/browser/test_figures.py`).
"""

from __future__ import annotations

import math

import pytest

from environments.display.formats import code_spans, reward
from environments.display.numbers import plain, signed, unsigned
from environments.models import Environment


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((1e6, "1,000,000"), (999_999.6, "1,000,000"), (-1234567.0, "\u22121,234,567"), (999_999.4, "999999")),
        *((0.123456789, "0.123457"), (2e20, "2e+20")),
    ],
)
def test_a_sentence_has_all_digits_of_a_large_number(value: float, text: str) -> None:
    assert plain(value) == text


def test_a_number_with_few_digits_has_no_exponent_either() -> None:
    assert (plain(12345.6, 3), plain(-999.6, 3), plain(999.4, 3)) == ("12,346", "\u22121,000", "999")


def test_the_exact_value_of_a_large_reward_is_shown_on_hover() -> None:
    assert reward(1234567.25, Environment()).endswith('title="1234567.25">+1.23M</span>')


@pytest.mark.parametrize(
    ("value", "level"),
    [
        *((0.0, 0), (0.1, 1), (0.5, 2), (1.0, 3), (7.0, 3), (-0.1, -1), (-9.0, -3)),
        *((1e308, 3), (-1e308, -3), (math.inf, 3), (-math.inf, -3), (math.nan, 0)),
    ],
)
@pytest.mark.parametrize("high", [1.0, pytest.param(1e-9, id="tiny"), pytest.param(math.inf, id="infinite")])
def test_every_reward_has_a_level_on_the_scale(value: float, level: int, high: float) -> None:
    shown = reward(value, Environment(reward_low=-1.0, reward_high=high))
    assert 'data-level="' in shown
    assert high != 1.0 or f'data-level="{level}"' in shown


@pytest.mark.parametrize("value", [-0.0, -1.4e-17])
def test_an_error_of_rounding_is_neither_shown_nor_coloured(value: float) -> None:
    assert reward(value, Environment()) == '<span class="reward" data-level="0" title="0.0">0.00</span>'


def test_nan_is_written_without_a_sign() -> None:
    assert reward(math.nan, Environment()).endswith(">nan</span>")


def test_words_between_backticks_are_code() -> None:
    assert code_spans("Whether `<hint>` & more are `cut…") == "Whether <code>&lt;hint&gt;</code> &amp; more are cut…"
