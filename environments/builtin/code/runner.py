"""Runs inside the sandbox: calls an agent's function once per input and tells what came back.
Started by `code.py`.

Not imported by the server; its text is handed to `/usr/bin/python3`, so it uses the standard
library of Python 3.9 only. It knows inputs, never expected results. Each call is a process of its
own, with the limit of CPU time that the task sets. What it left running is killed and its files are
removed before the next; System V shared memory would stay. A call can kill or stop this process,
which ends all of them without an answer, but it can neither trace it nor take its descriptors,
because this process is not dumpable. The nonce that makes the answers count is read when every
other process in the sandbox has been killed, so no program can have seen it.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import select
import signal
import sys
from contextlib import suppress
from typing import Any

_PR_SET_DUMPABLE = 4
MAX_TIMEOUTS = 3
"""Number of calls that may time out; the rest are not tried."""


def main() -> None:
    """Run the program on the calls that stdin describes, and write the answers to stdout.

    stdin: a length as eight digits, JSON of that many bytes, a nonce. stdout: the nonce, a JSON
    array of `answer`s.

    The JSON: `program`, `function`, `inputs` (a list of lists of arguments), `seconds` (of CPU, per
    call), `most_bytes` (of a result), `has_free_run` (whether the program alone comes first, its
    output shown).
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    request = json.loads(_read(int(_read(8))))
    answers_fd = os.dup(1)
    os.dup2(2, 1)  # what the program prints is no answer
    answers: list[dict[str, str]] = []
    if request["has_free_run"]:
        answers.append(_apart(request, None, answers_fd))
    for args in request["inputs"]:
        is_over = sum(answer["how"] == "timeout" for answer in answers) >= MAX_TIMEOUTS
        answers.append(
            {"how": "untried", "text": ""} if is_over else _apart(request, args, answers_fd)
        )
    _write(answers_fd, _read(32) + json.dumps(answers).encode())


def _read(count: int) -> bytes:
    """Return exactly `count` bytes. What follows must stay unread."""
    data = b""
    while len(data) < count:
        more = os.read(0, count - len(data))
        if not more:
            raise SystemExit("The request is incomplete.")
        data += more
    return data


def _write(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


def _apart(request: dict[str, Any], args: list[Any] | None, answers_fd: int) -> dict[str, str]:
    """Return the answer of one call in a process of its own; with `args` None, run the program
    alone."""
    _renew_files(request["program"])
    memory = os.open("/tmp", os.O_TMPFILE | os.O_EXCL | os.O_RDWR, 0o600)  # nosec B108 # no name: only this call has it
    pid = os.fork()
    if pid == 0:
        os.close(answers_fd)
        _call(request, args, memory)
    events = select.select([os.pidfd_open(pid)], [], [], 4 * request["seconds"] + 1)[0]
    with suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)  # whatever it left running, itself included
    status = os.waitpid(pid, 0)[1]
    text = os.pread(memory, request["most_bytes"] + 2, 0).decode(errors="replace")
    os.close(memory)
    if not events or (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU):
        return {"how": "timeout", "text": ""}
    if os.WIFSIGNALED(status):
        return {"how": "died", "text": signal.Signals(os.WTERMSIG(status)).name}
    if not text:
        return {"how": "died", "text": f"status {os.WEXITSTATUS(status)}"}
    if len(text) > request["most_bytes"] + 1:
        return {
            "how": "raised",
            "text": f"ValueError: the result is longer than {request['most_bytes']} bytes of JSON",
        }
    return {"how": "returned" if text[0] == "=" else "raised", "text": text[1:]}


def _renew_files(program: str) -> None:
    """Empty /work and /tmp of what earlier calls left, and write the program to /work."""
    with suppress(OSError):
        os.unlink("/work/solution.py")  # noqa: PTH108
    for folder in ("/work", "/tmp"):  # nosec B108 # runs in the sandbox
        os.chmod(folder, 0o700)  # noqa: PTH101
        if os.listdir(folder):  # noqa: PTH208
            os.system(
                f"exec </dev/null 2>/dev/null; chmod -R u+rwX {folder}; find {folder} "
                "-mindepth 1 -delete"
            )  # nosec B605 # runs in the sandbox
        if os.listdir(folder):  # noqa: PTH208
            raise SystemExit(f"{folder} cannot be emptied.")
    with open("/work/solution.py", "w", encoding="utf-8", errors="surrogatepass") as file:  # noqa: PTH123
        file.write(program)


def _call(request: dict[str, Any], args: list[Any] | None, memory: int) -> None:
    """Run the function in the child process; does not return."""
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    if args is not None:
        os.dup2(null, 1)
        os.dup2(null, 2)
    seconds = request["seconds"]
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    try:
        result = _result(request, args)
        _write(memory, f"={result}".encode())
    except BaseException as error:  # whatever the agent's code raises, SystemExit included
        _write(memory, f"!{type(error).__name__}: {error}"[:2000].encode(errors="replace"))
        if args is None:
            _show(error)
    finally:
        with suppress(Exception):
            sys.stdout.flush()
        os._exit(0)


def _result(request: dict[str, Any], args: list[Any] | None) -> str:
    """Return the result as JSON."""
    name = "__main__" if args is None else "solution"
    namespace: dict[str, Any] = {"__name__": name}
    exec(compile(request["program"], "/work/solution.py", "exec"), namespace)  # nosec B102 # runs in the sandbox
    if args is None:
        return "null"
    if request["function"] not in namespace:
        raise NameError(f"the program defines no function {request['function']!r}")
    return json.dumps(namespace[request["function"]](*args))


def _show(error: BaseException) -> None:
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if frame.filename == "/work/solution.py"]
    sys.stderr.write(
        "".join(traceback.format_list(theirs) + traceback.format_exception_only(type(error), error))
    )
    sys.stderr.flush()


if __name__ == "__main__":
    main()
