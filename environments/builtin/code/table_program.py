"""A program that looks its results up in a table; used by the oracle of `code` and by the demo's
player of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

_PROGRAM = """# This program was not written by a model: it looks its results up in a table.
RESULTS = {{
{rows}
}}


def {signature}:
    return RESULTS.get(repr(({names},)))
"""


def table_program(signature: str, cases: Iterable[Mapping[str, Any]]) -> str:
    """Return a program whose function returns what is expected in `cases`, and None for other
    arguments."""
    names = ", ".join(part.split(":")[0].strip() for part in _parameters(signature))
    rows = "\n".join(f"    {repr(tuple(case['args']))!r}: {case['expected']!r}," for case in cases)
    return _PROGRAM.format(rows=rows, signature=signature, names=names)


def _parameters(signature: str) -> list[str]:
    """Return the parameters of a signature, split at commas outside brackets.

    For example, `f(a: dict[str, int], b: int) -> int` has the parameters `a: dict[str, int]` and
    `b: int`.
    """
    parts, depth = [""], 0
    for character in signature.partition("(")[2].rpartition(")")[0]:
        depth += (character in "([") - (character in ")]")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return parts
