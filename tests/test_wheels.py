"""The wheels orsweb and orsweb-author, built from this checkout and installed into environments of
their own.

What they depend on is taken from this environment, so no package index is needed.
"""

from __future__ import annotations

import configparser
import os
import re
import sqlite3
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import closing
from importlib import metadata
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from packaging.requirements import Requirement

from environments import __version__
from tests import interpreters
from tests.conformance.agent import eventually
from tests.conformance.clients import OrsClient
from tests.rows import each
from tests.server import free_port

ROOT = Path(__file__).resolve().parent.parent
MODULE = """
import importlib.util
from environments import Environment, TextBlock, ToolOutput, tool

class Own(Environment):
    @classmethod
    def list_splits(cls):
        return ["train"]

    @classmethod
    def list_tasks(cls, split):
        return [{"id": 1}]

    def get_prompt(self):
        return [TextBlock(text="Look for Django.")]

    @tool
    def look(self) -> ToolOutput:
        found = importlib.util.find_spec("django") is not None
        return ToolOutput(blocks=[TextBlock(text=str(found))], reward=1.0, finished=True)
"""

pytest.importorskip(
    "hatchling", reason="hatchling, which builds the wheels, is not installed: run make venv"
)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The files of orsweb and orsweb-author."""
    directory = tmp_path_factory.mktemp("dist")
    for project in (ROOT, ROOT / "author"):
        build = [
            sys.executable,
            "-m",
            "hatchling",
            "build",
            "--target",
            "wheel",
            "--directory",
            str(directory),
        ]
        subprocess.run(build, cwd=project, check=True, capture_output=True)
    return [
        directory / f"{name}-{__version__}-py3-none-any.whl" for name in ("orsweb", "orsweb_author")
    ]


@pytest.fixture(scope="module")
def authors_python(wheels: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter with orsweb-author and what it depends on."""
    return install(interpreters.make(tmp_path_factory.mktemp("author")), wheels[1])


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory for data of the user who starts the installed orsweb, empty at first."""
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def served(
    wheels: list[Path], authors_python: Path, data: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The URL of an installed orsweb, started in a directory with a module, whose class another
    interpreter plays."""
    directory, port = tmp_path_factory.mktemp("anywhere"), free_port()
    (directory / "own.py").write_text(MODULE)
    python = interpreters.make(directory / "venv")
    others = [path for path in sys.path if Path(path).name == "site-packages"]
    (interpreters.packages_of(directory / "venv") / "others.pth").write_text("\n".join(others))
    install(python, *wheels)
    settings = ("ORSWEB_", "DATABASE_URL", "DJANGO")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(settings)}
    server = subprocess.Popen(
        [python.with_name("orsweb"), "serve", f"own:Own@{authors_python}", "--port", str(port)],
        cwd=directory,
        env={**kept, "XDG_DATA_HOME": str(data), "ORSWEB_FOLLOWER": "thread"},
    )
    try:
        eventually(lambda: answers(f"http://127.0.0.1:{port}/health"), seconds=120)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(40)


def install(python: Path, *wheels: Path) -> Path:
    """Install wheels without what they depend on."""
    uv = Path(sys.executable).with_name("uv")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--no-index", "--no-compile"]
    tool = (
        [uv, "pip", "install", "--offline", "--no-cache", "--python", python]
        if uv.exists()
        else pip
    )
    subprocess.run([*tool, "--quiet", "--no-deps", *wheels], check=True)
    return python


def answers(url: str) -> bool:
    try:
        return httpx.get(url).status_code == 200
    except httpx.HTTPError:
        return False


def files_of(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def tree(directory: str) -> Iterator[str]:
    """Yield the files in a directory of the checkout."""
    for path in (ROOT / directory).rglob("*"):
        if path.is_file() and path.suffix != ".pyc":
            yield path.relative_to(ROOT).as_posix()


def test_every_file_is_in_one_of_them(wheels: list[Path]) -> None:
    server, author = map(files_of, wheels)
    whole = {*tree("environments"), *tree("episodes"), *tree("orsweb")}
    whole |= {f"orsweb/{file}" for file in (*tree("static"), *tree("templates"))}
    assert server.isdisjoint(author)
    assert sorted(server | author) == sorted(whole)


def test_the_server_needs_the_author_s_part_in_its_own_version(wheels: list[Path]) -> None:
    with zipfile.ZipFile(wheels[0]) as archive:
        [metadata, commands] = [
            archive.read(f"orsweb-{__version__}.dist-info/{name}").decode()
            for name in ("METADATA", "entry_points.txt")
        ]
    assert f"Requires-Dist: orsweb-author=={__version__}" in metadata
    scripts = configparser.ConfigParser()
    scripts.read_string(commands)
    assert dict(scripts["console_scripts"]) == {"orsweb": "orsweb.__main__:main"}


@each("client", ["openreward", "ors-sdk"])
def test_the_server_can_be_installed_with_a_client(client: str) -> None:
    """Their libraries agree: none that the client needs has another version in the server's part of
    the lock file."""
    served = (
        (ROOT / "requirements.lock")
        .read_text(encoding="utf-8")
        .partition("# --- development ---")[0]
    )
    versions = dict(re.findall(r"^([\w.-]+)==([^\s;]+)", served, re.MULTILINE))
    needed = [
        Requirement(text) for text in metadata.requires(client) or () if "extra ==" not in text
    ]
    shared = [one for one in needed if one.name in versions]
    assert [
        f"{one}, not {versions[one.name]}"
        for one in shared
        if versions[one.name] not in one.specifier
    ] == []
    assert "pydantic" in {one.name for one in shared}


def test_every_module_for_authors_is_imported_alone(
    wheels: list[Path], authors_python: Path
) -> None:
    names = [
        name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for name in files_of(wheels[1])
    ]
    code = (
        "import importlib, sys; print(*(importlib.import_module(name).__name__ for name in "
        "sys.argv[1:]))"
    )
    done = subprocess.run(
        [authors_python, "-I", "-c", code, *names], check=True, capture_output=True, text=True
    )
    assert done.stdout.split() == names


def test_an_installed_server_plays_a_class_of_an_environment_without_django(served: str) -> None:
    with OrsClient(cast(Any, None), url=served) as client:
        [task] = client.environment("own").list_tasks("train")
        with client.environment("own").session(task) as session:
            assert session.get_prompt()[0].text == "Look for Django."
            assert session.call_tool("look", {}).blocks[0].text == "False"


@pytest.mark.parametrize("path", ["/", "/admin/", "/static/orsweb/tokens.css"])
def test_an_installed_server_has_its_pages(served: str, path: str) -> None:
    answer = httpx.get(f"{served}{path}", follow_redirects=True, timeout=60)
    assert (answer.status_code, len(answer.text) > 1000) == (200, True)


def test_the_first_start_makes_a_database_and_migrates_it(served: str, data: Path) -> None:
    with closing(sqlite3.connect(data / "orsweb/orsweb.sqlite3")) as database:
        assert database.execute(
            "SELECT count(*) FROM django_migrations WHERE app = 'episodes'"
        ).fetchone() > (0,)
