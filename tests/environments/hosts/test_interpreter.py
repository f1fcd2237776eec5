"""What is wrong with another interpreter is said in one sentence, before anything is served."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from environments import __version__
from environments.errors import Unhostable
from environments.hosts import interpreter
from environments.hosts.loading import load
from environments.limits import LoadingSettings
from tests.programs import ROOT


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        (
            "echo \"No module named 'environments'\" >&2; exit 1",
            "{python} has no orsweb-author; `make wheels` builds it: run {python} -m pip",
        ),
        ("echo No pydantic >&2; exit 3", "{python} exited with status 3: No pydantic"),
        ("exit 2", "{python} exited with status 2: it printed nothing"),
        ("echo hello", "answered b'hello\\n', which describes no class"),
        (
            'echo \'{{"version": "0.0.1"}}\'',
            "version 0.0.1 of orsweb-author, and this server is {version}",
        ),
        (
            'echo \'{{"version": "{version}", "unhostable": "No class Pong."}}\'',
            "No class Pong (in {python}).",
        ),
    ],
)
def test_a_class_that_it_does_not_describe(tmp_path: Path, script: str, problem: str) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{script.format(version=__version__)}\n")
    python.chmod(0o700)
    with pytest.raises(Unhostable) as error:
        load([f"ping:Pong@{python}"])
    assert problem.format(python=python, version=__version__) in str(error.value)


def test_an_import_that_computes_for_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} "$@"\n')
    python.chmod(0o700)
    (tmp_path / "orsweb_test_endless.py").write_text("while True:\n    pass\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(interpreter, "WALL_TIMES", 1000)
    with pytest.raises(Unhostable) as error:
        load([f"orsweb_test_endless:Pong@{python}"], LoadingSettings(import_seconds=0.5))
    assert "TimeoutError: its import took over 0.5 s of CPU time; set ORSWEB_IMPORT_SECONDS" in str(
        error.value
    )
    assert f"({tmp_path}/orsweb_test_endless.py, line " in str(error.value)


def test_an_interpreter_that_is_not_there() -> None:
    with pytest.raises(
        Unhostable,
        match=r"'ping:Pong@/no/python': /no/python cannot be run \(No such file or "
        r"directory\)",
    ):
        load(["ping:Pong@/no/python"])
