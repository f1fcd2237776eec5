"""How numbers are written on pages; scripts write them alike (`tests/browser/test_figures.py`)."""

from __future__ import annotations

import pytest

from environments.templatetags.figures import signed, unsigned


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.00"),
        (-0.0, "0.00"),
        (0.075, "+0.08"),
        (0.125, "+0.13"),
        (-0.005, "\u22120.01"),
        (1234.5, "+1,234.50"),
        (0.0049, "+0.0049"),
        (5e-05, "+5e-05"),
        (1234567.0, "+1.2e+06"),
        (1, "+1.00"),
    ],
)
def test_two_decimals_and_a_sign_unless_they_would_hide_the_value(value: float, text: str) -> None:
    assert signed(value) == text
    assert unsigned(value) == text.removeprefix("+")
