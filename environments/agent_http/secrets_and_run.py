"""The secrets and the run that a request names when it opens a session.

Secrets come in the header X-Secrets (or in a body). Those whose names begin with `orsweb_` describe the run and are not
passed to the environment.
"""

from __future__ import annotations

import base64
import binascii
import json

from environments.errors import InvalidRequest
from environments.keys.agent_key import AgentKey
from environments.runtime.records import RunInfo
from environments.wire import value_json

RUN_PREFIX = "orsweb_"
"""First part of the names of secrets that describe the run."""
MAX_NAME_CHARACTERS = 200
"""Longest name of a run or a model: the width of their database columns."""
MAX_STEP = 2**62


def secrets_in(header: str) -> dict[str, str]:
    """Return the secrets in X-Secrets, base64 of `{name: {"value": string, …}}`.

    Raises: InvalidRequest, whose message shows nothing of the header.
    """
    if not header:
        return {}
    try:
        secrets: dict[str, str] = {
            name: secret["value"] for name, secret in json.loads(base64.b64decode(header, validate=True)).items()
        }
    except (binascii.Error, ValueError, AttributeError, KeyError, TypeError, RecursionError):
        secrets = {"": None}  # type: ignore[dict-item]
    if not all(isinstance(value, str) for value in secrets.values()):
        raise InvalidRequest('X-Secrets must be base64 of a JSON object {name: {"value": string}}')
    return secrets


def take_run_fields(secrets: dict[str, str]) -> dict[str, str]:
    """Remove the secrets that describe the run from `secrets`, and return them without their prefix."""
    names = [name for name in secrets if name.startswith(RUN_PREFIX)]
    return {name.removeprefix(RUN_PREFIX): secrets.pop(name) for name in names}


def run_info(fields: dict[str, str], default_run: str, key: AgentKey) -> RunInfo:
    """Return the run that `fields` describe: `run`, `step`, `model`, and labels under other names.

    `default_run` is the name of the run if `fields` has none; without either it is that of the key, if it has one.

    Raises: InvalidRequest; Forbidden if the key belongs to another run.
    """
    values = dict(fields)
    name = values.pop("run", "").strip() or default_run.strip() or key.run
    key.check_run(name)
    step, model = values.pop("step", "").strip(), values.pop("model", "").strip()
    for field, text in (("run", name), ("model", model)):
        if len(text) > MAX_NAME_CHARACTERS:
            raise InvalidRequest(
                f"The {field}'s name has {len(text)} characters; at most {MAX_NAME_CHARACTERS} are allowed"
            )
    return RunInfo(name, _whole_number(step), model, value_json(values) if values else "")


def _whole_number(text: str) -> int | None:
    if not text:
        return None
    try:
        number = int(text)
    except ValueError:
        number = -1
    if not 0 <= number <= MAX_STEP:
        raise InvalidRequest(f"orsweb_step is {text[:40]!r}; it must be a whole number from 0 to {MAX_STEP}")
    return number
