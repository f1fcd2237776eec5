"""An interpreter that has imported what a start imports, and is forked for each `manage.py` and
worker of the tests.

A start imports about two thousand modules, of libraries and of orsweb; here that is paid once a
test run instead of at each of some 300 starts: `check` takes 0.2 seconds of CPU time instead of 2.8,
a server 0.1 instead of 2, and this interpreter 4. The forked process has forgotten the settings and
what was made of them. It runs `manage.py` from its first line, with the arguments, variables,
directory and files that it was given, as `python manage.py` would. The modules that read settings
while they are imported are not among those imported here (`READERS_OF_SETTINGS`).
`tests/warm_workers.py` has the worker processes of servers forked from it, too.

`tests/programs.py` starts it with a listening socket as its first argument, to which each worker
connects. Each message of a worker names one program, as JSON, and carries its stdin, stdout and
stderr and a socket, on which its process id and in the end its exit status are written.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import sys
import tempfile
import threading
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import django
from asgiref.local import Local
from django.conf import global_settings, settings
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.core.cache import caches
from django.core.signals import setting_changed
from django.db import connections
from django.db.migrations.loader import MigrationLoader
from django.test.signals import COMPLEX_OVERRIDE_SETTINGS
from django.urls import resolve, resolvers, reverse
from django.utils.functional import empty

LIBRARIES = (
    "aiohttp",
    "channels.auth",
    "channels.routing",
    "channels.security.websocket",
    "csp.middleware",
    "fastapi",
    "servestatic.middleware",
    "uvicorn.lifespan.on",
    "uvicorn.loops.auto",
    "uvicorn.protocols.websockets.auto",
)
"""What a server imports beside the modules of orsweb below and what these import."""
OF_TESTS = ("mcp", "playwright.sync_api")
"""What every worker imports with the test modules: 15 % of the CPU time that collecting takes."""
PAGES = (
    "episodes.urls.api",
    "episodes.urls.pages",
    "episodes.people.urls",
    "orsweb.operations.page",
)
AGENTS = (
    "environments.agents.mcp.view",
    "environments.agents.ors.urls",
    "episodes.platform_api.urls",
    "episodes.recording.recorder",
    "orsweb.operations.endpoints",
)
BUNDLED = ("code.puzzles.bank", "maze.layouts")
"""The modules of bundled environments that make their tasks once in a process, which takes most of
a server's start."""
SERVER = (
    "environments.agents.http.handler",
    "environments.tasks.sync",
    "orsweb.management.commands.serve",
)
WORKERS = ("environments.hosts.worker_program", "tests.warm_workers")
READERS_OF_SETTINGS = ("orsweb.settings", "orsweb.asgi", "orsweb.urls", "orsweb.accounts.login")
"""The modules that the forked process imports itself, because they hold values of settings."""
SLOW_HASHES = "TESTS_SLOW_HASHES"
"""Variable of a server that takes as long for a password as it does for people: half a second of a
processor."""
MAX_MESSAGE = 1 << 20
OF_PROGRAM = 4
"""Number of descriptors that come with a message: stdin, stdout, stderr and the socket for its
status."""


def main() -> None:
    """Fork for each message until no worker is connected any more. Returns in the forked processes
    too."""
    for name in (*LIBRARIES, *OF_TESTS):
        importlib.import_module(name)
    with tempfile.TemporaryDirectory() as data_dir:
        _import_project(data_dir)
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group of the test run
    listener, selector = socket.socket(fileno=int(sys.argv[1])), selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ)
    workers = set[socket.socket]()
    while True:
        for key, _ in selector.select():
            if key.fileobj is listener:
                workers.add(worker := listener.accept()[0])
                selector.register(worker, selectors.EVENT_READ)
            elif key.data is not None:
                _report(selector, key)
            elif _is_forked(selector, workers, key.fileobj):
                return


