"""Writes requirements.lock: the exact version and the hashes of every package that pyproject.toml
asks for.

Two parts of one resolution: what serving needs, then what development adds. `make lock` runs this;
versions that still fit are kept, unless `--upgrade` is given. tests/cluster has what a Ray cluster
needs in addition. The lock files of the trainers' environment are written from the `.in` files
beside them, without torch and the libraries of CUDA, which its build for a CPU does not need;
overrides.txt there replaces requirements of trainers that contradict each other.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
UV = Path(sys.executable).with_name("uv")
HEAD = (
    "# Written by `make lock` from pyproject.toml. `make serve` installs part one, the rest all of "
    "it.\n"
)
DEVELOPMENT = "# --- development ---\n"
TRAINERS = ROOT / "docs/trainers"
CLUSTER = ROOT / "tests/cluster"
TORCH = re.compile(r"(torch|triton|nvidia-[\w-]+|cuda-[\w-]+)==")
NOWHERE = "sys_platform == 'never'"
"""The marker with which overrides.txt leaves packages out."""
OPTIONS = (
    "--quiet",
    "--universal",
    "--generate-hashes",
    "--no-header",
    "--no-annotate",
    "--python-version",
    "3.11",
)
IN_CHECKOUT = ("--no-emit-package", "orsweb-author")


def resolve(*options: str, source: str = "pyproject.toml") -> str:
    command = [str(UV), "pip", "compile", *OPTIONS, *options, source]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def packages_of(text: str) -> list[str]:
    """Return the entry of each package in a lock file, with its hashes."""
    return re.findall(r"^[\w.-]+==.*\n(?:    .*\n)*", text, re.MULTILINE)


def lock_trainers(name: str, *options: str) -> None:
    """Write the lock file of one environment of the trainers."""
    path = TRAINERS / f"{name}.lock"
    overrides = ("--override", str(TRAINERS / "overrides.txt"))
    resolve("--output-file", str(path), *overrides, *options, source=str(TRAINERS / f"{name}.in"))
    packages = packages_of(path.read_text())
    kept = [package for package in packages if not TORCH.match(package) and NOWHERE not in package]
    path.write_text(f"# Written by `make lock` from {name}.in.\n{''.join(kept)}")


def lock_cluster() -> None:
    """Write the lock file of what Ray needs besides the packages of requirements.lock, whose
    versions it keeps."""
    path = CLUSTER / "requirements.lock"
    resolve(
        "--output-file",
        str(path),
        "--constraint",
        str(LOCK),
        *sys.argv[1:],
        source=str(CLUSTER / "requirements.in"),
    )
    locked = set(re.findall(r"^([\w.-]+)==", LOCK.read_text(), re.MULTILINE))
    packages = [
        package for package in packages_of(path.read_text()) if package.split("==")[0] not in locked
    ]
    path.write_text(f"# Written by `make lock` from requirements.in.\n{''.join(packages)}")


def main() -> None:
    lock_project()
    lock_cluster()
    for name in ("requirements", "datasets-3", "verifiers"):
        lock_trainers(name, *sys.argv[1:])


def lock_project() -> None:
    """Write requirements.lock."""
    # an interruption leaves LOCK as it was
    with TemporaryDirectory(dir=LOCK.parent, prefix=".lock-") as directory:
        new = Path(directory, LOCK.name)
        if LOCK.exists():
            new.write_text(LOCK.read_text())  # uv keeps the versions that it finds there
        write(new)
        new.replace(LOCK)


def write(lock: Path) -> None:
    resolve("--extra", "dev", *IN_CHECKOUT, "--output-file", str(lock), *sys.argv[1:])
    everything = lock.read_text()
    serving = resolve(*IN_CHECKOUT, "--constraint", str(lock))
    names = set(re.findall(r"^([\w.-]+)==", serving, re.MULTILINE))
    packages = packages_of(everything)
    parts = [
        [package for package in packages if (package.split("==")[0] in names) is served]
        for served in (True, False)
    ]
    lock.write_text(HEAD + "".join(parts[0]) + DEVELOPMENT + "".join(parts[1]))


if __name__ == "__main__":
    main()
