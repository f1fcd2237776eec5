"""The colour of a run: the same on every page and, unless an earlier curve has it, in every chart."""

from __future__ import annotations

ON_WHITE = (
    "#1b4a99",
    "#964d04",
    "#4ba153",
    "#5c1f61",
    "#a55e61",
    "#0ca099",
    "#9f66d0",
    "#a8890f",
    "#162eab",
    "#364619",
    "#8f024a",
    "#247a9e",
)
"""The colours of lines in the light theme: those of `--line-0` and so on in `tokens.css`. Each has
a class in `record.css`."""
COLOURS = len(ON_WHITE)


def colour_of_run(pk: int) -> int:
    """Return the number of the colour of the run with this id: runs that were started one after
    another differ."""
    return pk % COLOURS
