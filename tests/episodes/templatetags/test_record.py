"""How rewards are written on the pages."""

from __future__ import annotations

import math

import pytest

from environments.models import Environment
from episodes.templatetags.record import reward


@pytest.mark.parametrize(
    ("value", "level"),
    [
        *((0.0, 0), (0.1, 1), (0.5, 2), (1.0, 3), (7.0, 3), (-0.1, -1), (-9.0, -3)),
        *((1e308, 3), (-1e308, -3), (math.inf, 3), (-math.inf, -3), (math.nan, 0)),
    ],
)
@pytest.mark.parametrize("high", [1.0, pytest.param(1e-9, id="tiny"), pytest.param(math.inf, id="endless")])
def test_it_puts_every_number_on_the_scale(value: float, level: int, high: float) -> None:
    shown = reward(value, Environment(reward_low=-1.0, reward_high=high))
    assert 'data-level="' in shown
    assert high != 1.0 or f'data-level="{level}"' in shown


def test_it_writes_nan_without_a_sign() -> None:
    assert reward(math.nan, Environment()).endswith(">nan</span>")
