"""The colour of a run: the same on every page and, unless an earlier curve has it, in every chart."""

from __future__ import annotations

COLOURS = 12
"""Number of colours of lines, `--line-0` and so on in `tokens.css`; each has a class in
`record.css`."""


def colour_of_run(pk: int) -> int:
    """Return the number of the colour of the run with this id: runs that were started one after
    another differ."""
    return pk % COLOURS
