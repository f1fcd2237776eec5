"""`new_environment`: what it writes is tidy, plays, passes its own test and every check; what it
refuses."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from django.core.management import CommandError, call_command

from environments.hosts.loading import load
from tests import programs
from tests.rows import each
from tests.server import LiveServer

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a new environment `word_order`."""
    directory = tmp_path_factory.mktemp("author")
    call_command("new_environment", "word_order", "--directory", str(directory))
    return directory


def _run(*command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, *command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_it_writes_module_test_and_card(written: Path) -> None:
    assert {path.name for path in written.iterdir()} >= {
        "word_order.py",
        "test_word_order.py",
        "word_order.md",
    }


def test_it_says_what_to_do_next(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("new_environment", "word_order", "--directory", str(tmp_path))
    told = capsys.readouterr().out
    assert f"cd {tmp_path}" in told
    assert "serve word_order:WordOrder" in told
    assert "check_environment word_order:WordOrder" in told
    assert "pytest test_word_order.py" in told


@pytest.mark.parametrize("rules", [["--isolated"], ["--config", str(ROOT / "pyproject.toml")]])
def test_it_is_tidy(written: Path, rules: list[str]) -> None:
    for check in (["check"], ["format", "--check"]):
        done = _run("-m", "ruff", *check, "--no-cache", *rules, str(written), cwd=ROOT)
        assert done.returncode == 0, done.stdout


def test_it_passes_its_own_test(written: Path) -> None:
    done = _run("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_word_order.py", cwd=written)
    assert done.returncode == 0, done.stdout


def test_it_passes_every_check(written: Path) -> None:
    done = programs.run("check_environment", "word_order:WordOrder", "--strict", cwd=written)
    assert done.returncode == 0, done.stdout


def test_it_is_served(written: Path) -> None:
    with LiveServer("word_order:WordOrder", cwd=written) as server:
        assert httpx.get(f"{server.url}/list_environments").json() == ["word_order"]
        assert httpx.post(f"{server.url}/word_order/num_tasks", json={"split": "train"}).json() == {
            "num_tasks": 200
        }


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "word_order.md").write_text("mine")
    with pytest.raises(CommandError, match=r"word_order\.md exists and is not overwritten"):
        call_command("new_environment", "word_order", "--directory", str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["word_order.md"]


@each(
    ("name", "words"),
    [
        ("9lives", "cannot name a module"),
        ("Word", "cannot name a module"),
        ("../word", "cannot name a module"),
        ("class", "cannot name a module"),
        ("tasks", "is reserved"),
        ("json", "exists already"),
        ("django", "exists already"),
    ],
)
def test_a_name_that_will_not_do_is_refused(tmp_path: Path, name: str, words: str) -> None:
    with pytest.raises(CommandError, match=words):
        call_command("new_environment", name, "--directory", str(tmp_path))
    assert not list(tmp_path.iterdir())


def test_a_directory_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="isn't a directory"):
        call_command("new_environment", "word_order", "--directory", str(tmp_path / "nowhere"))


def test_any_good_name_makes_a_class_that_can_be_hosted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call_command("new_environment", "a1_b", "--directory", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    assert load(["a1_b:A1B"]).names == ["a1_b"]
