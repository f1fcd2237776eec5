"""What the tests of this directory share: a running server, and files that orsweb exported.

These tests run in the trainers' environment (`make test-trainers`), which has no Django. Everything
of orsweb is therefore a command of `.venv`, with a database in a temporary directory.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode
from urllib.request import urlopen

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
ORSWEB = os.environ.get("ORSWEB_PYTHON", str(ROOT / ".venv/bin/python"))
DATASETS_3 = os.environ.get("DATASETS_3_PYTHON", str(Path(sys.prefix) / "datasets-3/bin/python"))
EPISODES = 120
"""Enough for each bundled environment to have some, with and without images."""
MAX_SECONDS = 300
"""Longest wait for the server to start, and for the figures of episodes that have ended: 60 were
too few while other programs kept both cores busy."""
OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
    "OPENREWARD_DISABLE_UPDATE_CHECK": "1",
    "TOKENIZERS_PARALLELISM": "false",
}

os.environ.update(OFFLINE)

Export = Callable[..., Path]


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def run(*command: str | Path, **environment: str) -> str:
    """Run a command and return what it printed. Raises: AssertionError with its errors when it
    fails."""
    done = subprocess.run(
        [str(word) for word in command],
        env={**os.environ, **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, (
        f"{command} ended with {done.returncode}:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    )
    return done.stdout


@pytest.fixture(scope="session")
def export(tmp_path_factory: pytest.TempPathFactory) -> Export:
    """Return a function that exports the demo's episodes:
    `export("messages", "--images", "column")`.

    For some of them a client has uploaded the conversation.
    """
    directory = tmp_path_factory.mktemp("orsweb")
    manage = (ORSWEB, ROOT / "manage.py")
    run(
        *manage,
        "demo",
        "--episodes",
        str(EPISODES),
        ORSWEB_DATA_DIR=str(directory),
        DATABASE_URL="",
    )
    uploads = "from tests.uploaded_conversations import upload; upload()"
    run(*manage, "shell", "-c", uploads, ORSWEB_DATA_DIR=str(directory), DATABASE_URL="")
    files = dict[tuple[str, ...], Path]()

    def export(format: str, *options: str) -> Path:
        if (format, *options) not in files:
            path = directory / f"{len(files)}.{format}.jsonl"
            command = (*manage, "export_episodes", "--format", format, "-o", path, *options)
            run(*command, ORSWEB_DATA_DIR=str(directory), DATABASE_URL="")
            files[format, *options] = path
        return files[format, *options]

    return export


@dataclass(frozen=True)
class Server:
    """A running orsweb with the bundled environments, without API keys."""

    url: str
    data: Path

    def reload(self) -> None:
        """Let the server go on with the code that is installed now, and wait until it does."""
        run(ORSWEB, ROOT / "manage.py", "reload", ORSWEB_DATA_DIR=str(self.data), DATABASE_URL="")

    def api(self, path: str, **parameters: Any) -> Any:
        """Return a JSON document of the API. `api("episodes", run="grpo-3")` reads
        /api/episodes?run=grpo-3."""
        with urlopen(f"{self.url}/api/{path}?{urlencode(parameters)}", timeout=30) as answer:
            return json.load(answer)

    def run(self, name: str) -> dict[str, Any]:
        """Return what the server knows about a run, by its name."""
        return dict(self.api(f"runs/by-name/{quote(name, safe='')}"))

    def episodes(self, run: str) -> list[dict[str, Any]]:
        """Return the newest episodes of a run."""
        return list(self.api("episodes", run=run)["results"])

    def curve(self, episodes: int, **parameters: Any) -> dict[str, Any]:
        """Return a curve once it is made of that many episodes: figures follow the end of an
        episode by a moment.

        Raises: AssertionError with the curve if it never is.
        """
        until = time.monotonic() + MAX_SECONDS
        while True:
            found: dict[str, Any] = self.api("curves", **parameters)
            if (found["total"] or {}).get("episodes") == episodes:
                return found
            assert time.monotonic() < until, f"No curve of {episodes} episodes: {found}"
            time.sleep(0.1)


@contextmanager
def serving(directory: Path, *classes: str) -> Iterator[Server]:
    """Serve `classes`, found in `directory` where the data is, too; without any, the bundled
    environments."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = (ORSWEB, ROOT / "manage.py", "serve", *classes, "--port", str(port))
    data = directory / "data"
    environment = {**os.environ, "ORSWEB_DATA_DIR": str(data), "DATABASE_URL": ""}
    log = directory / "serve.log"
    with (
        log.open("wb") as output,
        subprocess.Popen(
            command, cwd=directory, env=environment, stdout=output, stderr=output
        ) as process,
    ):
        try:
            started = Server(f"http://127.0.0.1:{port}", data)
            wait_until_healthy(started, process, log)
            yield started
        finally:
            process.terminate()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Serve the bundled environments on a free port, with a temporary data directory. All tests
    share this server."""
    with serving(tmp_path_factory.mktemp("served")) as started:
        yield started


def wait_until_healthy(server: Server, process: subprocess.Popen[bytes], log: Path) -> None:
    """Raises: AssertionError with the server's log if it ends or never answers."""
    until = time.monotonic() + MAX_SECONDS
    while True:
        try:
            urlopen(f"{server.url}/health", timeout=5).close()
            return
        except OSError:
            assert process.poll() is None and time.monotonic() < until, log.read_text(
                errors="replace"
            )
            time.sleep(0.1)
