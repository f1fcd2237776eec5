"""The colours of lines differ for people who see no red or no green, and from the ground of charts.

Sources: Machado, Oliveira and Fernandes, "A Physiologically-based Model for Simulation of Color
Vision Deficiency" (2009), severity 1; the difference of two colours is CIE 1976.
"""

from __future__ import annotations

import math
import re
from itertools import combinations
from pathlib import Path

from episodes.rendering.line_colours import COLOURS, ON_WHITE
from tests.rows import each

TOKENS = Path("static/orsweb/tokens.css").read_text()
LEAST_DIFFERENCE = 12
LEAST_CONTRAST = 3
SEEN_BY = {
    "everybody else": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopes": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopes": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
}
TO_XYZ = (
    (0.4124564, 0.3575761, 0.1804375),
    (0.2126729, 0.7151522, 0.0721750),
    (0.0193339, 0.1191920, 0.9503041),
)
WHITE = (0.95047, 1.0, 1.08883)
Triple = tuple[float, ...]


def token(name: str, theme: int) -> Triple:
    """Return the colour as linear light, in the light (0) or the dark theme (1)."""
    pair = re.search(rf"--{name}: light-dark\(#(\w{{6}}), #(\w{{6}})\)", TOKENS)
    assert pair, name
    shares = [value / 255 for value in bytes.fromhex(pair[theme + 1])]
    return tuple(
        share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares
    )


def product(matrix: tuple[Triple, ...], vector: Triple) -> Triple:
    return tuple(sum(map(float.__mul__, map(float, row), vector)) for row in matrix)


def lab(colour: Triple) -> Triple:
    shares = [value / white for value, white in zip(product(TO_XYZ, colour), WHITE, strict=True)]
    x, y, z = (
        share ** (1 / 3) if share > 216 / 24389 else (24389 / 27 * share + 16) / 116
        for share in shares
    )
    return (116 * y - 16, 500 * (x - y), 200 * (y - z))


def test_figures_for_papers_have_the_colours_of_the_light_theme() -> None:
    assert all(
        f"--line-{place}: light-dark({colour}," in TOKENS for place, colour in enumerate(ON_WHITE)
    )


@each("theme", [0, 1])
def test_any_two_colours_of_lines_differ_for_everybody(theme: int) -> None:
    colours = [token(f"line-{number}", theme) for number in range(COLOURS)]
    for eyes, matrix in SEEN_BY.items():
        points = [
            lab(tuple(min(1.0, max(0.0, part)) for part in product(matrix, colour)))
            for colour in colours
        ]
        for (first, a), (second, b) in combinations(enumerate(points), 2):
            assert math.dist(a, b) >= LEAST_DIFFERENCE, (eyes, first, second)


@each("theme", [0, 1])
def test_every_colour_of_a_line_stands_out_from_the_ground_of_charts(theme: int) -> None:
    light = [
        product(TO_XYZ, token(name, theme))[1] + 0.05
        for name in ("surface", *(f"line-{number}" for number in range(COLOURS)))
    ]
    for line in light[1:]:
        assert max(line, light[0]) / min(line, light[0]) >= LEAST_CONTRAST
