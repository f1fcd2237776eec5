"""code: write a Python function that passes hidden tests.

Actions: `run` with `code` shows what the program prints and how the function does on the task's
examples, as often as the agent likes; `submit` with `code` runs the hidden tests, once.
Observations: the task, the function's signature and examples as text; then outputs, exceptions and
counts.
Rewards: the share of the hidden tests that `submit` passed, 0.0 to 1.0; `run` has none.
End: `submit`.
Splits: train (500), validation (50), test (100), made by a seeded generator from 40 kinds of
puzzles with many variants each, of which 5 are only in test; no puzzle is in two of them.
Difficulty 1 takes a few lines, 4 dynamic programming. Safety: the program runs under bubblewrap
(`environments/sandbox/bubblewrap.py`). It receives only inputs; the
server keeps the expected results and compares.
Origin: written for this server. `puzzles/bank.py` says how to add a kind.
"""

from __future__ import annotations

import json
import math
import secrets as random_secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from environments import (
    Blocks,
    Calls,
    Environment,
    JSONObject,
    JSONValue,
    Split,
    TextBlock,
    ToolOutput,
    tool,
)
from environments.builtin.code.puzzles import bank
from environments.builtin.code.table_program import table_program
from environments.sandbox.bubblewrap import Ran, Sandbox, SandboxLimits, unavailable

MAX_RESULT_BYTES = 32 * 1024
MAX_SHOWN = 6000
"""Characters of a program's output that the agent sees."""
_RUNNER = Path(__file__).with_name("runner.py").read_text(encoding="utf-8")


class Case(BaseModel):
    """One call of the function."""

    args: list[JSONValue]
    expected: JSONValue
    is_public: bool = Field(
        default=False, description="Shown as an example; the others are hidden and decide"
    )


class Task(BaseModel):
    """A function to write."""

    model_config = ConfigDict(extra="allow", strict=True)

    question: str = Field(min_length=1)
    function: str = Field(pattern=r"^[A-Za-z_]\w*$", description="Name of the function")
    signature: str = Field(description="The function's signature after `def`, without the colon")
    test_cases: list[Case] = Field(min_length=1, max_length=100)
    time_limit: int = Field(default=2, ge=1, le=10, description="Seconds of CPU time for each call")


class Program(BaseModel):
    code: str = Field(
        max_length=50_000, description="A complete Python program that defines the function"
    )


class Answer(BaseModel):
    """The result of one call; `text` is its result as JSON, or the exception."""

    how: Literal["returned", "raised", "timeout", "died", "untried"]
    text: str


_ANSWERS = TypeAdapter(list[Answer])


