"""Definitions of return. An environment's class declares one of them; a page or a request can ask for another."""

from __future__ import annotations

from typing import Literal, get_args

Return = Literal["sum", "last", "max", "mean"]
"""How the rewards of an episode's steps make its return; "last" is the last reward that is not null."""
RETURNS: tuple[Return, ...] = get_args(Return)
