"""Ways: what is to be told of a union that refuses a value: what the way that was meant says. `checking.py` asks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import jsonschema

from episodes.playtest.forms.control import Path, Problem
from episodes.playtest.forms.values import shown

Error = jsonschema.ValidationError


def meant(error: Error) -> Iterator[Error | Problem]:
    """Where a constant member tells the ways of a union apart: what the way with that constant refuses, or that none
    has it. Otherwise the error that jsonschema holds for the most telling, which may be of a way that nobody meant.
    """
    if error.validator in ("anyOf", "oneOf") and error.context:
        ways = set(range(len(cast(list[Any], error.validator_value))))
        for path, refused in _by_constant(error.context).items():
            left = ways - refused.keys()
            if not left:
                yield _none_of(path, refused)
                return
            if len(left) == 1 and len(ways) > 1:
                for one in error.context:
                    if one.relative_schema_path[0] in left:
                        yield from meant(one)
                return
    yield cast(Error, jsonschema.exceptions.best_match([error]))


def _by_constant(errors: list[Error]) -> dict[Path, dict[Any, Error]]:
    """Path of a member -> number of each way that wants another constant there -> its error."""
    found: dict[Path, dict[Any, Error]] = {}
    for one in errors:
        if one.validator == "const" and len(one.relative_path) == 1:
            found.setdefault(tuple(one.absolute_path), {})[one.relative_schema_path[0]] = one
    return found


def _none_of(path: Path, refused: dict[Any, Error]) -> Problem:
    errors = list(refused.values())
    known = ", ".join(shown(cast(Any, one.validator_value)) for one in errors[:12])
    return Problem(path, f"{shown(cast(Any, errors[0].instance))} is none of {known}.")