class Code(Environment):
    """Write a Python function from its description, try it out, and submit it to hidden tests.

    Tools: `run` shows what a program prints and how it does on the examples; `submit` ends the episode with the share
    of the hidden tests passed as reward. Programs run in a sandbox without network, with limits of time and memory.
    Task: `question`, `function`, `signature`, `test_cases`, `time_limit`, `topic`, `difficulty` (1 to 4), `seed`.
    """

    success_threshold: ClassVar[float] = 0.99
    task_schema: ClassVar[Any] = Task
    replayable: ClassVar[bool] = True
    fixed_tasks: ClassVar[bool] = True
    hidden_fields: ClassVar[Sequence[str]] = ("test_cases",)

    def __init__(self, task_spec: JSONObject = {}, secrets: dict[str, str] = {}) -> None:
        super().__init__(task_spec, secrets)
        self.task = Task.model_validate(task_spec)
        # CPU time is short on a busy machine
        seconds = 30 + 4 * len(self.task.test_cases) * self.task.time_limit
        self.sandbox = Sandbox(SandboxLimits(cpu_seconds=60, wall_seconds=min(90, seconds)))

    def save(self) -> bytes:
        """Return nothing, because nothing is kept from one call to the next: no program has to be run again."""
        return b""

    def load(self, state: bytes) -> None:
        """Go on after the calls that were made before."""

    def teardown(self) -> None:
        self.sandbox.close()

    @classmethod
    def name(cls) -> str:
        return "code"

    @classmethod
    def unavailable(cls) -> str:
        return unavailable({"python3": "python3"})

    @classmethod
    def list_splits(cls) -> Sequence[Split | str]:
        return list(bank.COUNTS)

    @classmethod
    def list_tasks(cls, split: str) -> Sequence[JSONObject]:
        return bank.tasks(split)

    def get_prompt(self) -> Blocks:
        name, seconds = self.task.function, self.task.time_limit
        public, hidden_cases = self._cases(is_public=True), self._cases(is_public=False)
        examples = "\n".join(f"{_call_text(name, case)} -> {case.expected!r}" for case in public)
        text = (
            f"Write a Python function:\n\n    def {self.task.signature}\n\n{self.task.question}\n\n"
            + (f"Examples:\n{examples}\n\n" if public else "")
            + "Try it with the tool `run`, then call `submit` with the complete program. It is "
            f"tested with {len(hidden_cases)} hidden calls of at most {seconds} s each, and the "
            "share that is right is your reward. You "
            "submit once. Only Python's standard library is there; nothing is kept from one run to "
            "the next."
        )
        return [TextBlock(text=text)]

    # Plain, not async: a run blocks its own thread and delays nobody. Exclusive: a session has one
    # sandbox at a time.

    @tool(exclusive=True)
    def run(self, params: Program) -> ToolOutput:
        """Run a program: shows what it prints and how its function does on the examples. Has no reward."""
        cases = self._cases(is_public=True)
        ran, answers = self._ask(params.code, cases, has_free_run=True)
        parts = [_output_text(ran)]
        if ran.stop_reason:
            parts.append(f"The program was stopped: {ran.stop_reason}.")
        elif not answers:
            parts.append("The program ended the process that runs it.")
        elif answers[0].how in ("timeout", "died"):
            parts.append(f"The program alone {_what_happened(answers[0])}.")
        parts += [
            _example_text(self.task.function, *pair)
            for pair in zip(cases, answers[1:], strict=False)
        ]
        return ToolOutput(blocks=[TextBlock(text="\n".join(part for part in parts if part))])

    @tool(exclusive=True)
    def submit(self, params: Program) -> ToolOutput:
        """Submit the program. The reward is the share of the hidden tests that it passes; ends the episode."""
        cases = self._cases(is_public=False)
        ran, answers = self._ask(params.code, cases, has_free_run=False)
        passes = sum(is_right(case, answer) for case, answer in zip(cases, answers, strict=False))
        text = f"{passes} of {len(cases)} hidden tests passed."
        if failures := _failures(cases, answers, ran):
            text += f" {failures}"
        return ToolOutput(
            blocks=[TextBlock(text=text)],
            metadata={"passed": passes, "tests": len(cases)},
            reward=passes / len(cases),
            finished=True,
        )

    def oracle(self) -> Calls:
        program = table_program(
            self.task.signature, [case.model_dump() for case in self.task.test_cases]
        )
        return [("submit", {"code": program})]

    def exploits(self) -> Mapping[str, Calls]:
        equals_all = "class All:\n    __eq__ = lambda self, other: True\n"
        programs = {
            "an object that equals everything": f"{equals_all}\ndef {self.task.function}(*_):\n    "
            "return All()\n",
            "the process ends": "import os\nprint('10 of 10 tests passed')\nos._exit(0)\n",
        }
        return {name: [("submit", {"code": program})] for name, program in programs.items()}

    def _cases(self, *, is_public: bool) -> list[Case]:
        """Return the task's examples or its hidden tests; where a task hides none, its examples decide."""
        cases = [case for case in self.task.test_cases if case.is_public == is_public]
        return cases if cases or is_public else self.task.test_cases

    def _ask(
        self, program: str, cases: list[Case], *, has_free_run: bool
    ) -> tuple[Ran, list[Answer]]:
        """Return how the run ended, and the answers of the program alone and of each case; none if they are invalid.

        Raises: SandboxError, a fault of the machine that is never counted as a wrong answer.
        """
        request = {
            "program": program,
            "function": self.task.function,
            "inputs": [case.args for case in cases],
            "seconds": self.task.time_limit,
            "most_bytes": MAX_RESULT_BYTES,
            "has_free_run": has_free_run,
        }
        body, nonce = json.dumps(request).encode(), random_secrets.token_hex(16).encode()
        ran = self.sandbox.run(
            ["python3", "-I", "-S", "-c", _RUNNER], b"%08d" % len(body) + body + nonce
        )
        if ran.stop_reason or not ran.stdout.startswith(nonce):
            return ran, []
        try:
            return ran, _ANSWERS.validate_json(ran.stdout.removeprefix(nonce))
        except ValidationError:
            return ran, []


