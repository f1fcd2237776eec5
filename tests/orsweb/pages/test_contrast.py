"""The contrast of text with its background: at least 4.5 to 1 (WCAG AA), in light and in dark."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.rows import each

TOKENS = (Path(__file__).resolve().parents[3] / "static/orsweb/tokens.css").read_text(
    encoding="utf-8"
)
COLOURS = {
    name: (light, dark)
    for name, light, dark in re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\);", TOKENS)
}  # fmt: skip
GROUNDS = ("ground", "surface", "sunken")
TEXTS = (
    "ink",
    "ink-soft",
    "accent",
    "good",
    "warn",
    "bad",
    "live",
    *(f"reward-{n}" for n in ("m3", "m2", "m1", "p1", "p2", "p3")),
)


def luminance(colour: str) -> float:
    parts = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@each("mode", [0, 1], ids=["light", "dark"])
@each("ground", GROUNDS)
@each("text", TEXTS)
def test_text_can_be_read(text: str, ground: str, mode: int) -> None:
    assert contrast(COLOURS[text][mode], COLOURS[ground][mode]) >= 4.5


@pytest.mark.parametrize("mode", [0, 1], ids=["light", "dark"])
def test_what_is_chosen_can_be_read(mode: int) -> None:
    for text, ground in (
        ("accent", "accent-ground"),
        ("ink", "accent-ground"),
        ("surface", "accent"),
    ):
        assert contrast(COLOURS[text][mode], COLOURS[ground][mode]) >= 4.5
