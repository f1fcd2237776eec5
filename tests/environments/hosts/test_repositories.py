"""Repositories of others: their classes are found, and play beside each other though modules have
the same names."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from environments.errors import Unhostable
from environments.hosts.every_host import EveryHost
from environments.hosts.loading import load
from environments.hosts.repositories import classes_in
from environments.hosts.repository_python import python_of
from environments.limits import Limits, LoadingSettings
from environments.runtime.threads import ThreadPool
from tests.rows import each

CLASS = """
from pathlib import Path
from ors import Environment, TextBlock, ToolOutput, tool
from helper import SIZE

class {name}(Environment):
    @classmethod
    def list_splits(cls): return ["train"]
    @classmethod
    def list_tasks(cls, split): return [{{"place": place}} for place in range(SIZE)]
    def get_prompt(self): return [TextBlock(text=Path("words.txt").read_text())]
    @tool
    def go(self) -> ToolOutput: return ToolOutput(blocks=[])
"""
SERVED = "from ors import Server\nfrom env import {name}\nServer([{name}]).run()\n"


def write(directory: Path, **files: str) -> Path:
    """Write files, whose names have `__` for a slash and no `.py`."""
    for name, text in files.items():
        path = directory / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return directory


def repository(directory: Path, name: str, size: int) -> Path:
    write(
        directory,
        env=CLASS.format(name=name),
        helper=f"SIZE = {size}",
        server=SERVED.format(name=name),
    )
    (directory / "words.txt").write_text(f"Words of {name}.")
    return directory


A = "class A(Environment): pass\nclass B(A): pass\n"


@each(
    ("files", "classes"),
    [
        ({"server": "from env import A\nif 1:\n  Server([A]).run()", "env": A}, ["env:A"]),
        ({"server": "from env import A as C\nServer(environments=(C,))", "env": A}, ["env:A"]),
        ({"server": "import env\nors.Server([env.B, env.A])", "env": A}, ["env:B", "env:A"]),
        ({"server": f"{A}Server([B])"}, ["server:B"]),
        ({"src__server": "from src.env import A\nServer([A])", "src__env": A}, ["src.env:A"]),
        ({"src__server": "from .env import A\nServer([A])", "src__env": A}, ["src.env:A"]),
        ({"src__server": "from env import A\nServer([A])", "src__env": A}, ["src:env:A"]),
        ({"env": A}, ["env:B"]),
        ({"env": A, "tests__env": A, "broken": "def ("}, ["env:B"]),
        ({"server": "from somewhere import A\nServer([A])", "env": A}, ["env:B"]),
    ],
)
def test_its_classes_are_found_without_importing_it(
    tmp_path: Path, files: dict[str, str], classes: list[str]
) -> None:
    directory = write(Path(tmp_path / re.sub(r"\W", "", repr(files))[:80]), **files)
    found = [str(one).removeprefix(str(directory)).lstrip("/:") for one in classes_in(directory)]
    assert found == classes


def test_without_a_class_it_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        Unhostable,
        match=r"has no Server\(\[\.\.\.\]\) and no class that derives "
        r"from Environment",
    ):
        load([str(write(tmp_path, env="x = 1"))])


async def test_repositories_with_modules_of_the_same_name_are_served_together(
    tmp_path: Path,
) -> None:
    chess, go = repository(tmp_path / "chess", "Chess", 2), repository(tmp_path / "go", "Go", 3)
    registry = load([str(chess), f"weiqi={go}", f"small={go}:env:Go"])
    assert registry.names == ["chess", "weiqi", "small"]
    assert registry.get("weiqi").origin == f"{go}:env:Go"
    pool = ThreadPool()
    host = EveryHost(registry, pool, Limits())
    try:
        assert [len(await host.tasks(name).listing("train")) for name in ("chess", "weiqi")] == [
            2,
            3,
        ]
        assert [await prompt_of(host, name) for name in ("chess", "weiqi")] == [
            "Words of Chess.",
            "Words of Go.",
        ]
    finally:
        await host.close()
        pool.close()


async def prompt_of(host: EveryHost, name: str) -> Any:
    instance = host.instance(name)
    await instance.construct({"place": 0}, {}, None)
    prompt = await instance.prompt_json()
    await instance.close()
    return re.findall(r'"text":"(.*?)"', prompt)[0]


def test_one_name_is_not_for_several_classes(tmp_path: Path) -> None:
    write(tmp_path, env="class A(Environment): pass\nclass C(Environment): pass")
    with pytest.raises(
        Unhostable,
        match=f"names 2 classes; write game=… with one of {tmp_path}:env:A, {tmp_path}:env:C",
    ):
        load([f"game={tmp_path}"])


# --- its interpreter ------------------------------------------------------------------------------


@pytest.fixture
def uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in place of uv, which needs the network. It notes how it is called; return its
    notes."""
    program, notes = tmp_path / "bin" / "uv", tmp_path / "notes"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\necho "$@" >> {notes}\n[ -e {tmp_path}/broken ] && echo no such package >&2 && '
        "exit 1\n"
        '[ "$1" = venv ] && for last; do :; done && mkdir -p $last/lib/python3.11/site-packages '
        "$last/bin "
        f"&& ln -s {sys.executable} $last/bin/python\nexit 0\n"
    )
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program.parent / "python"))
    return notes


@pytest.mark.parametrize("name", ["requirements.txt", "pyproject.toml"])
def test_its_requirements_become_an_interpreter_once(tmp_path: Path, uv: Path, name: str) -> None:
    (tmp_path / name).write_text("one")
    first = python_of(tmp_path, tmp_path / "made")
    assert python_of(tmp_path, tmp_path / "made") == first
    assert len(uv.read_text().splitlines()) == 2
    (tmp_path / name).write_text("two")
    assert python_of(tmp_path, tmp_path / "made") != first
    assert (Path(first).parents[1] / "lib/python3.11/site-packages/environments/wire.py").is_file()
    assert f"-r {tmp_path / name} jsonschema" in uv.read_text()


def test_without_requirements_this_interpreter_plays_it(tmp_path: Path) -> None:
    assert python_of(tmp_path, tmp_path / "made") == ""


def test_what_cannot_be_installed_is_refused_and_tried_again(tmp_path: Path, uv: Path) -> None:
    (tmp_path / "requirements.txt").write_text("one")
    (tmp_path / "broken").touch()
    with pytest.raises(
        Unhostable,
        match=r"requirements.txt: its packages cannot be installed: no "
        r"such package",
    ):
        load([f"{tmp_path}:env:A"], LoadingSettings(interpreters=tmp_path / "made"))
    assert list((tmp_path / "made").iterdir()) == []
    (tmp_path / "broken").unlink()
    assert python_of(tmp_path, tmp_path / "made")


def test_without_uv_a_sentence_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "requirements.txt").write_text("one")
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(
        Unhostable, match="there is no uv to install them; install uv, or name an interpreter"
    ):
        python_of(tmp_path, tmp_path / "made")
