"""What a class says of its tasks' form: `task_schema`, a pydantic model or JSON Schema, or a class method returning one.

Sync keeps it as text; whoever changes or imports tasks checks their specs against it (`curation/spec.py`).
"""

from __future__ import annotations

import inspect
import json
from typing import Any

from jsonschema import SchemaError
from jsonschema.validators import Draft202012Validator, validator_for
from pydantic import BaseModel

from environments.curation.spec import schema_problems
from environments.errors import Unhostable, describe, shorten
from environments.hosting import Hosted

_SHOWN = 160


def declared(hosted: Hosted) -> str:
    """The class's task schema as JSON text; empty: it declares none. Raises: Unhostable."""
    schema = getattr(hosted.cls, "task_schema", None)
    if schema is None:
        return ""
    try:
        return _text(schema)
    except SchemaError as error:
        at = "".join(f".{part}" for part in error.absolute_path)
        problem = f"${at}: {shorten(error.message, _SHOWN)}"
        raise Unhostable(f"{hosted.name}: task_schema is no JSON Schema ({problem}).") from error
    except (Exception, SystemExit) as error:  # a method or a model of the author's
        raise Unhostable(f"{hosted.name}: task_schema cannot be read: {describe(error)}.") from error


def _text(schema: Any) -> str:
    if inspect.ismethod(schema) or inspect.isfunction(schema):
        schema = schema()
    if isinstance(schema, type) and issubclass(schema, BaseModel):
        schema = schema.model_json_schema()
    if not isinstance(schema, dict):
        raise TypeError(f"it is {type(schema).__name__}, not a pydantic model or a JSON Schema as a dict")
    text = json.dumps(schema, allow_nan=False)
    validator_for(schema, default=Draft202012Validator).check_schema(schema)
    unresolved = [problem.message for problem in schema_problems(text, {}) if "refers to" in problem.message]
    if unresolved:
        raise ValueError(unresolved[0])
    return text
