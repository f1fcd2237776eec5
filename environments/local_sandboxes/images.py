"""What a sandbox consists of: an image and files, which are directories made by the operator.

Below the directory of `ORSWEB_SANDBOXES`, `images/NAME` is the root of the image that environments
call NAME, and `images/default` that of all others. It holds what `podman export` writes; without
`usr`, the programs are this machine's. `files/OWNER/NAME` is the bucket of the environment
OWNER/NAME.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from environments.errors import OrsError, shorten

_NAME = re.compile(r"[\w][\w.:@-]*(/[\w][\w.:@-]*)*")
"""What an image or an environment can be called: nothing that leads out of its directory."""
_MACHINE_SIZE = re.compile(r"(\d+(?:\.\d+)?):(\d+(?:\.\d+)?)")
_NEEDED = ("/", "/bin", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sys", "/usr")
"""Places where no files can be mounted, because programs need what is there."""


class SandboxRefused(OrsError):
    """There is no such sandbox here. The message says what the operator has to change."""


@dataclass(frozen=True, slots=True)
class SandboxPlan:
    """What one sandbox is made of."""

    image: Path
    """Directory with the root of the image."""
    memory_bytes: int
    """Memory of all its processes, and the size of its disk, which is in memory, too."""
    variables: Mapping[str, str] = field(default_factory=dict)
    files: Path | None = None
    """Directory that is mounted, read-only, at `mount_path`."""
    mount_path: str = ""


class _Bucket(BaseModel):
    mount_path: str
    only_dir: str | None = None


class _Request(BaseModel):
    """`SandboxSettings` of the client. Source: openreward 0.1.167, api/sandboxes/types.py."""

    environment: str
    image: str
    machine_size: str
    env: dict[str, str] | None = None
    bucket_config: _Bucket | None = None
    sidecars: list[Any] | None = None
    host_aliases: list[Any] | None = None
    network: Any = None


def plan_of(settings: Any, directory: Path, max_gb: float) -> SandboxPlan:
    """Return what the sandbox with the client's settings is made of. Raises: SandboxRefused."""
    try:
        request = _Request.model_validate(settings)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "body"
        raise SandboxRefused(
            f"The settings of the sandbox are wrong: {where}: {first['msg']}."
        ) from None
    if r"\u0000" in json.dumps(settings):  # it would end a word of bubblewrap's
        raise SandboxRefused("The settings of the sandbox contain a NUL character.")
    for name, value in (("sidecars", request.sidecars), ("host_aliases", request.host_aliases)):
        if value:
            raise SandboxRefused(
                f"The sandbox asks for {name}, which this server's sandboxes don't have."
            )
    if request.network is not None:
        raise SandboxRefused(
            "The sandbox asks for a network policy; this server's sandboxes have no network at all."
        )
    bucket = request.bucket_config
    return SandboxPlan(
        _image(request.image, directory / "images"),
        _memory_bytes(request.machine_size, max_gb),
        request.env or {},
        _files(request.environment, bucket.only_dir or "", directory / "files") if bucket else None,
        _mount_path(bucket.mount_path) if bucket else "",
    )


def _image(name: str, images: Path) -> Path:
    if _NAME.fullmatch(name):
        for path in (images / name, images / "default"):
            if path.is_dir() and path.resolve() != Path("/"):
                return path.resolve()
    raise SandboxRefused(
        f"The sandbox asks for the image {shorten(name, 100)!r}, and this server has no directory "
        f"{images}/{name} or {images}/default. Make one with the image's files, or an empty one "
        "for this machine's own programs."
    )


def _memory_bytes(machine_size: str, max_gb: float) -> int:
    match = _MACHINE_SIZE.fullmatch(machine_size)
    if match is None:
        raise SandboxRefused(
            f"The sandbox asks for the machine {shorten(machine_size, 40)!r}; this server has "
            "machines such as '1:2' only, of processors and GB of memory."
        )
    if (gb := float(match[2])) > max_gb:
        raise SandboxRefused(
            f"The sandbox asks for the machine {machine_size!r} with {gb:g} GB of memory, and "
            f"ORSWEB_SANDBOX_GB allows {max_gb:g}."
        )
    return int(gb * 2**30)


def _files(environment: str, only_dir: str, files: Path) -> Path:
    root = files / environment
    if not _NAME.fullmatch(environment) or not root.is_dir():
        raise SandboxRefused(
            f"The sandbox asks for the bucket of the environment {shorten(environment, 100)!r}, "
            f"and this server has no directory {root}. Make it, with the files of the bucket."
        )
    path = (root / only_dir.lstrip("/")).resolve()
    if not path.is_relative_to(root.resolve()) or not path.is_dir():
        raise SandboxRefused(
            f"The sandbox asks for {shorten(only_dir, 100)!r} in its bucket; {root} has none."
        )
    return path


def _mount_path(path: str) -> str:
    normal = posixpath.normpath(path)
    if (
        not normal.startswith("/")
        or normal.startswith("//")
        or normal in _NEEDED
        or normal.startswith("/run/")
    ):
        raise SandboxRefused(
            f"The sandbox asks for its bucket at {shorten(path, 100)!r}; name another path."
        )
    return normal
