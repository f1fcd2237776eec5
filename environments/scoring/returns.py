"""Returns: what an episode's return may be made of. A class declares one; a page or a request may ask for another."""

from __future__ import annotations

from typing import Literal, get_args

Return = Literal["sum", "last", "max", "mean"]
"""Of the rewards of an episode's steps; last: the last that is not null."""
RETURNS: tuple[Return, ...] = get_args(Return)