def _is_forked(selector: selectors.BaseSelector, workers: set[socket.socket], worker: Any) -> bool:
    """Start the program that a worker names; return whether this is the process that becomes it."""
    message, descriptors, _, _ = socket.recv_fds(worker, MAX_MESSAGE, OF_PROGRAM)
    if not message:
        selector.unregister(worker)
        workers.remove(worker)
        worker.close()
        if not workers:
            os._exit(0)
    elif not (pid := os.fork()):
        selector.close()  # the collector would do that later, when its number is another file's
        _become(json.loads(message), descriptors)
        return True
    else:
        _follow(selector, pid, descriptors)
    return False


def _import_project(data_dir: str) -> None:
    """Import orsweb under the settings of a first start, with its data in `data_dir`."""
    for name in [name for name in os.environ if name.startswith("ORSWEB_")]:
        del os.environ[name]
    os.environ |= {"DJANGO_SETTINGS_MODULE": "orsweb.settings", "ORSWEB_DATA_DIR": data_dir}
    sys.path[0] = str(Path(__file__).parent.parent)
    django.setup()
    for name in (*PAGES, *AGENTS, *SERVER, *WORKERS):
        importlib.import_module(name)
    for name in BUNDLED:
        module = importlib.import_module(f"environments.builtin.{name}")
        for split in module.COUNTS:
            module.tasks(split)
    _compile_addresses()
    MigrationLoader(None)
    _forget_settings()


def _compile_addresses() -> None:
    """Look an address of pages and one of agents up, and keep what Django finds out about the
    pattern of each."""
    resolvers.normalize = cache(resolvers.normalize)  # type: ignore[attr-defined]
    resolve("/health", "orsweb.agent_urls")
    reverse("overview")


def _forget_settings() -> None:
    """Make Django read the settings when they are next used, and drop what it has made of these."""
    names = {name for name in dir(settings) if name.isupper()}
    for name in names - set(dir(sys.modules["orsweb.settings"])):
        # also what a library adds while it is imported: axes
        setattr(global_settings, name, getattr(settings, name))
    # at that, models forget each other
    for name in names - COMPLEX_OVERRIDE_SETTINGS - {"AUTH_USER_MODEL"}:
        setting_changed.send(sender=None, setting=name, value=None, enter=True)
    for handler in (connections, caches):
        handler._settings, handler._connections = None, Local(handler.thread_critical)
        vars(handler).pop("settings", None)
    for name in READERS_OF_SETTINGS:
        if sys.modules.pop(name, None):
            package, _, module = name.rpartition(".")
            delattr(sys.modules[package], module)
    settings._wrapped = empty


def _follow(selector: selectors.BaseSelector, pid: int, descriptors: list[int]) -> None:
    *files, status = descriptors
    for file in files:
        os.close(file)
    os.write(status, str(pid).encode())
    selector.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, status))


def _report(selector: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
    """Write the exit status of a process that has ended."""
    pid, status = key.data
    selector.unregister(key.fileobj)
    os.close(key.fd)
    _, ended = os.waitpid(pid, 0)
    with contextlib.suppress(BrokenPipeError):  # nobody waits for it
        os.write(status, str(os.waitstatus_to_exitcode(ended)).encode())
    os.close(status)


def _become(program: dict[str, Any], descriptors: list[int]) -> None:
    """Make the forked process what a new one would be."""
    for standard, given in enumerate(descriptors[:3]):
        os.dup2(given, standard)
    os.closerange(3, 4096)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(program["env"])
    if SLOW_HASHES not in os.environ:
        PBKDF2PasswordHasher.iterations = 1000
    os.chdir(program["cwd"])
    sys.argv = program["argv"]
    sys.orig_argv[:] = [sys.executable, str(Path(__file__).with_name("programs.py")), *sys.argv]
    sys.path[0] = str(Path(sys.argv[0]).parent)


def _status() -> int:
    """Run the program; return its exit status, after printing the reason as a new interpreter
    would."""
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as left:
        if left.code is None or isinstance(left.code, int):
            return left.code or 0
        print(left.code, file=sys.stderr)
        return 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


def _end(status: int) -> NoReturn:
    """End as an interpreter does, but without freeing all that was imported, which took as long as
    a short command."""
    threading._shutdown()  # type: ignore[attr-defined]  # as Python itself does first; it waits for threads
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    main()
    _end(_status())
