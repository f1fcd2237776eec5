"""The interpreters that run worker processes: this one, or another one with packages of its own.

A class names another interpreter as its attribute `python`. An operator names one as
`module:Class@/path/to/python`, for a class that cannot be imported here. Of orsweb it needs the
distribution `orsweb-author` only.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from environments import __version__
from environments.authoring.other_interpreter_class import ClassDescription, DescribedClass
from environments.errors import Unhostable

WALL_TIMES = 10
"""How many times longer than its CPU time an import may take, since it waits for files and other
programs."""
PROGRAM = "environments.hosts.worker_program"
HASH_SEED = "PYTHONHASHSEED"
"""Variable with the seed of hashes that all processes of a server have, so that they make the same
tasks of them."""
_SERVER_ONLY = ("ORSWEB_", "DATABASE_URL", "PYTHONPATH")
"""Beginnings of the variables that a worker does not get: settings and secrets of the server."""


def command(python: str, *arguments: str, program: str = PROGRAM) -> list[str]:
    """Return the command that starts the program of worker processes; `python` is empty for this
    interpreter."""
    # -P: not from the working directory
    return [python or sys.executable, "-P", "-m", program, *arguments]


def variables(python: str) -> dict[str, str]:
    """Return the environment variables of worker processes; another interpreter imports only what
    it has installed."""
    withheld = (*_SERVER_ONLY, "PYTHONHOME") if python else _SERVER_ONLY
    given = {name: value for name, value in os.environ.items() if not name.startswith(withheld)}
    here = {} if python else {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return given | here | {"PYTHONUNBUFFERED": "1"}


def described(specification: str, python: str, import_seconds: float) -> DescribedClass:
    """Return the class that `specification` names, as another interpreter describes it, or this one
    in another process if `python` is empty.

    `import_seconds`: CPU time that the import may take. Raises: Unhostable.
    """
    # links stay: the interpreter of a virtual environment is one
    path = Path(python or sys.executable).expanduser().absolute()
    whole = f"{specification}@{python}" if python else specification
    python = str(path) if python else ""
    try:
        done = subprocess.run(  # nosec B603 # the operator or the author has named the program
            command(python, "describe", specification, str(import_seconds)),
            env=variables(python),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=WALL_TIMES * import_seconds,
        )
    except OSError as error:
        advice = "name the interpreter of a virtual environment, such as /srv/venv/bin/python"
        raise Unhostable(f"{whole!r}: {path} cannot be run ({error.strerror}); {advice}.") from None
    except subprocess.TimeoutExpired:
        limit = (
            f"within {WALL_TIMES * import_seconds:g} s, {WALL_TIMES} times ORSWEB_IMPORT_SECONDS"
        )
        raise Unhostable(f"{whole!r} was not imported {limit}.") from None
    printed = done.stderr.decode("utf-8", "replace")
    if done.returncode:
        raise Unhostable(
            f"{whole!r} cannot be imported: {_problem(path, done.returncode, printed)}"
        )
    sys.stderr.write(printed.lstrip("\n"))  # the author's traceback, if it cannot be hosted
    return DescribedClass(_description(whole, path, done.stdout), python)


def _description(whole: str, path: Path, answer: bytes) -> ClassDescription:
    """Return the description in an answer of `worker_program.py`. Raises: Unhostable."""
    try:
        read = json.loads(answer)
        version, problem = read["version"], read.get("unhostable", "")
    except (ValueError, TypeError, KeyError):
        raise Unhostable(
            f"{whole!r}: {path} answered {answer[:100]!r}, which describes no class."
        ) from None
    if version != __version__:
        have = f"{path} has version {version} of orsweb-author, and this server is {__version__}"
        raise Unhostable(f"{whole!r}: {have}; {_install(path)}.")
    if problem:
        raise Unhostable(f"{problem.rstrip('.')} (in {path}).")
    return ClassDescription.model_validate(read["description"])


def _problem(path: Path, status: int, printed: str) -> str:
    if "No module named 'environments'" in printed:
        return f"{path} has no orsweb-author; {_install(path)}."
    last = printed.strip().splitlines()[-1:] or ["it printed nothing"]
    return f"{path} exited with status {status}: {last[0]}"


def _install(path: Path) -> str:
    return (
        f"`make wheels` builds it: run {path} -m pip install "
        f"dist/orsweb_author-{__version__}-py3-none-any.whl"
    )
