"""The environments that this server hosts, by name. The first one is the default.

Classes are loaded from specifications, `module:Class` or `alias=module:Class`, with arguments after
a question mark (`class_arguments.py`); modules are also found in the current directory.
`directory:module:Class` is for processes that play nothing else: the directory becomes their
working directory and the first place of their search path. `environments/hosts/loading.py` loads
every kind of specification.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from environments.authoring.hosted_class import HostedClass
from environments.authoring.hosted_environment import HostedEnvironment
from environments.errors import Unhostable, UnknownEnvironment, explained

LOOK_SECONDS = 0.5
"""Interval of the checks of how long an import has taken."""


class Registry:
    """The hosted environments in the order in which they were named."""

    def __init__(self, environments: Iterable[HostedEnvironment]) -> None:
        """Raises: Unhostable when nothing is hosted or two environments share a name."""
        self._by_name: dict[str, HostedEnvironment] = {}
        for environment in environments:
            if environment.name in self._by_name:
                raise Unhostable(
                    f"Two environments are named {environment.name!r}; serve one as "
                    "other_name=module:Class."
                )
            self._by_name[environment.name] = environment
        if not self._by_name:
            raise Unhostable("No environment to serve; name at least one as module:Class.")

    def __iter__(self) -> Iterator[HostedEnvironment]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    @property
    def names(self) -> list[str]:
        """The names of the hosted environments, the default first."""
        return list(self._by_name)

    @property
    def default(self) -> HostedEnvironment:
        return next(iter(self._by_name.values()))

    def find(self, name: str) -> HostedEnvironment | None:
        """Return the environment served as `name`, or None; upper and lower case are equal."""
        return self._by_name.get(name) or self._by_name.get(name.lower())

    def get(self, name: str) -> HostedEnvironment:
        """Return the environment served as `name`; upper and lower case are equal.

        Raises: UnknownEnvironment, which lists the hosted names and suggests the nearest one.
        """
        environment = self.find(name)
        if environment is None:
            raise UnknownEnvironment(name, self.names)
        return environment


@contextmanager
def limited_import(cpu_seconds: float, advice: str, wall_seconds: float = 0.0) -> Iterator[None]:
    """Raise TimeoutError in an import that takes longer, at the line that it has reached.

    0: no limit of that kind. `advice` says what to do about it. Only works in the main thread, in
    which signals arrive.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    start, cpu_start = time.monotonic(), time.process_time()

    def check(number: int, frame: FrameType | None) -> None:
        if time.process_time() - cpu_start > cpu_seconds:
            raise TimeoutError(f"its import took over {cpu_seconds:g} s of CPU time; {advice}")
        if wall_seconds and time.monotonic() - start > wall_seconds:
            raise TimeoutError(f"its import took over {wall_seconds:g} s; {advice}")

    interval = min(LOOK_SECONDS, cpu_seconds)
    handler = signal.signal(signal.SIGALRM, check)  # some kernels have no timer of CPU time
    signal.setitimer(signal.ITIMER_REAL, interval, interval)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        if signal.getsignal(signal.SIGALRM) is check:  # the module may have installed its own
            signal.signal(signal.SIGALRM, handler)


@contextmanager
def refusing_servers() -> Iterator[None]:
    """Raise an error in an import that starts a server: it would never end."""
    try:
        # late: it takes longer to import than all that a worker process needs
        server: Any = importlib.import_module("uvicorn").Server
    except ImportError:  # without it, no SDK has a server
        yield
        return

    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise RuntimeError(
            "it starts a server when it is imported; put that below `if __name__ == '__main__':`"
        )

    run, serve = server.run, server.serve
    server.run = server.serve = refuse
    try:
        yield
    finally:
        server.run, server.serve = run, serve


def load_class(specification: str) -> HostedClass:
    """Import and host the class that `specification` names. Raises: Unhostable."""
    head, _, arguments = specification.partition("?")
    alias, renames, target = head.rpartition("=")
    if renames and not alias:
        raise Unhostable(
            f"{specification!r} has no name before '='; write module:Class or alias=module:Class."
        )
    directory, _, target = target.partition(":") if target.count(":") == 2 else ("", "", target)
    module_name, colon, class_name = target.partition(":")
    if "@" in class_name:
        raise Unhostable(
            f"{specification!r} names another interpreter; serve it, and check the "
            "server's address."
        )
    if not (module_name and colon and class_name):
        raise Unhostable(
            f"{specification!r} names no class; write module:Class or alias=module:Class."
        )
    if module_name.endswith(".py") or "/" in module_name:
        suggestion = _specification_of(Path(module_name), class_name)
        raise Unhostable(
            f"{specification!r} names a file, not a module; write {alias}{renames}{suggestion}."
        )
    if directory:
        directory = _enter(directory)
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)
    try:
        module = importlib.import_module(module_name)
    # the author's module runs, and may call sys.exit()
    except (Exception, SystemExit) as error:
        text = f"{specification!r} cannot be imported: {explained(error)}."
        name = (error.name or "") if isinstance(error, ModuleNotFoundError) else ""
        # serving alone does not install the SDKs
        if package := {"ors": "ors-sdk", "openreward": "openreward"}.get(name.partition(".")[0]):
            text += f" It is in the package {package}: run `make venv` or install it with pip."
        raise Unhostable(text) from error
    try:
        cls = getattr(module, class_name, None)
        if cls is None:
            # another module of that name may have been imported, such as the standard library's
            file = getattr(module, "__file__", None) or "built into Python"
            raise Unhostable(
                f"Module {module.__name__!r} has no class {class_name!r}; check the name after "
                f"the colon (the module is {file})."
            )
        return HostedClass(cls, alias or None, arguments, directory)
    except Unhostable:
        raise
    except (Exception, SystemExit) as error:  # the author's descriptors and metaclasses
        raise Unhostable(f"{specification!r} cannot be hosted: {explained(error)}.") from error


def _enter(name: str) -> str:
    """Change to a directory, put it first on the search path, and return its path. Raises:
    Unhostable."""
    directory = str(Path(name).expanduser().absolute())
    try:
        os.chdir(directory)
    except OSError as error:
        raise Unhostable(
            f"{name} cannot be the directory of an environment: {error.strerror}."
        ) from None
    if directory not in sys.path:
        sys.path.insert(0, directory)
    return directory


def _specification_of(file: Path, class_name: str) -> str:
    """Return the specification for the class in `file`; modules are imported relative to the
    current directory."""
    parts = file.with_suffix("").parts if file.suffix == ".py" else file.parts
    if file.is_absolute() or ".." in parts:
        return f"{parts[-1]}:{class_name}, in the directory {file.parent}"
    return f"{'.'.join(parts)}:{class_name}"
