"""Each flaw is found by the check that is meant for it, with a sentence that names it."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from django.conf import settings

from environments.checking.check_state import CheckOptions
from environments.checking.checked_environment import Broken
from environments.checking.checker import check_class
from environments.checking.checks import fresh_process, isolation, trials
from environments.checking.report import CheckReport, Finding
from tests.rows import each

ROOT = Path(__file__).resolve().parents[3]
FLAWS = [
    ("Shuffled", "tasks", "repeatable order", "failed", "first at index"),
    (
        "OfASet",
        "processes",
        "same in every process",
        "warning",
        "Split 'train' depends on Python's hash seed",
    ),
    (
        "OfItsProcess",
        "processes",
        "same in every process",
        "failed",
        "Split 'train' differs between two processes",
    ),
    (
        "PaysByHash",
        "processes",
        "same in every process",
        "warning",
        "'step', depends on Python's hash seed; sort the",
    ),
    ("Bare", "tasks", "not empty", "failed", "No split has a task"),
    ("HalfBare", "tasks", "not empty", "warning", "Split 'test' has no task"),
    ("Repeating", "tasks", "no duplicates", "warning", "first at index 2"),
    ("Repeating", "tasks", "separate splits", "warning", "share 2 tasks"),
    (
        "Rewording",
        "tasks",
        "distinct splits",
        "warning",
        "'train' and 'test' have 3 tasks that say the same",
    ),
    ("Miscounting", "tasks", "count and index", "failed", "counts 2 tasks and lists 1"),
    (
        "Unkept",
        "tasks",
        "task schema",
        "failed",
        "Task train[2] does not match task_schema: $.place",
    ),
    ("NotJson", "tasks", "listings", "failed", "task 0"),
    ("Silent", "prompts", "prompts", "failed", "is empty"),
    (
        "Misspelling",
        "environment",
        "attributes",
        "warning",
        "Misspelling.hidden_field is no attribute",
    ),
    (
        "HidingNothing",
        "prompts",
        "hidden fields",
        "warning",
        "names 'answer', 'key', which no sampled task has",
    ),
    ("Telling", "prompts", "no answers", "failed", "contains the task's 'place'"),
    ("Changing", "prompts", "repeatable prompt", "warning", "differs in a second session"),
    (
        "WrongImage",
        "prompts",
        "prompts",
        "failed",
        "the data is image/gif, but the type is image/png",
    ),
    ("NeedsSecret", "prompts", "sessions open", "failed", "KeyError: 'API_KEY'"),
    ("Crashing", "play", "tools run", "failed", "Tool 'jump' failed"),
    (
        "Misconstruing",
        "play",
        "tools run",
        "failed",
        f"({ROOT}/tests/environments/checking/flawed.py, line ",
    ),
    ("Undescribed", "environment", "described", "ok", "It has a docstring or a card."),
    (
        "SetsAnAlarm",
        "play",
        "tools run",
        "failed",
        'have a main thread with isolation = "session" and own_thread',
    ),
    (
        "SelfCancelling",
        "play",
        "tools run",
        "failed",
        "Tool 'step' in train[0] cancelled its own task",
    ),
    ("Unfinished", "rewards", "range", "warning", "declares no reward_range"),
    ("Uncounted", "rewards", "convention", "failed", "'no_call': 'keep'; use 'zero' or 'out'"),
    ("Overpaid", "rewards", "range", "failed", "returned 7"),
    ("Grand", "rewards", "declarations", "ok", "within \u22122,000,000 to 2,500,000."),
    ("Grand", "rewards", "success", "ok", "An episode succeeds above 1,250,000."),
    (
        "Grand",
        "rewards",
        "range",
        "ok",
        "Returns from 1,250,000 to 1,500,000 were seen, within \u22122,000,000 to",
    ),
    (
        "Grand",
        "trials",
        "oracle",
        "failed",
        "The oracle returned 1,250,000 in train[0], below the top of \u22122,000,000",
    ),
    (
        "Grand",
        "trials",
        "doing nothing",
        "failed",
        "returned 1,500,000 in train[0], more than 0: wait {} 1,500,000",
    ),
    (
        "Grand",
        "trials",
        "exploits",
        "failed",
        "The exploit 'no work' returned 1,500,000 in train[0]",
    ),
    ("NoNumber", "play", "nothing lost in JSON", "failed", "the reward nan"),
    ("NoNumber", "play", "the end is rewarded", "warning", "without any reward"),
    ("ShortOfScores", "play", "groups are scored", "failed", "1 scores for 2 candidates"),
    ("Gullible", "play", "invalid inputs are refused", "warning", "'say'"),
    ("Picky", "play", "inputs accepted", "warning", "'give' refused all"),
    (
        "OddSessionTools",
        "prompts",
        "callable names",
        "warning",
        "Tool name 'gehe weiter' is not accepted by the APIs",
    ),
    ("OddSessionTools", "prompts", "described", "warning", "Tool 'gehe weiter' has no description"),
    (
        "OddSessionTools",
        "prompts",
        "portable schemas",
        "warning",
        "of tool 'gehe weiter' is a union or a reference at its",
    ),
    (
        "OddSessionTools",
        "prompts",
        "portable schemas",
        "warning",
        "at its root; no object fits a union or reference at its",
    ),
    (
        "OddSessionTools",
        "prompts",
        "portable schemas",
        "warning",
        "'lost' cannot be sent to models as it is: it refers to '#/$defs/X', which it does not "
        "contain; 'required' ",
    ),
    ("OddSessionTools", "prompts", "valid schemas", "failed", "of tool 'count' is of type 'array'"),
    (
        "OddTaskTool",
        "prompts",
        "callable names",
        "warning",
        "Tool name 'größe' is not accepted by the APIs",
    ),
    ("OddTaskTool", "tools", "callable names", "ok", "The APIs of models accept every name."),
    (
        "OddTaskTool",
        "prompts",
        "portable schemas",
        "warning",
        "of tool 'größe' is a union or a reference at its root",
    ),
    ("Unmarked", "tools", "marked methods", "warning", "lacks `-> ToolOutput`"),
    (
        "Underpaid",
        "trials",
        "oracle",
        "failed",
        'returned 0.5 in train[0], below the top of 0 to 1: step {"direction":',
    ),
    ("Overdone", "trials", "oracle", "failed", "returned 4 in train[0], above the top of 0 to 1"),
    (
        "Unplayable",
        "trials",
        "oracle",
        "failed",
        "Call 1 of the oracle in train[0], jump {}, was not answered",
    ),
    (
        "NotCalls",
        "trials",
        "completed",
        "failed",
        "A call is 'step'; give the tool's name and its input",
    ),
    (
        "PaysGivingUp",
        "trials",
        "doing nothing",
        "failed",
        "returned 0.2 in train[0], more than 0: give_up {} 0.2",
    ),
    (
        "PaysWaiting",
        "trials",
        "doing nothing",
        "failed",
        "returned 0.4 in train[0], more than 0: wait {} 0.1",
    ),
    (
        "PaysSilence",
        "trials",
        "doing nothing",
        "failed",
        'returned 0.3 in train[0], more than 0: finish {"text":""} 0.3',
    ),
    (
        "Hackable",
        "trials",
        "exploits",
        "failed",
        "The exploit 'to and fro' returned 0.25 in train[0]",
    ),
    ("Random", "sessions", "repeatable", "warning", "'step', had a different result"),
    ("Shared", "sessions", "side by side", "failed", "they share state"),
    ("SharedWithOracle", "sessions", "side by side", "failed", "they share state"),
    ("SharedWithExamples", "sessions", "side by side", "failed", "they share state"),
    (
        "Unguessable",
        "play",
        "tools run",
        "could not tell",
        'calls were refused, such as step {"word":',
    ),
    (
        "Unguessable",
        "sessions",
        "alone and together",
        "could not tell",
        "Define oracle(), or write examples",
    ),
    (
        "Unguessable",
        "trials",
        "exploits",
        "could not tell",
        "All calls of the exploit 'a guess' were refused",
    ),
    (
        "LosesPlaces",
        "snapshots",
        "round trip",
        "failed",
        "'step', had a different result after save() and load()",
    ),
    (
        "SavesNoBytes",
        "snapshots",
        "round trip",
        "failed",
        "save() returned str; let it return bytes",
    ),
    (
        "SavesAtRandom",
        "snapshots",
        "round trip",
        "not applicable",
        "sessions that make the same calls differ anyway",
    ),
    (
        "SavesSeldom",
        "snapshots",
        "nothing between snapshots",
        "warning",
        "snapshot_every is 3, and sessions end",
    ),
    ("Teardown", "teardown", "without setup", "warning", "AttributeError"),
    ("Teardown", "teardown", "twice", "warning", "AttributeError"),
    ("BadTeardown", "teardown", "after play", "failed", "the door is stuck"),
    (
        "Leaving",
        "teardown",
        "no process left",
        "warning",
        "A session left 'sleep 600' running after its teardown",
    ),
    (
        "LeavingThread",
        "teardown",
        "no thread left",
        "warning",
        "A session left 'watcher' running after its teardown",
    ),
    ("Sound", "teardown", "no process left", "ok", "A session leaves no process running."),
    ("Sound", "teardown", "no thread left", "ok", "A session leaves no thread running."),
    ("Blocking", "event loop", "never blocked", "warning", "Blocking.step (flawed.py"),
]


SHORTLY = CheckOptions(steps=12, timeout_seconds=30)
MAX_CALLS = 40
"""Calls after which an oracle is ended here. Those of some flawed classes would go on for ever."""
COMPARED = ("OfASet", "OfItsProcess", "PaysByHash", "Sound")
"""Classes whose lists are compared between processes. The flaws of the others do not depend on the
process."""


def processes_for(name: str) -> AbstractContextManager[Any]:
    """List the tasks here, except for COMPARED: each class would start two processes at 0.7 CPU
    seconds each."""
    here = patch.object(fresh_process, "_seen_in_process", seen_here)
    return nullcontext() if name in COMPARED else here


def seen_here(specification: str, seed: str, seconds: float, plays: str) -> dict[str, str]:
    try:
        return asyncio.run(fresh_process._digests(specification, plays))
    except Exception as error:
        raise Broken(str(error)) from error


@pytest.fixture(scope="module")
def report_of() -> Callable[[str], CheckReport]:
    reports: dict[str, CheckReport] = {}

    def checked(name: str) -> CheckReport:
        if name not in reports:
            with processes_for(name), patch.object(trials, "MAX_CALLS", MAX_CALLS):
                reports[name] = check_class(f"tests.environments.checking.flawed:{name}", SHORTLY)
        return reports[name]

    return checked


@each(("name", "subject", "check", "result", "words"), FLAWS)
def test_a_flaw_is_found(
    report_of: Callable[[str], CheckReport],
    name: str,
    subject: str,
    check: str,
    result: str,
    words: str,
) -> None:
    found = _finding(report_of(name), subject, check)
    assert found.result == result
    assert words in found.sentence


@each("name", ["Sound", "Saved", "Procedural", "Penalised"])
def test_an_environment_without_a_flaw_has_no_warning(
    report_of: Callable[[str], CheckReport], name: str
) -> None:
    assert _problems(report_of(name)) == []


def test_a_class_whose_sessions_have_processes_is_played_as_when_it_is_served() -> None:
    options = replace(SHORTLY, episodes=1, steps=2)  # each of two dozen sessions starts a process
    with processes_for("Alone"), patch.object(isolation, "COPIES", 2):
        report = check_class("tests.environments.checking.flawed:Alone", options)
    assert _problems(report) == []
    assert _finding(report, "snapshots", "round trip").result == "ok"


@pytest.mark.parametrize("name", ["OrsEcho", "OrwEcho"])
def test_classes_of_the_sdks_declare_oracles_and_exploits_too(name: str) -> None:
    with processes_for(name):
        report = check_class(f"tests.environments.checking.sdk_classes:{name}", SHORTLY)
    found = {
        finding.check: finding.sentence
        for finding in report.findings
        if finding.subject == "trials"
    }
    assert found == {
        "oracle": "The oracle returns 1, the top of 0 to 1, with 1 call in train[0], train[1].",
        "doing nothing": "Doing nothing, without a call, returns at most 0.",
        "exploits": "None returns more than 0: both words.",
    }


def test_it_reports_that_sessions_need_secrets() -> None:
    options = CheckOptions(secrets={"API_KEY": "k"}, timeout_seconds=30)
    with processes_for("NeedsSecret"):
        report = check_class("tests.environments.checking.flawed:NeedsSecret", options)
    assert (
        "Sessions do not open without secrets"
        in _finding(report, "sessions", "opens without secrets").sentence
    )


def test_the_same_seed_plays_the_same() -> None:
    name = "tests.environments.checking.flawed:Sound"
    with processes_for("one seed"):
        one, other = (check_class(name, CheckOptions(seed=7, timeout_seconds=30)) for _ in range(2))
    assert one.findings == other.findings


NOTHING = '{"secrets": {}, "plays": [], "seconds": 30}'
LIST_ALL = f"""
import asyncio, json, sys
from environments.checking.checks.fresh_process import _digests
print(json.dumps({{name: asyncio.run(_digests(name, {NOTHING!r})) for name in sys.argv[1:]}}))
"""


@cache
def bundled_lists() -> dict[str, dict[str, str]]:
    """List all bundled environments in one new process; return the digests of their splits."""
    command = [sys.executable, "-c", LIST_ALL, *settings.ORSWEB_BUNDLED_ENVIRONMENTS]
    variables = {**os.environ, "PYTHONHASHSEED": "1"}
    digests: dict[str, dict[str, str]] = json.loads(
        subprocess.check_output(command, cwd=ROOT, env=variables)
    )
    return digests


def seen_with_others(specification: str, hash_seed: str, *_: object) -> dict[str, str]:
    """Compare the tasks of a new process with those of this one, whose hash seed is random."""
    return (
        bundled_lists()[specification]
        if hash_seed == "1"
        else seen_here(specification, "", 0.0, NOTHING)
    )


EPISODES = {"environments.builtin.code:Code": 1}
"""Episodes that are played of an environment whose check starts programs in a sandbox for each; 2
of the others."""


@patch.object(isolation, "ROUNDS", 1)  # each starts a dozen programs in a sandbox
@patch.object(fresh_process, "_seen_in_process", seen_with_others)
@pytest.mark.parametrize("name", settings.ORSWEB_BUNDLED_ENVIRONMENTS)
def test_bundled_environments_pass_without_a_warning(name: str) -> None:
    # a busy machine may starve a program until it is stopped
    problems = _problems_of(name) and _problems_of(name)
    assert problems == []


def _problems_of(name: str) -> list[str]:
    """Return what the check of an environment finds, but for a sandbox that may be missing."""
    report = check_class(
        name, CheckOptions(episodes=EPISODES.get(name, 2), steps=3, timeout_seconds=120)
    )
    problems = [finding for finding in report.findings if finding.result in ("failed", "warning")]
    return [finding.sentence for finding in problems if finding.check != "available"]


def _finding(report: CheckReport, subject: str, check: str) -> Finding:
    [found] = [
        finding
        for finding in report.findings
        if (finding.subject, finding.check) == (subject, check)
    ]
    return found


def _problems(report: CheckReport) -> list[str]:
    return [
        finding.sentence for finding in report.findings if finding.result in ("failed", "warning")
    ]
