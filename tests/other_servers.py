"""ORS servers that are not this one: one in Go, made of its standard library alone, and those of
the SDKs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.server import ROOT, free_port

GO_SERVER = ROOT / "tests" / "clients" / "go_server"
REFERENCES = {
    "ors": "from ors import Server",
    "openreward": "from openreward.environments import Server",
}
FEW_TYPES = "import tests.provider_types"
START_SECONDS = 60
# and not GOCACHE: that of the user has the standard library, compiled once for all checkouts
GO_VARIABLES = {
    "CGO_ENABLED": "0",
    "GOTOOLCHAIN": "local",
    "GOFLAGS": "",
}


def build_go_server(directory: Path) -> Path:
    """Compile the Go server and return its program. Skips the test where there is no compiler."""
    if shutil.which("go") is None:
        pytest.skip("needs go, which the Debian package golang-go has")
    program = directory / "server"
    subprocess.run(
        ["go", "build", "-o", str(program), "."],
        cwd=GO_SERVER,
        env={**os.environ, **GO_VARIABLES, "GOPATH": str(directory / "path")},
        check=True,
        timeout=300,
    )
    return program


@contextmanager
def running(*command: str, port: int) -> Iterator[str]:
    """Run a server; yield its URL once it answers."""
    environment = {**os.environ, "OPENREWARD_DISABLE_UPDATE_CHECK": "1"}
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=quiet, stderr=quiet)
    try:
        _wait_for(f"http://127.0.0.1:{port}/list_environments")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


@contextmanager
def go_server(program: Path, *, port: int = 0, key: str = "") -> Iterator[str]:
    """Run the Go server, whose environment is `sums`; with `key`, every request needs it."""
    port = port or free_port()
    with running(str(program), f"127.0.0.1:{port}", *([key] if key else []), port=port) as url:
        yield url


@contextmanager
def reference_server(sdk: str, module: str, *classes: str) -> Iterator[str]:
    """Run the SDK's own server with classes of `module`, without the packages of types that
    `provider_types` names."""
    port = free_port()
    names = ", ".join(classes)
    classes_of = f"from {module} import {names}"
    code = (
        f"{FEW_TYPES}; {REFERENCES[sdk]}; {classes_of}; Server([{names}]).run(host='127.0.0.1', "
        f"port={port})"
    )
    with running(sys.executable, "-c", code, port=port) as url:
        yield url


def _wait_for(url: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(url, timeout=1):
                return
        except urllib.error.HTTPError:  # it answers, for example that a key is needed
            return
        except OSError:
            time.sleep(0.05)
    raise AssertionError(f"{url} did not answer")
