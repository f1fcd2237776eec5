"""The interpreter of a repository: a virtual environment with what its `requirements.txt` or
`pyproject.toml` asks for.

It is made once by `uv` and kept by a hash of these files, so that a start without changes installs
nothing, and a changed file makes another one. Of orsweb it has a link to the package
`environments`, and what that needs.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import structlog

from environments import __version__
from environments.errors import Unhostable
from environments.hosts.interpreter import variables

FILES = ("requirements.txt", "pyproject.toml")
"""Files that say what a repository needs; the first that exists is taken."""
PACKAGE = Path(__file__).resolve().parents[1]

log = structlog.get_logger(__name__)


def python_of(repository: Path, interpreters: Path) -> str:
    """Return the path of the interpreter of a repository, which is made if there is none; empty:
    this one suffices.

    `interpreters`: the directory in which they are kept. Raises: Unhostable.
    """
    file = next((path for name in FILES if (path := repository / name).is_file()), None)
    if file is None:
        return ""
    needed = _own_requirements()
    identity = [
        __version__,
        str(PACKAGE),
        sys.version,
        *needed,
        file.name,
        file.read_text("utf-8", "replace"),
    ]
    directory = (
        interpreters / hashlib.blake2b("\0".join(identity).encode(), digest_size=12).hexdigest()
    )
    if not directory.exists():
        _make(directory, file, needed)
    return str(directory / "bin" / "python")


def _own_requirements() -> list[str]:
    """Return what the package `orsweb-author` requires."""
    if (project := PACKAGE.parent / "author" / "pyproject.toml").is_file():  # a checkout
        listed: list[str] = tomllib.loads(project.read_text(encoding="utf-8"))["project"][
            "dependencies"
        ]
        return listed
    try:
        return requires("orsweb-author") or []
    except PackageNotFoundError:
        return []


def _make(directory: Path, file: Path, needed: list[str]) -> None:
    """Make the environment aside, so that one whose installation fails or is killed is never
    used."""
    uv = shutil.which(
        "uv", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    )
    if uv is None:
        raise Unhostable(
            f"{file} needs packages, and there is no uv to install them; install uv, or name an "
            "interpreter that has "
            f"them as {file.parent}@/path/to/python."
        )
    log.info("packages of a repository are installed", file=str(file))
    directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=f"{directory.name}-", dir=directory.parent))
    try:
        _run(
            file,
            [uv, "venv", "--quiet", "--no-project", "--relocatable", "--allow-existing"],
            sys.executable,
            aside,
        )
        python = str(aside / "bin" / "python")
        _run(file, [uv, "pip", "install", "--quiet"], python, "-r", str(file), *needed)
        (packages,) = (aside / "lib").glob("python3*/site-packages")
        (packages / "environments").symlink_to(PACKAGE)
        aside.rename(directory)
    except OSError as error:
        if not directory.exists():  # another server has made it meanwhile
            raise Unhostable(
                f"{file}: its packages cannot be installed in {directory}: {error.strerror}."
            ) from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _run(file: Path, command: list[str], python: str, *arguments: str | Path) -> None:
    """Run uv in the directory of the file, to which its relative paths refer. Raises: Unhostable;
    OSError."""
    done = subprocess.run(  # nosec B603 # uv, on a file that the operator has named
        [*command, "--python", python, *map(str, arguments)],
        cwd=file.parent,
        env=variables(python),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    if done.returncode:
        printed = " ".join(done.stderr.decode("utf-8", "replace").split())
        raise Unhostable(
            f"{file}: its packages cannot be installed: "
            f"{printed or f'uv exited with {done.returncode}'}"
        )
