"""A canvas for charts: shapes and text in pixels of the whole picture, drawn for any window of it
at any magnification.

Used by `picture.py`. Drawing a window again, instead of enlarging a part of the picture, keeps
every edge crisp. The fonts are those of Pillow.
"""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

from PIL import Image, ImageDraw, ImageFont

from environments.wire import ImageBlock

WIDTH, HEIGHT = 900, 560
FINE = 2
"""Shapes are drawn this many times larger and then reduced, for smooth edges."""
MAX_MAGNIFICATION = 8.0

Colour = tuple[int, int, int]
Point = tuple[float, float]
PAPER: Colour = (255, 255, 255)


class Canvas:
    """A window of the picture: its left and top edge, its width and height, in pixels of the whole picture."""

    def __init__(
        self, left: float = 0, top: float = 0, width: float = WIDTH, height: float = HEIGHT
    ) -> None:
        self.magnification = min(WIDTH / width, HEIGHT / height, MAX_MAGNIFICATION)
        self.left, self.top, self.bottom = left, top, top + height
        self._scale = self.magnification * FINE
        size = tuple(round(side * self.magnification) * FINE for side in (width, height))
        self._image = Image.new("RGB", (size[0], size[1]), PAPER)
        self._draw = ImageDraw.Draw(self._image)

    def _at(self, x: float, y: float) -> Point:
        return (x - self.left) * self._scale, (y - self.top) * self._scale

    def _shows(self, place: Point, width: float, height: float) -> bool:
        """Return whether the window may show text of at most this size that is written at `place` with any anchor.

        Rendering the letters of a text outside of it takes longer than everything else that is drawn.
        """
        (x, y), (far_x, far_y) = self._at(*place), self._image.size
        return -width - height < x < far_x + width + height and -height < y < far_y + height

    def line(self, points: Sequence[Point], colour: Colour, width: float = 1) -> None:
        """Draw straight pieces from point to point as polygons: Pillow's own lines are thinner where they slant."""
        places = [self._at(*point) for point in points]
        for (x, y), (far_x, far_y) in pairwise(places):
            length = math.hypot(far_x - x, far_y - y) or 1.0
            across, down = (
                (far_y - y) / length * width * self._scale / 2,
                (x - far_x) / length * width * self._scale / 2,
            )
            corners = [(x + across, y + down), (far_x + across, far_y + down)]
            self._draw.polygon(
                [*corners, (far_x - across, far_y - down), (x - across, y - down)], fill=colour
            )

    def hairline(self, start: Point, end: Point, colour: Colour) -> None:
        """Draw a line that is one pixel wide at every magnification."""
        self._draw.line([self._at(*start), self._at(*end)], fill=colour, width=FINE)

    def box(self, left: float, top: float, right: float, bottom: float, colour: Colour) -> None:
        """Draw a filled box, its edges to the fraction of a pixel. Draw nothing for a box without area."""
        (x, y), (far_x, far_y) = self._at(left, top), self._at(right, bottom)
        if round(far_x) > round(x) and round(far_y) > round(y):
            self._draw.rectangle(
                (round(x), round(y), round(far_x) - 1, round(far_y) - 1), fill=colour
            )

    def disc(self, x: float, y: float, radius: float, colour: Colour) -> None:
        self._draw.ellipse(
            [*self._at(x - radius, y - radius), *self._at(x + radius, y + radius)], fill=colour
        )

    def wedge(
        self, middle: Point, radius: float, degrees: tuple[float, float], colour: Colour
    ) -> None:
        """Draw a slice of a disc, from and to degrees clockwise from the top."""
        x, y = middle
        box = [*self._at(x - radius, y - radius), *self._at(x + radius, y + radius)]
        self._draw.pieslice(box, degrees[0] - 90, degrees[1] - 90, fill=colour)

    def text(
        self, place: Point, text: str, colour: Colour, *, size: float = 13, anchor: str = "la"
    ) -> float:
        """Draw `text` and return its width. `anchor` is Pillow's: l, m or r, then a (top), m (middle) or d (bottom)."""
        font = _font(round(size * self._scale))
        width = font.getlength(text)
        if self._shows(place, width, 2 * size * self._scale):
            self._draw.text(self._at(*place), text, fill=colour, font=font, anchor=anchor)
        return width / self._scale

    def label(self, place: Point, text: str, colour: Colour, *, anchor: str) -> None:
        """Draw small text on a plate of paper, of one size at every magnification."""
        font = _font(15 * FINE)
        left, top, right, bottom = self._draw.textbbox(
            self._at(*place), text, font=font, anchor=anchor
        )
        self._draw.rounded_rectangle((left - 8, top - 6, right + 8, bottom + 6), 6, fill=PAPER)
        self._draw.text(self._at(*place), text, fill=colour, font=font, anchor=anchor)

    def heading(self, place: Point, text: str, colour: Colour, *, size: float) -> None:
        """Draw text in bolder strokes; there is only one font."""
        font, strokes = _font(round(size * self._scale)), size * self._scale / 45
        if not self._shows(place, font.getlength(text), 2 * size * self._scale):
            return
        self._draw.text(
            self._at(*place), text, colour, font, "la", stroke_width=strokes, stroke_fill=colour
        )

    def png(self) -> ImageBlock:
        """Return the picture in at most 256 colours: a third of the time and half the size that all colours take."""
        image = self._image.reduce(FINE).quantize(
            256, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE
        )
        # white is 254 there
        image.putpalette([255 if value == 254 else value for value in image.getpalette() or []])
        out = io.BytesIO()
        image.save(out, "PNG", compress_level=3)
        return ImageBlock(data=base64.b64encode(out.getvalue()).decode(), mimeType="image/png")


@lru_cache(maxsize=64)
def _font(size: int) -> ImageFont.FreeTypeFont:
    font = ImageFont.load_default(size)
    if not isinstance(font, ImageFont.FreeTypeFont):
        raise RuntimeError(
            "This Pillow was built without FreeType and cannot write text; install "
            "Pillow from PyPI."
        )
    return font
