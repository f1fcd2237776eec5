"""The JSON text of a task that people wrote, checked before it is stored. Used by the editor of
tasks."""

from __future__ import annotations

import json
from typing import Any

from environments.curation.action import ActionProblem, InvalidSpec
from environments.errors import shorten
from environments.models import Environment
from environments.tasks import task_schema
from environments.tasks.stored_spec import Unfit, spec_text
from environments.wire import RepeatedKey, distinct_members, json_problem

MAX_CHARACTERS = 300
_KINDS: dict[type, str] = {
    list: "a list",
    str: "a string",
    bool: "true or false",
    type(None): "null",
}


def checked_spec(environment: Environment, text: str) -> str:
    """Return the spec in `text` as it will be stored, in compact JSON. Raises: InvalidSpec with the
    problems found."""
    spec = _strict(text)
    if problems := task_schema.check(environment.task_schema, json.loads(spec)):
        raise InvalidSpec(
            tuple(
                ActionProblem(".".join(map(str, problem.parts)), problem.message)
                for problem in problems
            )
        )
    return spec


def _strict(text: str) -> str:
    try:
        value = json.loads(text, object_pairs_hook=distinct_members, parse_constant=_refuse)
        if isinstance(value, dict):
            return spec_text(value)
    except json.JSONDecodeError as error:
        raise _invalid(f"line {error.lineno}, column {error.colno}: {error.msg}") from error
    except Unfit as error:
        raise _invalid(f"it {error}") from error
    except RepeatedKey as error:
        raise _invalid(f"it {error}") from error
    except RecursionError as error:
        raise _invalid("it is nested too deeply; flatten it") from error
    except ValueError as error:
        raise _invalid(json_problem(error)) from error
    raise _invalid(
        f"it is {_KINDS.get(type(value), 'a number')}, but a task has to be an object, "
        "such as {…}"
    )


def _invalid(message: str) -> InvalidSpec:
    return InvalidSpec((ActionProblem("", shorten(message, MAX_CHARACTERS)),))


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not a JSON number; use a finite number, null or a string")
