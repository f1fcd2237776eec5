"""Clients made from /openapi.json play an episode: TypeScript and Python with generated code, Go
without any.

Each language has a program in a directory here that plays the last task of the first split and
prints what it saw.
What it sends and receives is compared with the document, and then the record with what it printed.
What was generated and compiled is in `.pytest_cache` until the document, the client or a generator
changes.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
from pytest_django import DjangoDbBlocker

from tests.conformance.record import recorded
from tests.conformance.traffic import recording_proxy
from tests.described import check_exchange
from tests.other_servers import GO_VARIABLES
from tests.server import LiveServer

HERE = Path(__file__).parent
KEY = "a-key-of-the-tests"
LANGUAGES = ["go", "python", "typescript"]
SEEN = {
    "prompt": ["Task train-2."],
    "tools": ["echo", "finish"],
    "refusal": "input_validation",
    "length": 10_000,
    "rewards": [0.1, 0.5],
    "finished": True,
}
CACHE = HERE.parents[1] / ".pytest_cache"
UNREACHABLE = ("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ECONNRESET", "ETIMEDOUT")
"""What npm says when it cannot reach the registry."""


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    with LiveServer(
        "tests.envs:Echo", "tests.envs:Counter", env={"ORSWEB_API_KEYS": f"ci:{KEY}"}
    ) as running:
        yield running


@pytest.fixture(scope="module")
def go(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the command that runs the Go client."""
    _need("go", "golang-go")
    directory = tmp_path_factory.mktemp("go")
    program = str(directory / "play")
    _run(
        "go",
        "build",
        "-o",
        program,
        ".",
        cwd=HERE / "go",
        GOPATH=str(directory / "path"),
        **GO_VARIABLES,
    )
    return [program]


@pytest.fixture(scope="module")
def document(server: LiveServer) -> bytes:
    with urllib.request.urlopen(f"{server.url}/openapi.json") as answer:
        return bytes(answer.read())


@pytest.fixture(scope="module")
def python(document: bytes, server: LiveServer) -> list[str]:
    """Return the command that runs the Python client."""
    generator = "openapi-python-client"
    options = [
        "--meta",
        "none",
        "--output-path",
        "ors_client",
        "--config",
        str(HERE / "python" / "generator.yaml"),
    ]

    def make(directory: Path) -> None:
        source = ["--url", f"{server.url}/openapi.json"]
        program = str(Path(sys.executable).with_name(generator))
        _run(program, "generate", *source, *options, "--fail-on-warning", cwd=directory)

    return [
        sys.executable,
        str(_kept("python", document + version(generator).encode(), make) / "play.py"),
    ]


@pytest.fixture(scope="module")
def typescript(
    document: bytes, server: LiveServer, tmp_path_factory: pytest.TempPathFactory
) -> list[str]:
    """Return the command that runs the TypeScript client."""
    _need("npm", "npm")
    packages = _node_modules(tmp_path_factory.mktemp("npm"))

    def make(directory: Path) -> None:
        (directory / "node_modules").symlink_to(packages)
        programs = packages / ".bin"
        _run(
            str(programs / "openapi-typescript"),
            f"{server.url}/openapi.json",
            "-o",
            "schema.d.ts",
            cwd=directory,
        )
        _run(str(programs / "tsc"), "-p", ".", cwd=directory)

    return ["node", str(_kept("typescript", document, make) / "dist" / "play.js")]


def _kept(language: str, source: bytes, make: Callable[[Path], None]) -> Path:
    """Return a copy of the client of `language` with what `make` adds to it from `source` and from
    the client's files.

    It is made anew when any of them has changed.
    """
    digest = hashlib.sha256(source)
    for file in sorted((HERE / language).glob("*.*")):
        digest.update(file.read_bytes())
    kept = CACHE / f"client-{language}-{digest.hexdigest()[:16]}"
    if not kept.exists():
        for outdated in CACHE.glob(f"client-{language}-*"):
            shutil.rmtree(outdated)
        CACHE.mkdir(exist_ok=True)
        # so that a run that is stopped leaves no part of it
        with tempfile.TemporaryDirectory(dir=CACHE) as directory:
            made = Path(shutil.copytree(HERE / language, Path(directory) / language))
            make(made)
            made.replace(kept)
    return kept


def _node_modules(directory: Path) -> Path:
    """Return the packages of the TypeScript client, which are installed anew when the lock file has
    changed."""
    digest = hashlib.sha256((HERE / "typescript/package-lock.json").read_bytes()).hexdigest()
    kept = CACHE / f"node-{digest[:16]}"
    if not kept.exists():
        for file in (HERE / "typescript").glob("package*.json"):
            shutil.copy(file, directory)
        options = ["--ignore-scripts", "--no-audit", "--no-fund", "--cache", str(CACHE / "npm")]
        try:
            _run("npm", "ci", *options, cwd=directory)
        except AssertionError as error:
            if any(sign in str(error) for sign in UNREACHABLE):
                pytest.skip("needs the npm registry, which cannot be reached")
            raise
        CACHE.mkdir(exist_ok=True)
        shutil.move(directory, kept)
    return kept / "node_modules"


@pytest.fixture(params=LANGUAGES)
def language(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def command(request: pytest.FixtureRequest, language: str) -> list[str]:
    found: list[str] = request.getfixturevalue(language)
    return found


def test_a_client_plays_an_episode(
    command: list[str], language: str, server: LiveServer, django_db_blocker: DjangoDbBlocker
) -> None:
    with recording_proxy(server.port) as proxy:
        seen = json.loads(_run(*command, proxy.url, "echo", KEY))
    sid = seen.pop("sid")
    assert seen == SEEN
    for exchange in proxy.exchanges:
        check_exchange(exchange)
    with recorded(server, django_db_blocker) as record:
        episode = record.episode(sid)
        assert (episode.run.name, episode.cause, episode.task_index) == (language, "finished", 2)
        assert [(step.tool, step.reward) for step in record.steps(sid)] == [
            ("echo", None),
            ("echo", 0.1),
            ("finish", 0.5),
        ]


def test_a_client_reports_a_refusal(command: list[str], server: LiveServer) -> None:
    with pytest.raises(AssertionError, match="X-API-Key is not one of this server's keys"):
        _run(*command, server.url, "echo", "another-key")


def _need(program: str, package: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"needs {program}, which the Debian package {package} has")


def _run(*command: str, cwd: Path | None = None, **environment: str) -> str:
    """Return what the command prints. Raises: AssertionError with all of it if it fails."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, f"{command[0]} failed:\n{done.stdout}\n{done.stderr}"
    return done.stdout
