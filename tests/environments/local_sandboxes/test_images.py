"""What sandboxes are made of, and sentences about what this server does not have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from environments.local_sandboxes.images import SandboxPlan, SandboxRefused, plan_of
from tests.rows import each


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    for name in ("images/lab/python:3.12", "files/lab/sheets/inputs/1"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "images/root").symlink_to("/")
    return tmp_path


def asks(**changes: Any) -> dict[str, Any]:
    return {
        "environment": "lab/sheets",
        "image": "lab/python:3.12",
        "machine_size": "0.5:1",
        **changes,
    }


def test_an_image_a_size_and_a_part_of_the_bucket(directory: Path) -> None:
    bucket = {"mount_path": "/data/", "only_dir": "inputs/1"}
    plan = plan_of(asks(env={"A": "b"}, bucket_config=bucket), directory, 4)
    files = directory / "files/lab/sheets/inputs/1"
    assert plan == SandboxPlan(
        directory / "images/lab/python:3.12", 2**30, {"A": "b"}, files, "/data"
    )


def test_images_without_a_directory_of_their_own_share_one(directory: Path) -> None:
    (directory / "images/default").mkdir()
    assert plan_of(asks(image="lab/other"), directory, 4).image == directory / "images/default"


@each(
    "changes, sentence",
    [
        (
            {"image": "lab/other"},
            "asks for the image 'lab/other', and this server has no directory",
        ),
        ({"image": "../files"}, "asks for the image '../files'"),
        ({"image": "root"}, "asks for the image 'root'"),
        ({"machine_size": "8:16"}, "'8:16' with 16 GB of memory, and ORSWEB_SANDBOX_GB allows 4"),
        ({"machine_size": "nvidia-l4"}, "asks for the machine 'nvidia-l4'"),
        ({"sidecars": [{"name": "db", "image": "postgres"}]}, "asks for sidecars"),
        ({"network": {"presets": ["pypi"]}}, "have no network at all"),
        (
            {"environment": "lab/x", "bucket_config": {"mount_path": "/d"}},
            "the bucket of the environment 'lab/x'",
        ),
        (
            {"bucket_config": {"mount_path": "/d", "only_dir": "../../.."}},
            "asks for '../../..' in its bucket",
        ),
        ({"bucket_config": {"mount_path": "/usr"}}, "asks for its bucket at '/usr'"),
        (
            {"bucket_config": {"mount_path": "/run/sandbox"}},
            "asks for its bucket at '/run/sandbox'",
        ),
        ({"env": {"A": "b\0--bind"}}, "contain a NUL character"),
        ({"machine_size": None}, "machine_size: Input should be a valid string"),
    ],
)
def test_what_there_is_not_is_refused(
    changes: dict[str, Any], sentence: str, directory: Path
) -> None:
    with pytest.raises(SandboxRefused) as refusal:
        plan_of(asks(**changes), directory, 4)
    assert sentence in str(refusal.value)
