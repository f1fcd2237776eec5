"""The secrets and the run that a request names when it opens a session.

Secrets come in the header X-Secrets (or in a body). Those whose names begin with `orsweb_` describe
the run and are not passed to the environment; another spelling, such as ORSWEB_RUN, is refused.
Headers such as X-Run and X-Run-Id say the same; a secret wins. A label that looks like a field of
the run that the client left out is noted in the log, a few times a minute at most, and where its
episodes are shown.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from functools import lru_cache

from environments import security_log
from environments.agents.http.view import utf8
from environments.database.storable import id_in, storable_json
from environments.errors import InvalidRequest, shorten
from environments.keys.agent_key import AgentKey
from environments.runtime.records import (
    MAX_TRAINING_STEP,
    RUN_FIELDS,
    RUN_PREFIX,
    RunInfo,
    mistaken_labels,
)
from environments.security_log.event import LABELS_MISTYPED
from environments.wire import value_json

MAX_NAME_CHARACTERS = 200
"""Longest name of a run or a model: the width of their database columns."""
MAX_LOGGED_CHARACTERS = 80
_EXACT = {f"{RUN_PREFIX}{field}" for field in RUN_FIELDS}
YES = frozenset(("1", "true", "yes", "on"))
NO = frozenset(("", "0", "false", "no", "off"))


def secrets_in(header: str) -> dict[str, str]:
    """Return the secrets in X-Secrets, base64 of `{name: {"value": string, …}}`.

    Raises: InvalidRequest, whose message shows nothing of the header.
    """
    if not header:
        return {}
    try:
        secrets: dict[str, str] = {
            name: secret["value"]
            for name, secret in json.loads(base64.b64decode(header, validate=True)).items()
        }
    except (binascii.Error, ValueError, AttributeError, KeyError, TypeError, RecursionError):
        secrets = {"": None}  # type: ignore[dict-item]
    if not all(isinstance(value, str) for value in secrets.values()):
        raise InvalidRequest('X-Secrets must be base64 of a JSON object {name: {"value": string}}')
    return secrets


def take_run_fields(secrets: dict[str, str]) -> dict[str, str]:
    """Remove the secrets that describe the run from `secrets`, and return them without their
    prefix.

    Raises: InvalidRequest for a name such as ORSWEB_RUN.
    """
    for name in secrets:
        if (exact := name.lower().replace("-", "_")) in _EXACT and name != exact:
            raise InvalidRequest(
                f"The secret {name!r} has to be named {exact!r} to describe the run"
            )
    names = [name for name in secrets if name.startswith(RUN_PREFIX)]
    return {name.removeprefix(RUN_PREFIX): secrets.pop(name) for name in names}


def run_headers(meta: Mapping[str, str]) -> dict[str, str]:
    """Return what the headers of RUN_FIELDS, such as X-Run-Id, say about the run. Raises:
    InvalidRequest."""
    texts = {field: meta.get(f"HTTP_X_{field.upper()}") for field in RUN_FIELDS}
    return {field: utf8(text, header_of(field)) for field, text in texts.items() if text}


def header_of(field: str) -> str:
    """Return the header that says a field of the run: X-Run-Id."""
    return f"X-{field.replace('_', '-').title()}"


def run_info(fields: Mapping[str, str], key: AgentKey) -> RunInfo:
    """Return the run that `fields` describe: RUN_FIELDS, and labels under other names.

    Without a name, the run is that of the key, if it has one, or is named like its id.

    Raises: InvalidRequest; Forbidden if the key belongs to another run.
    """
    values = dict(fields)
    texts = {field: values.pop(field, "").strip() for field in RUN_FIELDS}
    own_id, model = texts["run_id"], texts["model"]
    name = texts["run"] or key.run or own_id
    key.check_run(name)
    for what, text in (("run's name", name), ("model's name", model), ("run's id", own_id)):
        if len(text) > MAX_NAME_CHARACTERS:
            raise InvalidRequest(
                f"The {what} has {len(text)} characters; at most {MAX_NAME_CHARACTERS} are allowed"
            )
    if (resume := texts["resume"].lower()) not in YES | NO:
        raise InvalidRequest(f"resume is {shorten(resume, 40)!r}; it must be 1 or 0")
    if values:
        missing = tuple(field for field, text in {**texts, "run": name}.items() if not text)
        _note_mistakes(key.label, tuple(values), missing)
    step = id_in(texts["step"])
    if texts["step"] and (step is None or step > MAX_TRAINING_STEP):
        rule = f"a whole number from 0 to {MAX_TRAINING_STEP}, in digits, such as 12"
        raise InvalidRequest(f"the training step is {texts['step'][:40]!r}; it must be {rule}")
    labels = storable_json(value_json(values)) if values else ""
    return RunInfo(name, step, model, labels, own_id, is_resumed=resume in YES)


@lru_cache(1024)
def _note_mistakes(owner: str, labels: tuple[str, ...], missing: tuple[str, ...]) -> None:
    """Note labels that look like fields of the run; the cache keeps equal sessions of a key from
    being noted again."""
    mistakes = [
        f"{RUN_PREFIX}{shorten(label, MAX_LOGGED_CHARACTERS)} (did you mean {RUN_PREFIX}{field}?)"
        for label, field in mistaken_labels(labels, missing).items()
    ]
    if mistakes:
        security_log.note(LABELS_MISTYPED, ", ".join(mistakes), who=owner, address="")
