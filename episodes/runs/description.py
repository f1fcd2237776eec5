"""What a trainer says about its run: the members of a description and of a batch of scalars, what
each may contain, and how it is stored."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any

from environments.database.storable import (
    double_of,
    is_storable,
    storable,
    storable_json,
)
from environments.errors import shorten
from environments.filtering.parameters import LEGAL, BadFilter, unknown_name
from environments.runtime.records import MAX_TRAINING_STEP
from environments.wire import value_json
from episodes.models import Run
from episodes.models.scalars import MAX_SCALAR_NAME_CHARACTERS
from episodes.runs.scalars import StepScalars

MAX_NAME_CHARACTERS = 200
MAX_ID_CHARACTERS = 200
MAX_MODEL_CHARACTERS = 200
MAX_COMMIT_CHARACTERS = 100
MAX_NOTES_CHARACTERS = 20_000
MAX_CONFIG_CHARACTERS = 256 * 1024
MAX_TAGS = 50
MAX_TAG_CHARACTERS = 50
MAX_BATCH_VALUES = 10_000
"""Values of scalars in one request."""
NO_NUMBERS: Mapping[str | None, float] = {
    **{"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf},
    **{"nan": math.nan, "inf": math.inf, "-inf": -math.inf},
    None: math.nan,
}
"""What JSON has for values that are no numbers: texts as JavaScript or Python write them, or
null."""
STATES = tuple(name for name, _ in Run.STATES)


def run_name(text: str) -> str:
    """Return the name without blanks around it, as the recorder stores it for episodes that name
    the run.

    Raises: BadFilter, also for a name that no database stores as it is, because that would become
    another run's.
    """
    name = text.strip()
    if not is_storable(name):
        raise BadFilter(
            "name",
            shorten(text, 80),
            "the name of a run cannot contain NUL or half of a surrogate pair",
        )
    if not name or len(name) > MAX_NAME_CHARACTERS:
        legal = (
            f"the name of a run has 1 to {MAX_NAME_CHARACTERS} characters, not counting blanks "
            "around it"
        )
        raise BadFilter("name", shorten(text, 80), legal)
    return name


def parsed_description(body: Any) -> dict[str, Any]:
    """Return the values of a description by member, as they are stored; `tags` is a list. Raises:
    BadFilter."""
    if not isinstance(body, Mapping):
        raise BadFilter(
            "body", _brief(body), 'the body has to be a JSON object, such as {"step": 12}'
        )
    for name, value in body.items():
        if name not in _PARSERS:
            raise unknown_name(
                name, _brief(value), tuple(_PARSERS), "member of a run", "members of a run"
            )
    return {name: _PARSERS[name](name, value) for name, value in body.items()}


def parsed_batch(body: Any) -> tuple[str, list[StepScalars]]:
    """Return the name of the run in a batch of scalars, and the points. Raises: BadFilter."""
    if not (isinstance(body, Mapping) and isinstance(body.get("run"), str)):
        form = '{"run": "grpo-3", "points": [{"step": 12, "scalars": {"loss": 0.31}}]}'
        raise BadFilter("body", _brief(body), f"the body has to be a JSON object such as {form}")
    rows = body.get("points")
    for name in body.keys() - {"run", "points"}:
        raise unknown_name(name, _brief(body[name]), ("run", "points"), "member", "members")
    if not isinstance(rows, list):
        raise BadFilter("points", _brief(rows), "it has to be a list")
    points, count = list[StepScalars](), 0
    for place, row in enumerate(rows):
        field = f"points[{place}]"
        if not isinstance(row, Mapping) or row.keys() != {"step", "scalars"}:
            legal = 'it has to be an object with "step" and "scalars"'
            raise BadFilter(field, _brief(row), legal)
        step = _step(f"{field}.step", row["step"])
        if step is None:
            raise BadFilter(f"{field}.step", "null", "a point has a training step, such as 12")
        points.append((step, _scalars(f"{field}.scalars", row["scalars"])))
        count += len(points[-1][1])
    if count > MAX_BATCH_VALUES:
        legal = f"a request has at most {MAX_BATCH_VALUES:,} values; send several"
        raise BadFilter("points", f"{count:,} values", legal)
    return body["run"], points


def _scalars(name: str, value: Any) -> dict[str, float]:
    if value is None:
        return {}
    if not isinstance(value, Mapping) or len(value) > MAX_BATCH_VALUES:
        raise BadFilter(name, _brief(value), 'it has to be an object such as {"loss": 0.31}')
    for key in value:
        is_name = is_storable(key) and key == key.strip() and "," not in key
        if not (is_name and 0 < len(key) <= MAX_SCALAR_NAME_CHARACTERS):
            legal = (
                f"the name of a scalar has 1 to {MAX_SCALAR_NAME_CHARACTERS} characters, no comma, "
                "and no blank at its ends"
            )
            raise BadFilter(name, shorten(key, 80), legal)
    return {key: _number(f"{name}.{key}", number) for key, number in value.items()}


def _number(name: str, value: Any) -> float:
    if (value is None or isinstance(value, str)) and value in NO_NUMBERS:
        return NO_NUMBERS[value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return double_of(value)
    legal = 'it has to be a number; "NaN", "Infinity", "-Infinity" or null if it is none'
    raise BadFilter(name, _brief(value), legal)


def _step(name: str, value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_TRAINING_STEP:
        legal = f"a whole number from 0 to {MAX_TRAINING_STEP}, such as 12, or null"
        raise BadFilter(name, _brief(value), f"it has to be {legal}")
    return value


def _text(limit: int) -> Callable[[str, Any], str]:
    def parse(name: str, value: Any) -> str:
        if value is None:
            return ""
        if not isinstance(value, str) or len(value) > limit:
            raise BadFilter(
                name, _brief(value), f"it has to be a text of at most {limit:,} characters, or null"
            )
        return storable(value)

    return parse


def _config(name: str, value: Any) -> str:
    if value is None:
        return ""
    text = storable_json(value_json(value))
    if not isinstance(value, Mapping) or len(text) > MAX_CONFIG_CHARACTERS:
        legal = (
            f"it has to be a JSON object of at most {MAX_CONFIG_CHARACTERS:,} characters, or null"
        )
        raise BadFilter(name, _brief(value), legal)
    return text


def _tags(name: str, value: Any) -> list[str]:
    if value is None:
        return []
    is_list = isinstance(value, list) and len(value) <= MAX_TAGS
    tags = [tag.strip() if isinstance(tag, str) else "" for tag in value] if is_list else [""]
    if not all(0 < len(tag) <= MAX_TAG_CHARACTERS for tag in tags):
        legal = (
            f"it has to be a list of at most {MAX_TAGS} texts with 1 to {MAX_TAG_CHARACTERS} "
            "characters each"
        )
        raise BadFilter(name, _brief(value), legal)
    return list(dict.fromkeys(map(storable, tags)))


def _state(name: str, value: Any) -> str:
    if value not in STATES:
        raise BadFilter(name, _brief(value), f"{LEGAL}{', '.join(STATES)}")
    return str(value)


def _own_id(name: str, value: Any) -> str:
    text = value.strip() if isinstance(value, str) and is_storable(value) else ""
    if value is not None and not 0 < len(text) <= MAX_ID_CHARACTERS:
        raise BadFilter(
            name,
            _brief(value),
            f"it has to be a text of 1 to {MAX_ID_CHARACTERS} characters, or null",
        )
    return text


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise BadFilter(name, _brief(value), f"{LEGAL}true, false")
    return value


def _brief(value: Any) -> str:
    """Return the JSON of a value, in which a text differs from a number."""
    return shorten(value_json(value), 80)


_PARSERS: Mapping[str, Callable[[str, Any], Any]] = {
    "step": _step,
    "state": _state,
    "model": _text(MAX_MODEL_CHARACTERS),
    "config": _config,
    "git_commit": _text(MAX_COMMIT_CHARACTERS),
    "notes": _text(MAX_NOTES_CHARACTERS),
    "tags": _tags,
    "run_id": _own_id,
    "resume": _flag,
    "scalars": _scalars,
}
MEMBERS: Collection[str] = tuple(_PARSERS)
"""Names of the members of a description."""
