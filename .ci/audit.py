"""Compares requirements.lock with the published advisories about its packages. `make audit` runs
this.

pip-audit asks PyPI; uv runs it in an environment of its own. The exit status is 1 if there is an
advisory about a version in the lock file, and 2 if those about some packages could not be reached,
which proves nothing about them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

LOCK = Path(__file__).resolve().parent.parent / "requirements.lock"
UV = Path(sys.executable).with_name("uv")
PIP_AUDIT = "pip-audit==2.9.0"
OPTIONS = (
    "--disable-pip",
    "--no-deps",
    "--require-hashes",
    "--progress-spinner",
    "off",
    "--timeout",
    "20",
)


def main() -> int:
    with TemporaryDirectory() as directory:
        report = Path(directory, "report.json")
        output = ["--format", "json", "--output", str(report)]
        command = [str(UV), "tool", "run", PIP_AUDIT, *OPTIONS, *output, "--requirement", str(LOCK)]
        try:
            done = subprocess.run(command, capture_output=True, text=True)
            packages = json.loads(report.read_text())["dependencies"]
        except FileNotFoundError as error:
            said = done.stderr if error.filename == str(report) else str(error)
            print(
                f"{said.strip()}\nThe advisories could not be reached, so nothing was compared. "
                "Try again online."
            )
            return 2
    return tell(packages)


def tell(packages: list[dict[str, Any]]) -> int:
    """Print the advisories about the packages, and return the exit status."""
    advisories = [(package, one) for package in packages for one in package.get("vulns", ())]
    for package, one in advisories:
        fixed = ", ".join(one["fix_versions"]) or "no version"
        print(
            f"{package['name']} {package['version']}: {one['id']}, fixed in {fixed}. "
            f"{one['description'][:200]}"
        )
    unknown = [package["name"] for package in packages if "skip_reason" in package]
    print(f"{len(packages) - len(unknown)} packages compared, {len(advisories)} advisories.")
    if unknown:
        print(
            f"The advisories about {len(unknown)} packages could not be reached: "
            f"{', '.join(unknown[:10])} …"
        )
    return 1 if advisories else 2 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