# --- results --------------------------------------------------------------------------------------


def is_right(case: Case, answer: Answer) -> bool:
    if answer.how != "returned":
        return False
    try:
        return is_same(json.loads(answer.text), case.expected)
    except (ValueError, RecursionError):  # the program's own text
        return False


def is_same(result: Any, expected: JSONValue) -> bool:
    """Return whether two JSON values are equal: floats to nine digits, 2 like 2.0, but true unlike
    1."""
    if isinstance(expected, bool) or expected is None:
        return result is expected
    if isinstance(expected, int | float):
        return (
            isinstance(result, int | float)
            and not isinstance(result, bool)
            and _is_close(result, expected)
        )
    if isinstance(expected, list):
        pairs_up = isinstance(result, list) and len(result) == len(expected)
        return pairs_up and all(map(is_same, result, expected))
    if isinstance(expected, dict):
        pairs_up = isinstance(result, dict) and result.keys() == expected.keys()
        return pairs_up and all(is_same(result[key], value) for key, value in expected.items())
    return bool(result == expected)


def _is_close(value: float, expected: float) -> bool:
    try:
        has_float = isinstance(value, float) or isinstance(expected, float)
        return value == expected or (
            has_float and math.isclose(value, expected, rel_tol=1e-9, abs_tol=1e-9)
        )
    except OverflowError:  # an integer beyond any float
        return False


# --- what the agent reads -------------------------------------------------------------------------


def _call_text(function: str, case: Case) -> str:
    return f"{function}({', '.join(map(repr, case.args))})"


def _output_text(ran: Ran) -> str:
    text = ran.stderr.decode(errors="replace")
    if len(text) > MAX_SHOWN or ran.is_cut:
        text = f"{text[:MAX_SHOWN]}\n… (cut after {min(MAX_SHOWN, len(text))} characters)"
    return text.rstrip("\n") or "(The program printed nothing.)"


def _example_text(function: str, case: Case, answer: Answer) -> str:
    call = _call_text(function, case)
    if is_right(case, answer):
        return f"right: {call} -> {case.expected!r}"
    return f"wrong: {call} should return {case.expected!r}, but {_what_happened(answer)}"


def _what_happened(answer: Answer) -> str:
    text = answer.text if len(answer.text) <= 500 else f"{answer.text[:500]}…"
    return {
        "returned": f"returned (as JSON) {text}",
        "raised": f"raised {text}",
        "timeout": "ran out of time",
        "died": f"ended the process ({text})",
        "untried": "was not tried, because earlier calls ran out of time",
    }[answer.how]


def _failures(cases: list[Case], answers: list[Answer], ran: Ran) -> str:
    """Return a sentence about what failed, without inputs and expected results; empty if nothing
    did."""
    if ran.stop_reason:
        return f"The program was stopped: {ran.stop_reason}."
    if not answers:
        return "The program ended the process that runs the tests."
    failures = [
        answer for case, answer in zip(cases, answers, strict=False) if not is_right(case, answer)
    ]
    counts = {
        "wrong results": sum(answer.how == "returned" for answer in failures),
        "exceptions": sum(answer.how in ("raised", "died") for answer in failures),
        "out of time or not tried": sum(
            answer.how in ("timeout", "untried") for answer in failures
        ),
    }
    sentence = ", ".join(f"{what}: {count}" for what, count in counts.items() if count)
    return f"{sentence[:1].upper()}{sentence[1:]}." if sentence else ""
