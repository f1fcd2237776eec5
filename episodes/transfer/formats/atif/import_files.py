"""Finds what can be imported in the files that a command names: lines, single trajectories,
directories and zips.

A directory or zip is searched for `agent/trajectory.json`, as Harbor's jobs and trials have them.
Harbor's files next to a trajectory say what was played and how it was rewarded
(`trial_result.py`).
"""

from __future__ import annotations

import json
import posixpath
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from environments.files.json_lines import BOM, Lines
from environments.files.rows import BadRow, Unreadable
from episodes.transfer.formats.atif.imported import Folder

MAX_ITEM_BYTES = 512 * 1024 * 1024
"""Limit of a line or trajectory, which is one episode and is held in memory."""
TRAJECTORY = "trajectory.json"
TOO_LONG = f"is longer than {MAX_ITEM_BYTES // 2**20} MB"
_FIRST_BYTES = 4096
_IMPORTABLE = (
    "export_episodes --format jsonl, atif or harbor writes what can be imported, and so does Harbor"
)


class FileItem(NamedTuple):
    """What may be an episode."""

    file: str
    number: int
    """Number of the line, from 1."""
    content: bytes | str
    """The bytes; a text says why there are none, as the end of a sentence."""
    folder: Folder
    read_bytes: int
    """Number of bytes of the source read so far."""


@dataclass(frozen=True, slots=True)
class EpisodeSource:
    """A file, directory or zip that a command names."""

    size_bytes: int
    items: Callable[[], Iterator[FileItem]]


def source_of(path: Path) -> EpisodeSource:
    """Return what a path holds. Raises: Unreadable."""
    try:
        if path.is_dir():
            return _directory(path)
        if zipfile.is_zipfile(path):
            return _archive(path)
        with path.open("rb") as file:
            start = file.read(_FIRST_BYTES).removeprefix(BOM).lstrip()
        if start[:1] not in (b"{", b""):
            raise Unreadable(f"{path.name} does not start with a line of JSON; {_IMPORTABLE}.")
        return _file(path)
    except (OSError, zipfile.BadZipFile) as error:
        raise Unreadable(
            f"{path.name} cannot be read: {getattr(error, 'strerror', None) or error}."
        ) from error


def _file(path: Path) -> EpisodeSource:
    """Return a file with an episode on each line, or with one trajectory over several lines."""
    size, is_single = path.stat().st_size, _is_single(path)
    folder = _around(path)

    def items() -> Iterator[FileItem]:
        if is_single:
            yield FileItem(path.name, 1, path.read_bytes().removeprefix(BOM), folder, size)
            return
        with path.open("rb") as file:
            lines = Lines(file, MAX_ITEM_BYTES)
            for line in lines:
                if line is None or line.strip():
                    content = TOO_LONG if line is None else line
                    yield FileItem(path.name, lines.number, content, folder, lines.done)

    return EpisodeSource(size, items)


def _is_single(path: Path) -> bool:
    """Return whether a file is one object over several lines."""
    if path.stat().st_size > MAX_ITEM_BYTES:
        return False
    with path.open("rb") as file:
        lines = Lines(file, MAX_ITEM_BYTES)
        first = next((line for line in lines if line is None or line.strip()), None)
        if first is None or _is_json(first) or not file.read(1):
            return False
    return _is_json(path.read_bytes())


def _is_json(content: bytes) -> bool:
    try:
        json.loads(content)
    except (ValueError, RecursionError):
        return False
    return True


class _Files(Folder):
    """The files of a directory around a trajectory; none outside of `root`."""

    def __init__(self, path: Path, root: Path) -> None:
        super().__init__(path)
        self._root = root.resolve()

    def read(self, name: str) -> bytes | None:
        try:
            path = Path(self.path / name).resolve()
            is_inside = path.is_relative_to(self._root) and path.is_file()
            return path.read_bytes() if is_inside and _size(path) <= MAX_ITEM_BYTES else None
        except (OSError, ValueError):
            return None


