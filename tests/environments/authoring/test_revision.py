"""Tests of what makes two revisions of a hosted class different."""

from __future__ import annotations

import importlib
import py_compile
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pytest_django import Settings

from environments.authoring.hosted_class import HostedClass
from environments.authoring.hosted_environment import ClassRevision
from environments.authoring.revision import note_revisions
from environments.authoring.source_files import source_files
from environments.hosts.loading import load

CODE = """
from environments import Environment, ToolOutput, tool
from own_package import words
import json, pydantic


class Own(Environment):
    revision_packages = ("pydantic", "no-such-package")

    @classmethod
    def list_splits(cls):
        return ["train"]

    @classmethod
    def list_tasks(cls, split):
        return [{}]

    def get_prompt(self):
        return []

    @tool
    def go(self) -> ToolOutput:
        return ToolOutput(blocks=[], reward=1.0)
"""

Revise = Callable[[], ClassRevision]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package of an author outside of any repository."""
    found = tmp_path / "own_package"
    found.mkdir()
    (found / "__init__.py").write_text("")
    (found / "env.py").write_text(CODE)
    (found / "words.py").write_text("WORDS = 1\n")
    (found / "unused.py").write_text("X = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield found
    for name in [name for name in sys.modules if name.partition(".")[0] == "own_package"]:
        del sys.modules[name]


def revise(name: str = "Own") -> ClassRevision:
    hosted = HostedClass(getattr(importlib.import_module("own_package.env"), name))
    note_revisions([hosted], "9.9")
    assert hosted.revision is not None
    return hosted.revision


def git(package: Path, *arguments: str) -> None:
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    subprocess.run(
        ["git", "-C", str(package.parent), *who, *arguments], check=True, capture_output=True
    )


def test_the_source_files_are_those_that_the_class_imports(package: Path) -> None:
    files = source_files([importlib.import_module("own_package.env").Own]).files
    assert set(files) == {"own_package", "own_package.env", "own_package.words"}


def test_a_change_of_an_imported_file_is_another_revision(package: Path) -> None:
    before = revise()
    (package / "unused.py").write_text("X = 2\n")
    assert revise() == before
    (package / "words.py").write_text("WORDS = 2\n")
    assert revise().code != before.code


def test_versions_of_the_sdk_and_of_named_packages_are_noted(package: Path) -> None:
    versions = dict(revise().versions)
    assert versions["orsweb"] == "9.9" and versions["pydantic"][0].isdigit()
    assert versions["no-such-package"] == "not installed"


def test_outside_of_a_repository_there_is_no_commit(package: Path) -> None:
    assert (revise().git_commit, revise().is_dirty) == ("", False)


def test_a_commit_alone_is_the_same_code(package: Path) -> None:
    git(package, "init", "-q")
    git(package, "add", "-A")
    git(package, "commit", "-qm", "first")
    first = revise()
    git(package, "commit", "-qm", "second", "--allow-empty")
    second = revise()
    assert len(first.git_commit) == 40 and first.git_commit != second.git_commit
    assert first.code == second.code and first.digest != second.digest
    (package / "words.py").write_text("WORDS = 3\n")
    assert (first.is_dirty, revise().is_dirty) == (False, True)


def test_the_code_of_the_bundled_environments_is_known_completely(settings: Settings) -> None:
    bundled = load(settings.ORSWEB_BUNDLED_ENVIRONMENTS)
    note_revisions(bundled, "9.9")
    assert len(bundled) == 7
    for hosted in bundled:
        assert hosted.has_fixed_tasks and hosted.revision is not None
        assert (len(hosted.revision.source_hash), hosted.revision.unread) == (64, "")


def test_a_change_of_a_module_that_is_imported_only_in_a_call_is_another_revision(
    package: Path,
) -> None:
    (package / "deep").mkdir()
    (package / "deep" / "data.py").write_text("TASKS = [1]\n")
    late = "def late():\n    from .deep.data import TASKS\n"
    (package / "env.py").write_text(CODE + late)
    before = revise()
    (package / "deep" / "data.py").write_text("TASKS = [2]\n")
    assert (before.unread, revise().unread) == ("", "")
    assert before.code != revise().code


def test_a_change_of_a_compiled_module_is_another_revision(package: Path) -> None:
    def compile_words(value: int) -> None:
        (package / "source.txt").write_text(f"WORDS = {value}\n")
        py_compile.compile(
            str(package / "source.txt"), cfile=str(package / "words.pyc"), doraise=True
        )

    (package / "words.py").unlink()
    compile_words(1)
    before = revise()
    assert before.unread == "module own_package.words, which is compiled"
    assert revise() == before
    compile_words(2)
    assert revise().code != before.code


def test_classes_that_a_function_makes_are_of_different_revisions(package: Path) -> None:
    made = (
        "\n\ndef make():\n    class Made(Own):\n        pass\n\n    return Made\n\n\nEasy, Hard = "
        "make(), make()\n"
    )
    (package / "env.py").write_text(CODE + made)
    assert revise("Easy") == revise("Easy")
    assert revise("Easy").code != revise("Hard").code
    assert revise("Easy").unread == "which of the classes make.<locals>.Made it is"
    assert revise().unread == ""
