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
"""Factor from the CPU time of an import to the time it may take, as it waits for files and other
programs."""
PROGRAM = "environments.hosts.worker_program"
HASH_SEED = "PYTHONHASHSEED"
"""Variable with the hash seed, the same for all processes of a server, so that they generate the
same tasks."""
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
    omissions = (*_SERVER_ONLY, "PYTHONHOME") if python else _SERVER_ONLY
    values = {name: os.environ[name] for name in os.environ if not name.startswith(omissions)}
    if not python:
        values["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    return values | {"PYTHONUNBUFFERED": "1"}


def described_class(specification: str, python: str, import_seconds: float) -> DescribedClass:
    """Return the class that `specification` names, as another process describes it.

    `python`: the interpreter of that process; empty: this one.
    `import_seconds`: CPU time that the import may take. Raises: Unhostable.
    """
    # links stay: the interpreter of a virtual environment is one
    path = Path(python or sys.executable).expanduser().absolute()
    whole = f"{specification}@{python}" if python else specification
    python = str(path) if python else ""
    try:
        process = subprocess.run(  # nosec B603 # the operator or the author has named the program
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
    output = process.stderr.decode("utf-8", "replace")
    if process.returncode:
        if "No module named 'environments'" in output:
            problem = f"{path} has no orsweb-author; {_install(path)}."
        else:
            lines = output.strip().splitlines() or ["it printed nothing"]
            problem = f"{path} exited with status {process.returncode}: {lines[-1]}"
        raise Unhostable(f"{whole!r} cannot be imported: {problem}")
    sys.stderr.write(output.lstrip("\n"))  # the author's traceback, if it cannot be hosted
    return DescribedClass(_read_description(whole, path, process.stdout), python)


def _read_description(whole: str, path: Path, answer: bytes) -> ClassDescription:
    """Return the description in an answer of `worker_program.py`. Raises: Unhostable."""
    try:
        values = json.loads(answer)
        version, problem = values["version"], values.get("unhostable", "")
    except (ValueError, TypeError, KeyError):
        raise Unhostable(
            f"{whole!r}: {path} answered {answer[:100]!r}, which describes no class."
        ) from None
    if version != __version__:
        have = f"{path} has version {version} of orsweb-author, and this server is {__version__}"
        raise Unhostable(f"{whole!r}: {have}; {_install(path)}.")
    if problem:
        raise Unhostable(f"{problem.rstrip('.')} (in {path}).")
    return ClassDescription.model_validate(values["description"])


def _install(path: Path) -> str:
    return (
        f"`make wheels` builds it: run {path} -m pip install "
        f"dist/orsweb_author-{__version__}-py3-none-any.whl"
    )
