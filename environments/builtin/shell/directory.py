"""Directory: the files of one episode of `shell`, as one archive in memory between two commands.

The archive goes into a sandbox before a command and comes out of it afterwards, so nothing of it
ever lies on this machine's disk, and no link in it can lead anywhere. What comes out is hostile:
`read` takes plain ustar, in one pass over what is there, and refuses everything else.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field

_BLOCK_BYTES = 512
_FILE, _HARD_LINK, _LINK, _FOLDER, _FIFO = b"0", b"1", b"2", b"5", b"6"


class BadArchive(Exception):
    """The bytes are no ustar archive, or not a whole one."""


@dataclass(frozen=True, slots=True)
class File:
    content: bytes
    is_executable: bool = False


@dataclass(slots=True)
class Directory:
    """Paths are relative, with `/` between their parts."""

    files: dict[str, File] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)
    links: dict[str, str] = field(default_factory=dict)
    """Path -> where the link leads, as written in it."""


def write(files: Mapping[str, str]) -> bytes:
    """Return an archive of `files`, path -> content, always the same for the same files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path in sorted(files):
            entry = tarfile.TarInfo(path)
            content = files[path].encode()
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def read(archive: bytes) -> Directory:
    """Return the content of the archive. Raises: BadArchive."""
    directory, at = Directory(), 0
    while (header := archive[at : at + _BLOCK_BYTES]).strip(b"\0"):
        if len(header) < _BLOCK_BYTES:
            raise BadArchive("a header is cut short")
        at += _BLOCK_BYTES
        size = _number(header[124:136])
        content = archive[at : at + size]
        if len(content) < size:
            raise BadArchive("a file is cut short")
        _add(directory, header, content)
        at += -(-size // _BLOCK_BYTES) * _BLOCK_BYTES
    return directory


def _add(directory: Directory, header: bytes, content: bytes) -> None:
    kind, path = header[156:157], _path(header)
    if kind == _FILE:
        directory.files[path] = File(content, is_executable=bool(_number(header[100:108]) & 0o100))
    elif (
        kind == _HARD_LINK
        and (other := _text(header[157:257]).removeprefix("./")) in directory.files
    ):
        directory.files[path] = directory.files[other]
    elif kind == _LINK:
        directory.links[path] = _text(header[157:257])
    elif kind == _FOLDER:
        directory.folders.add(path.rstrip("/"))
    elif kind != _FIFO:
        raise BadArchive(f"an entry is of kind {kind!r}")


def _path(header: bytes) -> str:
    prefix, name = _text(header[345:500]), _text(header[:100])
    return (f"{prefix}/{name}" if prefix else name).removeprefix("./")


def _text(data: bytes) -> str:
    return data.partition(b"\0")[0].decode(errors="replace")


def _number(data: bytes) -> int:
    digits = data.strip(b"\0 ")
    if not digits.isdigit():
        raise BadArchive("a number is none")
    try:
        return int(digits, 8)
    except ValueError as error:
        raise BadArchive("a number is none") from error
