"""Tests of /openapi.json and /schema.json. `serving` compares every answer to the tests in this
folder with them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from drf_spectacular.validation import validate_schema
from jsonschema import Draft202012Validator, ValidationError

from environments.agents.http.errors import STATUS
from environments.agents.ors import openapi
from environments.agents.ors.message_schemas import defined_types
from environments.agents.ors.operations import ENVIRONMENT_OPERATIONS, ROOT_OPERATIONS
from environments.agents.ors.urls import ENVIRONMENT_PATHS, ROOT_PATHS
from tests.described import document
from tests.environments.agents.ors.serving import serving

SNAPSHOT = Path(__file__).parents[3] / "snapshots" / "protocol.yaml"


async def test_both_documents_need_no_key(db: None) -> None:
    async with serving(
        "tests.envs:Echo", ORSWEB_API_KEYS={"trainer": "0123456789abcdef"}
    ) as client:
        found = [
            await client.get("/openapi.json"),
            await client.get("/schema.json"),
            await client.get("/tools"),
        ]
    assert [answer.status_code for answer in found] == [200, 200, 401]
    assert found[0].json() == document() and found[1].json() == openapi.json_schema()


def test_the_document_equals_its_snapshot() -> None:
    """After an intended change, update the snapshot: python -m
    tests.environments.agents.ors.snapshot"""
    assert document() == yaml.safe_load(SNAPSHOT.read_text(encoding="utf-8"))


def test_the_document_is_valid_openapi() -> None:
    validate_schema(document())


@pytest.mark.parametrize(
    ("described", "served"),
    [(ROOT_OPERATIONS, ROOT_PATHS), (ENVIRONMENT_OPERATIONS, ENVIRONMENT_PATHS)],
)
def test_every_path_is_described(described: dict[str, Any], served: dict[str, Any]) -> None:
    assert {word: {one.method} for word, one in described.items()} == {
        word: {"get", "post"} & set(dir(view)) for word, view in served.items()
    }


def test_every_operation_has_a_name_of_its_own() -> None:
    names = [one["operationId"] for path in document()["paths"].values() for one in path.values()]
    assert len(names) == len(set(names)) == len(ROOT_PATHS) + 2 * len(ENVIRONMENT_PATHS)


def test_every_status_of_an_error_is_described() -> None:
    assert {*STATUS.values()} <= {*openapi.REFUSALS}


def test_every_field_is_described() -> None:
    """Except those that tell types apart, the only field of a type, and the result itself."""
    bare = [
        f"{name}.{field}"
        for name, one in document()["components"]["schemas"].items()
        for field, schema in one.get("properties", {}).items()
        if "description" not in schema and "const" not in schema and "$ref" not in schema
    ]
    assert not bare


def test_the_json_schema_describes_messages() -> None:
    schema = {**openapi.json_schema(), "$ref": "#/$defs/RunToolOutput"}
    validator: Any = Draft202012Validator(schema)
    validator.check_schema(schema)
    output = {
        "blocks": [{"type": "text", "text": "4"}],
        "metadata": None,
        "reward": 1.0,
        "finished": True,
    }
    validator.validate({"ok": True, "output": output})
    with pytest.raises(ValidationError):
        validator.validate({"ok": True, "error": "no"})


def test_the_json_schema_refers_to_its_own_types_only() -> None:
    names = set(re.findall(r"'\$ref': '([^']*)'", str(openapi.json_schema())))
    assert names <= {f"#/$defs/{name}" for name in defined_types()}
