"""Pictures of mazes: a mosaic of tiles that are drawn once; used by `maze.py`.

All tiles share one palette, so a picture is put together and written in one byte per pixel: 2 ms
for 15 x 15 cells.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from functools import cache

from PIL import Image, ImageDraw, ImageFont

from environments.builtin.maze.grid import DOORS, EXIT, FLOOR, KEYS, PLAYER, START, UNSEEN, WALL
from environments.wire import ImageBlock

TILE = 32
"""Length of a side of a tile, in pixels."""
FINE = 4
"""Tiles are drawn this many times larger and then reduced, for smooth edges."""
TRAIL, FRONT = "*", "="
"""Marks of the picture alone: floor that was walked on, and a wall seen from the front because
floor lies below it."""
PLAYER_ON_KEY = {"a": "1", "b": "2", "c": "3"}
OPEN_DOOR = {"A": "4", "B": "5", "C": "6"}

Colour = tuple[int, int, int]
PAPER: Colour = (243, 239, 230)
GROUT: Colour = (232, 226, 213)
STONE: Colour = (72, 84, 106)
STONE_FRONT: Colour = (47, 55, 73)
STONE_EDGE: Colour = (96, 110, 135)
NIGHT: Colour = (24, 27, 36)
INK: Colour = (38, 40, 48)
GOLD: Colour = (226, 160, 34)
GREEN: Colour = (38, 140, 107)
LOCK_COLOURS: dict[str, Colour] = {"a": (203, 75, 50), "b": (44, 110, 178), "c": (136, 86, 167)}


def picture(rows: Sequence[str]) -> ImageBlock:
    """Return `rows` of marks, which are those of the text map and those above, as a PNG."""
    lines, palette = _tiles()
    pixels: list[bytes] = []
    for y, row in enumerate(rows):
        tiles = [
            lines[_in_front(rows, y, x) if mark == WALL else mark] for x, mark in enumerate(row)
        ]
        # pasting tiles would give up the interpreter for each of them
        pixels += map(b"".join, zip(*tiles, strict=True))
    canvas = Image.frombytes("P", (len(rows[0]) * TILE, len(rows) * TILE), b"".join(pixels))
    canvas.putpalette(palette)
    out = io.BytesIO()
    canvas.save(out, "PNG", compress_level=4)
    return ImageBlock(data=base64.b64encode(out.getvalue()).decode(), mimeType="image/png")


def _in_front(rows: Sequence[str], y: int, x: int) -> str:
    below = rows[y + 1][x] if y + 1 < len(rows) else WALL
    return WALL if below in (WALL, UNSEEN) else FRONT


@cache
def _tiles() -> tuple[dict[str, list[bytes]], list[int]]:
    """Return the lines of pixels of every tile by its mark, and the palette of all."""
    marks = [WALL, FRONT, UNSEEN, FLOOR, TRAIL, START, EXIT, PLAYER, *KEYS, *DOORS]
    marks += [*PLAYER_ON_KEY.values(), *OPEN_DOOR.values()]
    sheet = Image.new("RGB", (TILE * FINE * len(marks), TILE * FINE), PAPER)
    for number, mark in enumerate(marks):
        sheet.paste(_tile(mark), (number * TILE * FINE, 0))
    small = sheet.reduce(FINE).quantize(256, dither=Image.Dither.NONE)
    pixels, width = small.tobytes(), TILE * len(marks)
    starts = range(0, TILE * width, width)
    lines = {
        mark: [pixels[start + n * TILE : start + (n + 1) * TILE] for start in starts]
        for n, mark in enumerate(marks)
    }
    return lines, small.getpalette() or []


def _tile(mark: str) -> Image.Image:
    """Return a tile at FINE times its size. Coordinates below are thirty-seconds of its side."""
    side = TILE * FINE
    tile = Image.new("RGB", (side, side), PAPER)
    brush = _Brush(tile)
    if mark in (WALL, FRONT, UNSEEN):
        _stone(brush, mark)
        return tile
    brush.draw.rectangle((0, 0, side - 1, side - 1), outline=GROUT, width=FINE // 2)
    if mark == TRAIL:
        brush.disc(16, 16, 2.5, (205, 193, 168))
    elif mark == START:
        brush.ring(16, 16, 9, (176, 163, 136))
    elif mark == EXIT:
        _flag(brush)
    elif mark == PLAYER or mark in PLAYER_ON_KEY.values():
        _player(
            brush, key=next((key for key, other in PLAYER_ON_KEY.items() if other == mark), None)
        )
    elif mark in KEYS:
        _key(brush, LOCK_COLOURS[mark], mark)
    elif mark in DOORS:
        _door(brush, LOCK_COLOURS[mark.lower()], mark)
    elif mark in OPEN_DOOR.values():
        _open_door(
            brush,
            next(LOCK_COLOURS[door.lower()] for door, other in OPEN_DOOR.items() if other == mark),
        )
    return tile


class _Brush:
    """Draws in thirty-seconds of a tile."""

    def __init__(self, tile: Image.Image) -> None:
        self.draw = ImageDraw.Draw(tile)

    def box(
        self, x: float, y: float, right: float, bottom: float, fill: Colour, radius: float = 0
    ) -> None:
        edges = tuple(round(value * TILE * FINE / 32) for value in (x, y, right, bottom))
        self.draw.rounded_rectangle(
            (edges[0], edges[1], edges[2] - 1, edges[3] - 1), radius * FINE, fill=fill
        )

    def disc(self, x: float, y: float, radius: float, fill: Colour) -> None:
        self.draw.ellipse(
            [value * FINE for value in (x - radius, y - radius, x + radius, y + radius)], fill=fill
        )

    def ring(self, x: float, y: float, radius: float, colour: Colour, width: float = 2) -> None:
        box = [value * FINE for value in (x - radius, y - radius, x + radius, y + radius)]
        self.draw.ellipse(box, outline=colour, width=round(width * FINE))

    def shape(self, points: Sequence[tuple[float, float]], fill: Colour) -> None:
        self.draw.polygon([(x * FINE, y * FINE) for x, y in points], fill=fill)

    def letter(self, x: float, y: float, text: str, size: float, fill: Colour) -> None:
        font = ImageFont.load_default(size * FINE)
        self.draw.text(
            (x * FINE, y * FINE),
            text,
            fill=fill,
            font=font,
            anchor="mm",
            stroke_width=1.2,
            stroke_fill=fill,
        )


def _stone(brush: _Brush, mark: str) -> None:
    brush.box(0, 0, 32, 32, NIGHT if mark == UNSEEN else STONE)
    if mark == FRONT:
        brush.box(0, 19, 32, 32, STONE_FRONT)
        brush.box(0, 18, 32, 19.5, STONE_EDGE)
        for x, y in ((10, 19), (26, 19), (2, 25.5), (18, 25.5)):
            brush.box(x, y, x + 0.75, y + 6.5, STONE)
        brush.box(0, 25.25, 32, 26, STONE)
    if mark == UNSEEN:
        brush.disc(16, 16, 1.2, (52, 57, 72))


def _flag(brush: _Brush) -> None:
    brush.box(2, 2, 30, 30, (214, 236, 223), radius=5)
    brush.disc(11, 27, 4, (150, 200, 176))
    brush.box(10, 5, 12, 27.5, INK, radius=1)
    brush.shape([(12, 5.5), (26, 10.5), (12, 16)], GREEN)


def _player(brush: _Brush, key: str | None) -> None:
    if key:
        _key(brush, LOCK_COLOURS[key], "")
    brush.disc(16, 18, 11.5, (214, 203, 180))
    brush.disc(16, 16, 11, INK)
    brush.disc(16, 16, 9.8, GOLD)
    for x in (12.3, 19.7):
        brush.disc(x, 14, 2.6, (255, 255, 255))
        brush.disc(x, 14.6, 1.4, INK)
    brush.draw.arc(
        [value * FINE for value in (11, 13, 21, 22.5)], 30, 150, fill=INK, width=round(1.4 * FINE)
    )
    if key:
        brush.disc(26, 26, 5.5, LOCK_COLOURS[key])
        brush.letter(26, 26, key, 9, (255, 255, 255))


def _key(brush: _Brush, colour: Colour, letter: str) -> None:
    brush.box(15, 20.5, 29, 24, colour, radius=1)
    brush.box(22, 22, 24.5, 28, colour, radius=0.5)
    brush.box(26.5, 22, 29, 28, colour, radius=0.5)
    brush.disc(10.5, 15, 8.5, colour)
    brush.shape([(12, 18), (17, 16), (20, 22), (15.5, 23.5)], colour)
    brush.letter(10.5, 14.5, letter, 13, (255, 255, 255))


def _door(brush: _Brush, colour: Colour, letter: str) -> None:
    brush.box(1, 1, 31, 32, INK, radius=3)
    brush.box(3.5, 3.5, 28.5, 32, colour, radius=2)
    brush.box(3.5, 22.5, 28.5, 24, tuple(value * 3 // 4 for value in colour))  # type: ignore[arg-type]  # three values
    brush.letter(16, 13, letter, 16, (255, 255, 255))
    brush.disc(25, 20, 1.5, (255, 255, 255))


def _open_door(brush: _Brush, colour: Colour) -> None:
    for left in (1.0, 27.0):
        brush.box(left, 1, left + 4, 32, INK, radius=1)
        brush.box(left + 1, 2, left + 3, 32, colour)
