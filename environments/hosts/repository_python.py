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
    """Return the path of the interpreter of a repository, made if necessary; empty: this one
    suffices.

    `interpreters`: the directory in which they are kept. Raises: Unhostable.
    """
    file = next((path for name in FILES if (path := repository / name).is_file()), None)
    if file is None:
        return ""
    requirements = _own_requirements()
    identity = [
        __version__,
        str(PACKAGE),
        sys.version,
        *requirements,
        file.name,
        file.read_text("utf-8", "replace"),
    ]
    digest = hashlib.blake2b("\0".join(identity).encode(), digest_size=12).hexdigest()
    directory = interpreters / digest
    if not directory.exists():
        _make(directory, file, requirements)
    return str(directory / "bin" / "python")


def _own_requirements() -> list[str]:
    """Return what the package `orsweb-author` requires."""
    if (file := PACKAGE.parent / "author" / "pyproject.toml").is_file():  # a checkout
        project = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
        dependencies: list[str] = project["dependencies"]
        return dependencies
    try:
        return requires("orsweb-author") or []
    except PackageNotFoundError:
        return []


def _make(directory: Path, file: Path, requirements: list[str]) -> None:
    """Make the environment aside, so that an incomplete one is never used."""
    uv = shutil.which(
        "uv", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    )
    if uv is None:
        raise Unhostable(
            f"{file} needs packages, and there is no uv to install them; install uv, or name an "
            f"interpreter that has them as {file.parent}@/path/to/python."
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
        _run(file, [uv, "pip", "install", "--quiet"], python, "-r", str(file), *requirements)
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
    process = subprocess.run(  # nosec B603 # uv, on a file that the operator has named
        [*command, "--python", python, *map(str, arguments)],
        cwd=file.parent,
        env=variables(python),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    if process.returncode:
        output = " ".join(process.stderr.decode("utf-8", "replace").split())
        raise Unhostable(
            f"{file}: its packages cannot be installed: "
            f"{output or f'uv exited with {process.returncode}'}"
        )
