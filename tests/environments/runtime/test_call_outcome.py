"""The result that is sent for an outcome, live and from the record."""

from __future__ import annotations

import json

import pytest

from environments.errors import EnvironmentFault
from environments.runtime.call_outcome import (
    MAX_ERROR_CHARACTERS,
    CallOutcome,
    failed,
    faulted,
    refused,
)
from tests.rows import each

OUTPUT = '{"blocks":[],"metadata":null,"reward":1.0,"finished":true}'
FAULT = EnvironmentFault("ValueError", "wrong", "Traceback\nValueError: wrong")


def test_an_output_is_reported_byte_for_byte() -> None:
    assert (
        CallOutcome("ok", OUTPUT, 1.0, True).result("none").data
        == '{"ok":true,"output":' + OUTPUT + "}"
    )


@each("reason", ["not_found", "name_collision", "input_validation", "episode_finished"])
def test_a_refusal_is_an_answer_with_its_reason(reason: str) -> None:
    result = refused("no", reason).result("none")
    assert (result.event, json.loads(result.data)) == (
        "end",
        {"ok": False, "error": "no", "reason": reason},
    )


@pytest.mark.parametrize(
    ("mode", "text"),
    [("none", "Internal Server Error"), ("exception", "wrong"), ("stacktrace", FAULT.trace)],
)
def test_the_mode_says_how_much_of_a_fault_is_reported(mode: str, text: str) -> None:
    result = faulted(FAULT).result(mode)  # type: ignore[arg-type]
    assert (result.event, result.data) == ("error", text)


@pytest.mark.parametrize("reason", ["timeout", "deleted", "result_size"])
def test_what_the_server_itself_did_is_always_reported(reason: str) -> None:
    assert failed("because", reason).result("none").data == "because"


@each("text", ["", " \n", "\ud800", "x" * 100_000])
def test_an_error_is_never_empty_and_never_endless(text: str) -> None:
    assert 0 < len(failed(text, "ValueError").result("exception").data) <= MAX_ERROR_CHARACTERS


@pytest.mark.parametrize(
    "outcome", [CallOutcome("ok", OUTPUT), refused("no", "tool_error"), failed("bad", "timeout")]
)
def test_the_record_tells_the_same(outcome: CallOutcome) -> None:
    recorded = CallOutcome(
        outcome.status, outcome.output_json, error=outcome.error, reason=outcome.reason
    )
    assert recorded.result("exception") == outcome.result("exception")
