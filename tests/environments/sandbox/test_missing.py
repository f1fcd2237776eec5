"""Tests of machines without a sandbox: the message names the reason and the Debian package. Each
case is a process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.sandboxed import needs_bubblewrap

ROOT = Path(__file__).resolve().parents[3]


def reason(path: Path, programs: str = "{}", before: Sequence[str] = ()) -> str:
    """Return what a process with the PATH `path` prints, which is started by the command
    `before`."""
    program = (
        f"from environments.sandbox.bubblewrap import unavailable; print(unavailable({programs}))"
    )
    command = [*before, sys.executable, "-c", program]
    ran = subprocess.run(
        command, cwd=ROOT, env={"PATH": str(path)}, capture_output=True, text=True, check=True
    )
    return ran.stdout.strip()


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A directory for PATH, with a `bwrap` that the kernel forbids everything."""
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    fake.chmod(0o755)
    tmp_path.chmod(0o755)
    return tmp_path


def test_it_names_the_package_where_bubblewrap_is_missing(tmp_path: Path) -> None:
    assert reason(tmp_path) == (
        "It needs a sandbox, and bubblewrap is missing; install it (on Debian: apt-get install "
        "bubblewrap)."
    )


def test_it_quotes_bubblewrap_where_the_kernel_forbids_it(programs: Path) -> None:
    told = reason(programs)
    assert "bubblewrap cannot make one here. The sandbox did not start" in told
    assert "sysctl kernel.unprivileged_userns_clone=1" in told


@needs_bubblewrap
def test_it_names_the_package_of_a_program_that_is_missing() -> None:
    assert reason(Path("/usr/bin"), "{'python9': 'python9-minimal'}") == (
        "/usr/bin/python9 is missing, which its sandbox needs; install it (on Debian: apt-get "
        "install python9-minimal)."
    )


@needs_bubblewrap
def test_it_names_the_machine_where_system_calls_cannot_be_filtered() -> None:
    assert reason(Path("/usr/bin"), before=["setarch", "linux32"]).startswith(
        "It needs a sandbox, which there is on x86_64 and aarch64 only; this machine is '"
    )
