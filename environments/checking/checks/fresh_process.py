"""Check that every process lists the same tasks: the class is listed in two processes with different hash seeds.

This finds an order that depends on sets of strings, on hashes or on what an earlier run left behind. The processes run
this module: `python -m environments.checking.checks.fresh_process module:Class` prints a JSON object, split -> digest.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import subprocess
import sys
from contextlib import redirect_stdout
from typing import TYPE_CHECKING

from environments.authoring.registry import load_class
from environments.authoring.task_source import ClassTasks
from environments.checking.checked_environment import Broken
from environments.errors import EnvironmentFault, describe
from environments.runtime.threads import ThreadPool
from environments.runtime.usercode import UserCode

if TYPE_CHECKING:  # it imports a third of what such a process would take to start
    from environments.checking.check_state import CheckState

SUBJECT = "tasks"
CHECK = "same in every process"
MAX_TASKS = 20
"""Tasks that are requested from a split that is not listed."""
START_TIMES = 5
"""Time limits that such a process may take, because it has to import the module first."""


async def check_fresh_processes(state: CheckState) -> None:
    if state.local is None:
        state.report.skip(SUBJECT, CHECK, "The server runs elsewhere, so no second process can be started.")
        return
    code = UserCode(state.local.pool)
    seconds = state.options.timeout_seconds * START_TIMES
    first, second = await asyncio.gather(
        *(code.call(_listed_in_process, state.specification, seed, seconds, passing=(Broken,)) for seed in ("1", "2"))
    )
    problems = [
        f"Split {split!r} differs between two processes; sort the elements of sets, and use seeded random generators."
        for split in state.splits
        if first.get(split) != second.get(split)
    ]
    state.report.judge(SUBJECT, CHECK, problems, "Two fresh processes list the same tasks in the same order.")


def _listed_in_process(specification: str, hash_seed: str, seconds: float) -> dict[str, str]:
    """Return the digest of each split, computed in a new process. Raises: Broken."""
    variables = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", __name__, specification]
    try:
        done = subprocess.run(  # nosec B603 # this interpreter
            command, env=variables, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        raise Broken(f"A fresh process took over {seconds:g} s to import the class and list its tasks.") from None
    if done.returncode:
        last = (done.stderr.decode(errors="replace").strip() or "no message").splitlines()[-1]
        raise Broken(f"A fresh process could not list the tasks: {last}.")
    digests: dict[str, str] = json.loads(done.stdout)
    return digests


async def _digests(specification: str) -> dict[str, str]:
    hosted = load_class(specification.strip())
    source = ClassTasks(hosted, UserCode(ThreadPool()).call)
    digests = {}
    for split in hosted.splits:
        try:
            texts = await source.listing(split.name)
        except NotImplementedError:
            count = await source.count(split.name)
            texts = [str(count), *[await source.get(split.name, index) for index in range(min(count, MAX_TASKS))]]
        digests[split.name] = hashlib.sha256("\n".join(texts).encode()).hexdigest()
    return digests


def main() -> None:
    try:
        with redirect_stdout(sys.stderr):  # the author's module may print
            digests = asyncio.run(_digests(sys.argv[1]))
    except Exception as error:  # the parent process reads the sentence from stderr
        place = f" ({error.place})" if isinstance(error, EnvironmentFault) and error.place else ""
        print(f"{str(error) if place else describe(error)}{place}", file=sys.stderr, flush=True)
        os._exit(1)
    print(json.dumps(digests), flush=True)
    os._exit(0)  # threads that the module has started do not delay the exit


if __name__ == "__main__":
    main()
