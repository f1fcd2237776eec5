"""The code environment: what a program can learn, how it is judged, and that no program can
cheat."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from environments import ToolOutput
from environments.authoring.hosted_class import HostedClass
from environments.builtin.code.code import Answer, Case, Code, Program, is_right, is_same
from tests.rows import each
from tests.sandboxed import needs_bubblewrap

DOUBLE = {
    "question": "Return twice n.",
    "function": "double",
    "signature": "double(n: int) -> int",
    "test_cases": [
        {"args": [1], "expected": 2, "is_public": True},
        *({"args": [n], "expected": 2 * n} for n in (0, 5, -3, 700)),
    ],
    "time_limit": 1,
}
RIGHT = "def double(n):\n    return 2 * n\n"
OUT_OF_TIME = "__import__('os').kill(__import__('os').getpid(), 24)"
"""Ends a call with the signal of the kernel for used CPU time, without using any: SIGXCPU, which it
sends to itself."""


def run(code: str, **changes: Any) -> str:
    return said(played("run", code, **changes))


def submit(code: str, **changes: Any) -> ToolOutput:
    return played("submit", code, **changes)


def played(tool: str, code: str, **changes: Any) -> ToolOutput:
    episode = Code({**DOUBLE, **changes})
    output: ToolOutput = getattr(episode, tool)(Program(code=code))
    episode.teardown()
    return output


def said(output: ToolOutput) -> str:
    [block] = output.blocks
    return str(getattr(block, "text", ""))


def test_it_can_be_hosted() -> None:
    hosted = HostedClass(Code)
    assert hosted.name == "code"
    assert [spec.name for spec in hosted.class_tools.tools] == ["run", "submit"]


def test_it_shows_examples_and_hides_the_rest() -> None:
    [block] = Code(DOUBLE).get_prompt()  # type: ignore[misc]
    assert "def double(n: int) -> int" in block.text and "double(1) -> 2" in block.text
    assert "4 hidden calls" in block.text and "700" not in block.text


@each("change", [{"test_cases": []}, {"function": "a b"}, {"time_limit": 1000}, {"question": ""}])
def test_it_refuses_a_task_that_makes_no_sense(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=next(iter(change))):
        Code({**DOUBLE, **change})


# --- running --------------------------------------------------------------------------------------


@needs_bubblewrap
def test_run_shows_what_the_program_prints_and_the_examples() -> None:
    output = played("run", RIGHT + "print('twice 4 is', double(4))")
    assert said(output) == "twice 4 is 8\nright: double(1) -> 2"
    assert (output.reward, output.finished) == (None, False)


@needs_bubblewrap
def test_run_says_what_an_example_should_return() -> None:
    assert run("def double(n): return [n]").endswith(
        "double(1) should return 2, but returned (as JSON) [1]"
    )


@needs_bubblewrap
def test_run_shows_where_an_exception_came_from() -> None:
    text = run("def double(n):\n    return n / 0\ndouble(3)")
    assert 'File "/work/solution.py", line 2, in double' in text and "return n / 0" in text
    assert text.endswith("but raised ZeroDivisionError: division by zero")


@needs_bubblewrap
def test_run_says_when_the_function_is_missing() -> None:
    assert "the program defines no function 'double'" in run("print('hi')")


@needs_bubblewrap
def test_run_says_what_is_no_result() -> None:
    assert "Object of type set is not JSON serializable" in run("def double(n): return {n}")


@needs_bubblewrap
def test_run_shows_a_syntax_error() -> None:
    assert "SyntaxError: '(' was never closed" in run("print(")


@needs_bubblewrap
def test_run_cuts_long_output() -> None:
    text = run("print('x' * 10**6)")
    assert "cut after 6000 characters" in text and len(text) < 7000


@needs_bubblewrap
def test_run_keeps_what_was_printed_before_time_ran_out() -> None:
    text = run(f"print('begun', flush=True)\n{OUT_OF_TIME}")
    assert text.startswith("begun\nThe program alone ran out of time.")


@needs_bubblewrap
def test_run_survives_any_text() -> None:
    assert "right: double(1) -> 2" in run(RIGHT + "# \u2028 é 🦀\nprint('🦀')")
    assert "wrong" in run("\x00")


# --- judging --------------------------------------------------------------------------------------


@needs_bubblewrap
def test_submit_pays_the_share_that_is_right() -> None:
    output = submit("def double(n): return 2 * n if n > 0 else 1")
    assert (output.reward, output.finished, output.metadata) == (
        0.5,
        True,
        {"passed": 2, "tests": 4},
    )
    assert said(output) == "2 of 4 hidden tests passed. Wrong results: 2."


@needs_bubblewrap
def test_submit_pays_one_for_all() -> None:
    output = submit(RIGHT)
    assert (output.reward, said(output)) == (1.0, "4 of 4 hidden tests passed.")


@needs_bubblewrap
def test_calls_that_fail_do_not_spoil_the_others() -> None:
    code = (
        "import os\ndef double(n):\n    if n == 0: os._exit(7)\n    if n == 5: raise SystemExit\n  "
        "  return 2 * n"
    )
    assert said(submit(code)) == "2 of 4 hidden tests passed. Exceptions: 2."


@needs_bubblewrap
def test_a_call_that_prints_without_end_does_not_spoil_the_others() -> None:
    output = submit("def double(n):\n    while n == 5: print('x' * 10**6)\n    return 2 * n")
    assert said(output) == "3 of 4 hidden tests passed. Out of time or not tried: 1."


@needs_bubblewrap
def test_a_call_that_never_returns_does_not_spoil_the_others() -> None:
    output = submit(
        "import time\ndef double(n):\n    if n == 5: time.sleep(1000)\n    return 2 * n"
    )
    assert said(output) == "3 of 4 hidden tests passed. Out of time or not tried: 1."


@needs_bubblewrap
def test_it_gives_up_after_three_calls_out_of_time() -> None:
    cases = [{"args": [n], "expected": n} for n in range(100)]
    output = submit(f"def double(n):\n    {OUT_OF_TIME}", test_cases=cases)
    assert said(output) == "0 of 100 hidden tests passed. Out of time or not tried: 100."


@needs_bubblewrap
def test_calls_share_no_state() -> None:
    assert (
        submit("seen = []\ndef double(n):\n    seen.append(n)\n    return 2 * n * len(seen)").reward
        == 1.0
    )


@needs_bubblewrap
def test_examples_decide_where_nothing_is_hidden() -> None:
    assert submit(RIGHT, test_cases=DOUBLE["test_cases"][:1]).reward == 1.0  # type: ignore[index]


@each(
    ("given", "expected"),
    [
        (2.0, 2),
        (0.1 + 0.2, 0.3),
        ([1, {"a": None}], [1, {"a": None}]),
        (10**40, 10**40),
        ("é", "é"),
        (False, False),
    ],
)
def test_equal_results_are_right(given: Any, expected: Any) -> None:
    assert is_same(given, expected)


@each(
    ("given", "expected"),
    [
        (True, 1),
        (1, True),
        (0, None),
        ("2", 2),
        ([1], [1, 2]),
        ({"a": 1}, {"b": 1}),
        (float("nan"), 1.5),
        (10**400, 1.5),
        (10**9 + 1, 10**9),
        (None, []),
    ],
)
def test_other_results_are_wrong(given: Any, expected: Any) -> None:
    assert not is_same(given, expected)


@each("text", ["[" * 100_000, "1" * 5000, "{", "", "NaN"])
def test_a_result_that_is_no_json_is_wrong(text: str) -> None:
    assert not is_right(Case(args=[], expected=1), Answer(how="returned", text=text))


# --- cheating -------------------------------------------------------------------------------------

FORGED = '[{"how": "returned", "text": "10"}]'
HOSTILE = {
    "forges a line on stdout": f"import os\ndef double(n):\n    os.write(1, b'{FORGED}')\n    "
    "return 'x'",
    "writes to every descriptor": (
        "import os\ndef double(n):\n    for fd in range(3, 64):\n        try: os.write(fd, "
        f"b'{FORGED}')\n"
        "        except OSError: pass\n    return 'x'"
    ),
    "stops its parent": "import os, time\ndef double(n): os.kill(os.getppid(), 19), time.sleep(60)",
    "kills its parent": "import os\ndef double(n): os.kill(os.getppid(), 9)",
    "kills everything": "import os\ndef double(n): os.kill(-1, 9)",
    "reads the request again": "import sys\ndef double(n): return sys.stdin.read()",
    "looks for expected results": (
        "import gc\ndef double(n):\n"
        "    return [o['expected'] for o in gc.get_objects() if isinstance(o, dict) and 'expected' "
        "in o][0]"
    ),
    "returns an impostor": "class Two(int):\n    def __eq__(self, other): return True\ndef "
    "double(n): return Two(1)",
    "changes what compares": "import json\njson.dumps = lambda v: '=2'\ndef double(n): return 1",
    "returns a huge result": "def double(n): return 'x' * 10**6",
    "returns a deep result": "def double(n):\n    x = 1\n    for _ in range(900): x = [x]\n    "
    "return x",
    "takes all memory": "def double(n): return [b'x' * 10**8 for _ in range(100)]",
    "forks without end": "import os\ndef double(n):\n    while True: os.fork()",
    "reads the server's files": "def double(n): return open('/etc/passwd').read()",
}


@needs_bubblewrap
@each("code", HOSTILE.values(), ids=HOSTILE.keys())
def test_it_earns_nothing_when_it(code: str) -> None:
    output = submit(code, test_cases=[{"args": [n], "expected": 2 * n} for n in (5, 6)])
    assert (output.reward, output.finished) == (0.0, True)
    assert submit(RIGHT).reward == 1.0


@needs_bubblewrap
def test_it_says_that_the_program_suspended_what_runs_it() -> None:
    [block] = submit(HOSTILE["stops its parent"]).blocks
    assert "The program was stopped: it suspended the process that runs it." in block.text


STEAL = """
import ctypes, os
def double(n):
    libc = ctypes.CDLL(None)
    parent = libc.syscall(434, os.getppid(), 0)  # pidfd_open
    taken = [libc.syscall(438, parent, fd, 0) for fd in range(16)]  # pidfd_getfd
    return [parent >= 0, max(taken)]