def _size(path: Path) -> int:
    return path.stat().st_size


def _around(path: Path) -> Folder:
    """Return the files around a trajectory: those of its trial if it is where Harbor writes it."""
    folder = path.absolute().parent
    if path.name != TRAJECTORY or folder.name != "agent":
        return _Files(folder, folder)
    job = folder.parent.parent
    files = _Files(folder, job)
    return _Files(folder, job.parent.parent) if files.step else files


def _directory(path: Path) -> EpisodeSource:
    """Return a directory of Harbor's jobs or trials, or one with a single trajectory."""
    paths = sorted(path.rglob(f"agent/{TRAJECTORY}")) or sorted(path.glob(TRAJECTORY))
    if not paths:
        raise _without_trajectory(path)

    def items() -> Iterator[FileItem]:
        position = 0
        for trajectory in paths:
            size = _size(trajectory)
            position += size
            content = trajectory.read_bytes() if size <= MAX_ITEM_BYTES else TOO_LONG
            name = str(trajectory.relative_to(path.parent))
            yield FileItem(name, 1, content, _Files(trajectory.parent, path), position)

    return EpisodeSource(sum(map(_size, paths)), items)


def _without_trajectory(path: Path) -> Unreadable:
    return Unreadable(f"{path.name} has no agent/{TRAJECTORY} in it; {_IMPORTABLE}.")


def _archive(path: Path) -> EpisodeSource:
    """Return a zip of Harbor's jobs or trials."""
    entries: dict[str, list[zipfile.ZipInfo]] = {}
    with zipfile.ZipFile(path) as file:
        for entry in file.infolist():
            entries.setdefault(str(PurePosixPath(entry.filename)), []).append(entry)
    names = [name for name in sorted(entries) if PurePosixPath(name).name == TRAJECTORY]
    names = [name for name in names if PurePosixPath(name).parent.name == "agent"] or names
    if not names:
        raise _without_trajectory(path)
    sizes = [sum(entry.file_size for entry in entries[name]) for name in names]

    def items() -> Iterator[FileItem]:
        position = 0
        with zipfile.ZipFile(path) as file:
            for name, size in zip(names, sizes, strict=True):
                position += size
                folder = _Entries(file, entries, PurePosixPath(name).parent)
                content: bytes | str
                try:
                    content = folder.read(TRAJECTORY) or b""
                except BadRow as error:
                    content = str(error)
                yield FileItem(f"{path.name}/{name}", 1, content, folder, position)

    return EpisodeSource(sum(sizes), items)


class _Entries(Folder):
    """The files of a zip around a trajectory."""

    def __init__(
        self,
        file: zipfile.ZipFile,
        entries: dict[str, list[zipfile.ZipInfo]],
        path: PurePosixPath,
    ) -> None:
        super().__init__(path)
        self._file, self._entries = file, entries

    def read(self, name: str) -> bytes | None:
        """Return the content of a file; None if there is none.

        Raises: BadRow for one that is damaged or too long, and for a path that the zip has twice,
        because nothing says which of the files belongs to which trial.
        """
        path = posixpath.normpath(f"/{self.path / name}").lstrip("/")
        entries = self._entries.get(path, [])
        if not entries:
            return None
        if len(entries) > 1:
            raise BadRow(
                f"is ambiguous: the zip has {len(entries)} files {path!r}; give each trial a "
                "directory of its own"
            )
        if entries[0].file_size > MAX_ITEM_BYTES:
            raise BadRow(f"cannot be read: {path!r} {TOO_LONG}")
        try:
            return self._file.read(entries[0])
        except (
            zipfile.BadZipFile,
            zlib.error,
            OSError,
            ValueError,
            NotImplementedError,
            RuntimeError,
            EOFError,
        ) as error:
            raise BadRow(f"cannot be read: {path!r} is damaged ({error})") from error
