"""Check that every process makes the same of a class: two processes with different hash seeds list
its tasks, and play again what was played. What differs is tried once more with the first seed,
which tells whether it depends on that.

The processes run this module: `python -m environments.checking.checks.fresh_process module:Class`
reads what to play from stdin as JSON, and prints a JSON object of digests, by the beginning of a
sentence that names what was digested.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import subprocess
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from environments.authoring.registry import load_class
from environments.authoring.task_source import ClassTasks
from environments.checking.checked_environment import (
    Broken,
    GaveUp,
    RequestRefused,
    Sample,
    TimeLimit,
    closing,
)
from environments.checking.local import LocalEnvironment
from environments.errors import EnvironmentFault, describe
from environments.processes import end_descendants
from environments.runtime.threads import ThreadPool
from environments.runtime.usercode import UserCode

if TYPE_CHECKING:  # it imports a third of what such a process would take to start
    from environments.checking.check_state import CheckState

CHECK = "same in every process"
MAX_TASKS = 20
"""Tasks that are requested from a split that is not listed."""
START_TIMES = 5
"""Time limits that such a process may take, because it has to import the module first."""
_SORT = (
    "sort the elements of sets, and use generators with seeds that are numbers or text, not hash()."
)


async def check_fresh_processes(state: CheckState) -> None:
    if state.local is None:
        state.report.skip(CHECK, "The server runs elsewhere, so no second process can be started.")
        return
    code = UserCode(state.local.pool)
    seconds = state.options.timeout_seconds * START_TIMES
    # the episodes that are played again elsewhere, else a prompt is read
    plays: list[dict[str, Any]] = [
        {
            "sample": asdict(script.sample),
            "moves": [(move.tool, move.arguments) for move in script.moves],
        }
        for script in (state.scripts if state.is_repeatable else [])
    ] or [{"sample": asdict(sample), "moves": []} for sample in state.samples[:1]]
    request = json.dumps(
        {
            "secrets": dict(state.options.secrets),
            "plays": plays,
            "seconds": state.options.timeout_seconds,
        }
    )

    async def seen(seed: str) -> dict[str, str]:
        digests: dict[str, str] = await code.call(
            _seen_in_process, state.specification, seed, seconds, request, passing=(Broken,)
        )
        return digests

    first, second = await asyncio.gather(seen("1"), seen("2"))
    differing = [what for what, digest in first.items() if second.get(what, digest) != digest]
    if not differing:
        count = sum(not what.startswith("Split ") for what in first.keys() & second.keys())
        more = f", and have the same {count} prompts and results" if count else ""
        return state.report.ok(
            CHECK, f"Two fresh processes list the same tasks in the same order{more}."
        )
    again = await seen("1")
    if all(again.get(what) == first[what] for what in differing):
        problems = [
            f"{what} depends on Python's hash seed; {_SORT} Other servers have other seeds."
            for what in differing
        ]
        return state.report.judge(CHECK, problems, "", "warning")
    problems = [
        f"{what} differs between two processes; {_SORT}"
        for what in differing
        if again.get(what) != first[what]
    ]
    state.report.judge(CHECK, problems, "")


def _seen_in_process(
    specification: str, hash_seed: str, seconds: float, plays: str
) -> dict[str, str]:
    """Return the digest of each split, prompt and call, computed in a new process. Raises:
    Broken."""
    variables = {
        **os.environ,
        "PYTHONHASHSEED": hash_seed,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    command = [sys.executable, "-m", __name__, specification]
    try:
        process = subprocess.run(  # nosec B603 # this interpreter
            command,
            env=variables,
            input=plays.encode(),
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Broken(
            f"A fresh process took over {seconds:g} s to import the class and list its tasks."
        ) from None
    output = process.stderr.decode(errors="replace")
    sys.stderr.write(output)
    if process.returncode:
        last = (output.strip() or "no message").splitlines()[-1]
        raise Broken(f"A fresh process could not list the tasks: {last}.")
    digests: dict[str, str] = json.loads(process.stdout)
    return digests


async def _digests(specification: str, plays: str) -> dict[str, str]:
    hosted_class, request = load_class(specification.strip()), json.loads(plays)
    source = ClassTasks(hosted_class, UserCode(ThreadPool()).call)
    digests = {}
    for split in hosted_class.splits:
        try:
            texts = await source.listing(split.name)
        except NotImplementedError:
            count = await source.count(split.name)
            texts = [
                str(count),
                *[await source.get(split.name, index) for index in range(min(count, MAX_TASKS))],
            ]
        digests[f"Split {split.name!r}"] = _digest("\n".join(texts))
    local = LocalEnvironment(hosted_class, TimeLimit(request["seconds"]), request["secrets"])
    for play in request["plays"]:
        once, again = [
            await _played(local, Sample(**play["sample"]), play["moves"]) for _ in range(2)
        ]
        digests |= {what: digest for what, digest in once.items() if again.get(what) == digest}
    return digests


async def _played(
    local: LocalEnvironment, sample: Sample, moves: list[tuple[str, dict[str, Any]]]
) -> dict[str, str]:
    """Return the digests of a prompt and of the calls, as far as they have answers."""
    digests = {}
    try:
        async with closing(local.open(sample)) as seat:
            digests[f"The prompt of {sample.label}"] = _digest(
                json.dumps(await seat.prompt(), sort_keys=True)
            )
            for number, (tool, arguments) in enumerate(moves, 1):
                answer = await seat.call(tool, arguments)
                text = json.dumps([answer.status, answer.output], sort_keys=True)
                digests[f"The result of call {number} of {sample.label}, {tool!r},"] = _digest(text)
    except (Broken, GaveUp, RequestRefused):  # other checks report that
        pass
    return digests


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # the author's module may print
    try:
        digests = asyncio.run(_digests(sys.argv[1], sys.stdin.read()))
    except Exception as error:  # the parent process reads the sentence from stderr
        place = f" ({error.place})" if isinstance(error, EnvironmentFault) and error.place else ""
        sys.stdout.flush()
        print(f"{str(error) if place else describe(error)}{place}", file=sys.stderr, flush=True)
        end_descendants()  # they hold the output open
        os._exit(1)
    sys.stdout.flush()
    answers.write(json.dumps(digests))
    answers.flush()
    end_descendants()
    os._exit(0)  # threads that the module has started do not delay the exit


if __name__ == "__main__":
    main()
