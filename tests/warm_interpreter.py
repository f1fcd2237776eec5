"""An interpreter that has imported the libraries of a start already, and is forked for each `manage.py` of the tests.

A start imports about a thousand modules of libraries; here that is paid once a worker instead of at each of some 300
starts. Nothing of orsweb is imported, nor anything that reads settings: the forked process runs `manage.py` from its
first line, with the arguments, variables, directory and files that it was given, as `python manage.py` would.

`tests/programs.py` starts it with a socket as its first argument. Each message on that names one program, as JSON, and
carries its stdin, stdout and stderr and a socket, on which its process id and in the end its exit status are written.
"""

from __future__ import annotations

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
from pathlib import Path
from typing import Any

LIBRARIES = (
    *("asgiref.sync", "asyncio", "channels.auth", "cryptography.x509", "csp.middleware", "gripcontrol", "httptools"),
    *("django.core.management.base", "django.core.handlers.asgi", "django.core.mail.message", "django.test"),
    *("django.core.servers.basehttp", "django.db.migrations.executor", "django.forms.models", "django.urls"),
    *("django.template.defaulttags", "jsonschema", "jwt", "latex2mathml.converter", "markdown_it", "nh3", "pydantic"),
    *("sqlite3", "sqlparse", "structlog", "uvicorn", "uvicorn.protocols.http.httptools_impl", "uvloop", "yaml"),
    "uvicorn.protocols.websockets.websockets_sansio_impl",
)
MAX_MESSAGE = 1 << 20
OF_PROGRAM = 4
"""Number of descriptors that come with a message: stdin, stdout, stderr and the socket for its status."""


def main() -> None:
    """Fork for each message until the other end of the socket is closed. Returns in the forked processes too."""
    for name in LIBRARIES:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group of the test run
    control, selector = socket.socket(fileno=int(sys.argv[1])), selectors.DefaultSelector()
    selector.register(control, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.fileobj is not control:
                _report(selector, key)
                continue
            message, descriptors, _, _ = socket.recv_fds(control, MAX_MESSAGE, OF_PROGRAM)
            if not message:
                os._exit(0)
            if not (pid := os.fork()):
                _become(json.loads(message), descriptors)
                return
            _follow(selector, pid, descriptors)


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
    os.chdir(program["cwd"])
    sys.argv = program["argv"]
    sys.path[0] = str(Path(sys.argv[0]).parent)


if __name__ == "__main__":
    main()
    runpy.run_path(sys.argv[0], run_name="__main__")
