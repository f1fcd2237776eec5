"""Tests of the Makefile's virtual environment, and of `make lock`."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A directory in which serving was installed, without the interpreter."""
    (tmp_path / "Makefile").write_text((ROOT / "Makefile").read_text())
    (tmp_path / "requirements.lock").touch()
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/serve").touch()
    return tmp_path


def plan_of(checkout: Path, target: str) -> str:
    """Return the commands that make would run."""
    return subprocess.run(
        ["make", "-n", target], cwd=checkout, check=True, capture_output=True, text=True
    ).stdout


def interpreter(checkout: Path, status: int) -> None:
    """Put a command that does nothing where the interpreter belongs."""
    command = checkout / ".venv/bin/python"
    command.write_text(f"#!/bin/sh\nexit {status}\n")
    command.chmod(0o755)


def test_an_interpreter_that_was_removed_is_replaced_with_its_packages(checkout: Path) -> None:
    (checkout / ".venv/bin/python").symlink_to("/usr/bin/no-such-python")
    plan = plan_of(checkout, "serve")
    assert "-m venv --clear .venv" in plan and "touch .venv/serve" in plan


def test_an_interpreter_of_another_version_is_replaced_with_its_packages(checkout: Path) -> None:
    interpreter(checkout, 1)  # as one that does not find the packages
    plan = plan_of(checkout, "serve")
    assert "-m venv --clear .venv" in plan and "touch .venv/serve" in plan


def test_an_interpreter_with_its_packages_stays(checkout: Path) -> None:
    interpreter(checkout, 0)
    assert "venv --clear" not in (plan := plan_of(checkout, "serve")) and "touch" not in plan


def test_extras_are_installed_with_the_hashes_of_the_lock_file(checkout: Path) -> None:
    interpreter(checkout, 0)
    plan = plan_of(checkout, "extras")
    assert ".ci/extras.py otel sso > .venv/extras.txt" in plan
    assert "--require-hashes --constraint requirements.lock --requirement .venv/extras.txt" in plan


def test_the_lock_file_has_what_every_extra_asks_for() -> None:
    command = [sys.executable, str(ROOT / ".ci/extras.py"), "otel", "sso"]
    found = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert re.findall(r"(?m)^([\w-]+)==[\w.]+ \\\n    --hash=sha256:", found) == [
        "mozilla-django-oidc", "opentelemetry-exporter-otlp-proto-http", "opentelemetry-sdk",
    ]  # fmt: skip


def test_an_extra_that_there_is_not_is_named_with_those_that_there_are() -> None:
    command = [sys.executable, str(ROOT / ".ci/extras.py"), "hotel"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, "no extra 'hotel'" in done.stderr, "otel" in done.stderr) == (
        1,
        True,
        True,
    )


@pytest.fixture
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script that `make lock` runs, for a file of its own."""
    spec = importlib.util.spec_from_file_location("lock", ROOT / ".ci/lock.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (tmp_path / "requirements.lock").write_text("one==1\n# --- development ---\ntwo==2\n")
    monkeypatch.setattr(module, "LOCK", tmp_path / "requirements.lock")
    monkeypatch.setattr("sys.argv", ["lock.py"])
    return module


def test_a_lock_file_has_both_parts(
    lock: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def resolve(*options: str) -> str:
        if "--output-file" in options:
            Path(options[options.index("--output-file") + 1]).write_text("one==2\ntwo==3\n")
        return "one==2\n"

    monkeypatch.setattr(lock, "resolve", resolve)
    lock.lock_project()
    assert (
        (tmp_path / "requirements.lock")
        .read_text()
        .endswith("one==2\n# --- development ---\ntwo==3\n")
    )
    assert [path.name for path in tmp_path.iterdir()] == ["requirements.lock"]


def test_an_interruption_leaves_the_lock_file_as_it_was(
    lock: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def resolve(*options: str) -> str:
        if "--output-file" not in options:
            raise KeyboardInterrupt
        Path(options[options.index("--output-file") + 1]).write_text("one==2\ntwo==3\n")
        return ""

    monkeypatch.setattr(lock, "resolve", resolve)
    with pytest.raises(KeyboardInterrupt):
        lock.lock_project()
    assert (tmp_path / "requirements.lock").read_text() == "one==1\n# --- development ---\ntwo==2\n"
    assert [path.name for path in tmp_path.iterdir()] == ["requirements.lock"]
