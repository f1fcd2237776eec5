"""Tests of `make audit`: it tells apart no advisories, some, and that they could not be reached."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent
ADVISORY = {"id": "GHSA-1", "fix_versions": ["1.1"], "description": "It leaks."}


@pytest.fixture
def audit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script that `make audit` runs, with a program in place of uv that does nothing."""
    spec = importlib.util.spec_from_file_location("audit", ROOT / ".ci/audit.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "UV", tmp_path / "uv")
    return module


def uv(tmp_path: Path, **found: object) -> None:
    """Write a program that reports one package, as pip-audit does to the file after `--output`."""
    report = json.dumps({"dependencies": [{"name": "one", **found}]})
    (tmp_path / "uv").write_text(
        f'#!/bin/sh\nwhile [ "$1" != --output ]; do shift; done\necho \'{report}\' > "$2"\n'
    )
    (tmp_path / "uv").chmod(0o755)


def test_it_says_that_the_advisories_could_not_be_reached(
    audit: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "uv").write_text("#!/bin/sh\necho no network >&2\nexit 1\n")
    (tmp_path / "uv").chmod(0o755)
    assert audit.main() == 2
    assert capsys.readouterr().out.startswith("no network\nThe advisories could not be reached")


def test_it_says_so_without_uv_too(audit: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit.main() == 2
    assert "The advisories could not be reached" in capsys.readouterr().out


@pytest.mark.parametrize(("vulns", "status"), [([], 0), ([ADVISORY], 1)])
def test_an_advisory_fails(
    audit: ModuleType,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    vulns: list[object],
    status: int,
) -> None:
    uv(tmp_path, version="1", vulns=vulns)
    assert audit.main() == status
    assert ("one 1: GHSA-1, fixed in 1.1. It leaks." in capsys.readouterr().out) is bool(vulns)


def test_a_package_that_pypi_says_nothing_about_is_no_package_without_advisories(
    audit: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    uv(tmp_path, skip_reason="Dependency not found on PyPI")
    assert audit.main() == 2
    assert "The advisories about 1 packages could not be reached: one" in capsys.readouterr().out
