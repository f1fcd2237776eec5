"""Tests of which files the code of a class is taken to be in, and of whether these are known to be
all."""

from __future__ import annotations

import importlib
import py_compile
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from environments.authoring.source_files import MAX_FILES, SourceFiles, source_files
from tests.rows import each

PACKAGES = ("own", "late", "parts", "helper", "stray")

Files = Callable[[Mapping[str, str]], SourceFiles]


@pytest.fixture
def files_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Files]:
    """Writes modules of an author, each time beside the others, and returns the files of the class
    own.env.Own."""
    monkeypatch.syspath_prepend(str(tmp_path))
    # which would hide changes within a second
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def forget() -> None:
        for name in [name for name in sys.modules if name.partition(".")[0] in PACKAGES]:
            del sys.modules[name]

    def written(modules: Mapping[str, str]) -> SourceFiles:
        forget()
        for name, code in {"own/__init__.py": "", **modules}.items():
            file = tmp_path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(code)
        importlib.invalidate_caches()
        return source_files([importlib.import_module("own.env").Own])

    yield written
    forget()


def calling(*lines: str) -> str:
    """Return the code of a class that runs `lines` in a method."""
    return "\n        ".join(["class Own:\n    def list_tasks(self):", *lines, "pass\n"])


def test_modules_that_are_imported_only_in_a_call_are_found_without_an_import(
    files_of: Files,
) -> None:
    modules = {
        "late/__init__.py": "raise SystemExit",
        "late/data.py": "from .rows import more",
        "late/rows/__init__.py": "",
        "late/rows/more.py": "",
        "parts/data.py": "",
        "parts/inner/data.py": "",
        "own/deep/tasks/data.py": "",
    }
    lines = [
        "from late.data import X",
        "import parts.data as p",
        "from parts.inner import data, more",
    ]
    found = files_of(
        {**modules, "own/env.py": calling(*lines, "from .deep.tasks.data import TASKS")}
    )
    names = {"late", "late.data", "late.rows", "late.rows.more", "parts.data", "parts.inner.data"}
    assert set(found.files) == {"own", "own.env", "own.deep.tasks.data", *names}
    assert found.unread == ""
    assert not [name for name in sys.modules if name.partition(".")[0] in ("late", "parts")]
    assert (
        found.files["own.env"].name == "env.py" and found.files["late.rows"].name == "__init__.py"
    )


def test_python_itself_this_server_and_installed_packages_have_versions(files_of: Files) -> None:
    lines = [
        "import os.path, time, xml.dom.minidom, msvcrt",
        "from pydantic.v1 import BaseModel",
        "import asgiref.no.where",
    ]
    lines += [
        "from environments.wire import nothing",
        "if False:\n            from ... import x, y",
    ]
    found = files_of({"own/env.py": calling(*lines)})
    assert (set(found.files), found.unread) == ({"own", "own.env"}, "")


@each(
    "line, unread",
    [
        ("import stray", "module stray, which was not found"),
        ("import helper.gone.far", "module helper.gone.far, which was not found"),
        ("from parts import nothing", ""),
        ("from helper import nothing", ""),
        ("import helper.broken", "the imports of helper.broken (SyntaxError)"),
        ("import helper.fast", "module helper.fast, which is compiled"),
        ("from helper import fast", "module helper.fast, which is compiled"),
    ],
)
def test_what_is_not_known_of_the_code_is_said(files_of: Files, line: str, unread: str) -> None:
    helpers = {
        "helper/__init__.py": "",
        "helper/broken.py": "def",
        f"helper/fast{EXTENSION_SUFFIXES[0]}": "",
    }
    found = files_of({**helpers, "parts/data.py": "", "own/env.py": calling(line)})
    assert found.unread == unread
    assert "own.env" in found.files


def test_a_module_that_is_imported_from_a_compiled_file_is_among_the_files(
    files_of: Files, tmp_path: Path
) -> None:
    (tmp_path / "source.txt").write_text("X = 1")
    py_compile.compile(
        str(tmp_path / "source.txt"), cfile=str(tmp_path / "stray.pyc"), doraise=True
    )
    found = files_of({"own/env.py": "import stray\n" + calling()})
    assert (found.files["stray"].name, found.unread) == (
        "stray.pyc",
        "module stray, which is compiled",
    )


def test_what_a_package_exports_by_a_list_of_names_is_not_known(files_of: Files) -> None:
    found = files_of(
        {
            "own/env.py": "from helper import *\n" + calling(),
            "helper/__init__.py": "from .values import *",
            "helper/values.py": "",
        }
    )
    assert set(found.files) == {"own", "own.env", "helper", "helper.values"}
    assert found.unread == "module helper.*, which was not found"


def test_of_too_many_files_the_nearest_are_read(files_of: Files) -> None:
    names = [f"m{number}" for number in range(MAX_FILES)]
    many = {f"helper/{name}.py": "" for name in names}
    base = "from helper import " + ", ".join(names) + "\nclass Base: pass\n"
    env = "from helper import base\nfrom . import near\nclass Own(base.Base): pass\n"
    found = files_of({**many, "helper/base.py": base, "own/near.py": "", "own/env.py": env})
    assert len(found.files) == MAX_FILES and {"own.env", "own.near", "helper.base"} <= set(
        found.files
    )
    assert found.unread.startswith("module helper.m") and found.unread.endswith(
        f", after {MAX_FILES} others"
    )


def test_a_module_that_was_made_in_memory_is_not_known(files_of: Files) -> None:
    made = "import sys, types\nsys.modules['stray'] = types.ModuleType('stray')\n"
    assert (
        files_of({"own/env.py": made + calling("import stray")}).unread
        == "module stray, which was not found"
    )