"""


@needs_bubblewrap
def test_a_call_cannot_take_descriptors_of_its_parent() -> None:
    assert submit(STEAL, test_cases=[{"args": [1], "expected": [True, -1]}]).reward == 1.0


LEAVE = """
import os
def double(n):
    seen = [os.listdir("/work"), os.listdir("/tmp"), open("/work/solution.py").read(9)]
    os.makedirs("/work/a/b"), os.chmod("/work/a", 0)
    os.makedirs("/tmp/c"), open("/tmp/.d", "w").close()
    os.unlink("/work/solution.py"), os.symlink("/tmp/.d", "/work/solution.py"), os.chmod("/work", 0)
    return seen
"""


@needs_bubblewrap
def test_calls_share_no_files() -> None:
    case = {"args": [1], "expected": [["solution.py"], [], "\nimport o"]}
    assert submit(LEAVE, test_cases=[case] * 3).reward == 1.0


@needs_bubblewrap
def test_only_what_carries_the_nonce_is_believed() -> None:
    code = (
        "import os, sys\ndef double(n):\n"
        f"    os.kill(os.getppid(), 19)\n    os.write(2, b'{FORGED}')\n    os.write(1, b'0' * 32 + "
        f"b'{FORGED}')\n"
        "    os.kill(os.getppid(), 9)"
    )
    assert (
        said(submit(code))
        == "0 of 4 hidden tests passed. The program ended the process that runs the tests."
    )


@needs_bubblewrap
def test_teardown_ends_what_runs() -> None:
    episode = Code(DOUBLE)
    episode.teardown()
    with pytest.raises(Exception, match="session has ended"):
        episode.run(Program(code=""))


@needs_bubblewrap
def test_a_session_goes_on_in_a_new_instance_without_its_programs() -> None:
    episode = Code(DOUBLE)
    episode.run(Program(code="open('kept', 'w').close()"))
    loaded = Code(DOUBLE)
    loaded.load(episode.save())
    assert loaded.submit(Program(code="def double(n):\n    return 2 * n")).reward == 1.0
