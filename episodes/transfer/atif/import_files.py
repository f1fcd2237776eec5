"""Finds what can be imported in the files that a command names: lines, single trajectories, directories and zips.

A directory or zip is searched for `agent/trajectory.json`, as Harbor's jobs and trials have them. Harbor's files next
to a trajectory say what was played and how it was rewarded.
"""

from __future__ import annotations

import json
import math
import zipfile
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, Protocol

from environments.transfer.json_lines import Lines
from environments.transfer.rows import Unreadable
from episodes.transfer.atif.imported import Folder, TrialFacts

MAX_ITEM_BYTES = 512 * 1024 * 1024
"""Limit of a line or trajectory, which is one episode and is held in memory."""
TRAJECTORY = "trajectory.json"
_FIRST_BYTES = 4096
_WANTED = "export_episodes --format jsonl, atif or harbor writes what can be imported, and so does Harbor"


class FoundItem(NamedTuple):
    """What may be an episode."""

    file: str
    number: int
    """Number of the line, from 1."""
    content: bytes | None
    """None if it is over the limit."""
    folder: Folder
    done: int
    """Number of bytes of the source read so far."""

    def trial(self) -> TrialFacts:
        """Return what Harbor's files around it say."""
        return trial_facts(self.folder)


class EpisodeSource(Protocol):
    """A file, directory or zip that a command names."""

    size_bytes: int

    def __iter__(self) -> Iterator[FoundItem]: ...


def source_of(path: Path) -> EpisodeSource:
    """Return what a path holds. Raises: Unreadable."""
    try:
        if path.is_dir():
            return _Directory(path)
        if zipfile.is_zipfile(path):
            return _Archive(path)
        with path.open("rb") as file:
            start = file.read(_FIRST_BYTES).removeprefix(b"\xef\xbb\xbf").lstrip()
        if start[:1] not in (b"{", b""):
            raise Unreadable(f"{path.name} does not start with a line of JSON; {_WANTED}.")
        return _Single(path) if _is_single(path) else _LineFile(path)
    except (OSError, zipfile.BadZipFile) as error:
        raise Unreadable(f"{path.name} cannot be read: {getattr(error, 'strerror', None) or error}.") from error


def _is_single(path: Path) -> bool:
    """Return whether a file is one object over several lines."""
    if path.stat().st_size > MAX_ITEM_BYTES:
        return False
    with path.open("rb") as file:
        first = next((line for line in Lines(file, MAX_ITEM_BYTES) if line is None or line.strip()), None)
        if first is None or _is_json(first) or not file.read(1):
            return False
    return _is_json(path.read_bytes())


def _is_json(content: bytes) -> bool:
    try:
        json.loads(content)
    except (ValueError, RecursionError):
        return False
    return True


class _Files:
    """The files of a directory around a trajectory."""

    def __init__(self, folder: Path, root: Path) -> None:
        """Create a reader that reads nothing outside of `root`."""
        self._folder, self._root = folder, root.resolve()

    def read(self, name: str) -> bytes | None:
        try:
            path = (self._folder / name).resolve()
            if not path.is_relative_to(self._root) or not path.is_file() or path.stat().st_size > MAX_ITEM_BYTES:
                return None
            return path.read_bytes()
        except (OSError, ValueError):
            return None


def _around(path: Path) -> Folder:
    """Return the files around a trajectory: those of its trial if it is where Harbor writes it."""
    is_trial = path.name == TRAJECTORY and path.parent.name == "agent"
    return _Files(path.parent, path.parent.parent.parent if is_trial else path.parent)


class _LineFile:
    """A file with an episode on each line."""

    def __init__(self, path: Path) -> None:
        self._path, self.size_bytes = path, path.stat().st_size

    def __iter__(self) -> Iterator[FoundItem]:
        folder = _around(self._path)
        with self._path.open("rb") as file:
            lines = Lines(file, MAX_ITEM_BYTES)
            for line in lines:
                if line is None or line.strip():
                    yield FoundItem(self._path.name, lines.number, line, folder, lines.done)


class _Single:
    """A file with one trajectory over several lines."""

    def __init__(self, path: Path) -> None:
        self._path, self.size_bytes = path, path.stat().st_size

    def __iter__(self) -> Iterator[FoundItem]:
        content = self._path.read_bytes().removeprefix(b"\xef\xbb\xbf")
        yield FoundItem(self._path.name, 1, content, _around(self._path), self.size_bytes)


class _Directory:
    """A directory of Harbor's jobs or trials, or one with a single trajectory."""

    def __init__(self, path: Path) -> None:
        self._path = path
        found = sorted(path.rglob(f"agent/{TRAJECTORY}")) or sorted(path.glob(TRAJECTORY))
        if not found:
            raise Unreadable(f"{path.name} has no agent/{TRAJECTORY} in it; {_WANTED}.")
        self._found = found
        self.size_bytes = sum(one.stat().st_size for one in found)

    def __iter__(self) -> Iterator[FoundItem]:
        done = 0
        for path in self._found:
            size = path.stat().st_size
            done += size
            content = path.read_bytes() if size <= MAX_ITEM_BYTES else None
            name = str(path.relative_to(self._path.parent))
            yield FoundItem(name, 1, content, _Files(path.parent, self._path), done)


class _Archive:
    """A zip of Harbor's jobs or trials."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with zipfile.ZipFile(path) as file:
            names = sorted(name for name in file.namelist() if PurePosixPath(name).name == TRAJECTORY)
            self._found = [name for name in names if PurePosixPath(name).parent.name == "agent"] or names
            self.size_bytes = sum(file.getinfo(name).file_size for name in self._found)
        if not self._found:
            raise Unreadable(f"{path.name} has no agent/{TRAJECTORY} in it; {_WANTED}.")

    def __iter__(self) -> Iterator[FoundItem]:
        done = 0
        with zipfile.ZipFile(self._path) as file:
            for name in self._found:
                done += file.getinfo(name).file_size
                content = _read(file, name)
                yield FoundItem(
                    f"{self._path.name}/{name}", 1, content, _Entries(file, PurePosixPath(name).parent), done
                )


class _Entries:
    """The files of a zip around a trajectory."""

    def __init__(self, file: zipfile.ZipFile, folder: PurePosixPath) -> None:
        self._file, self._folder = file, folder

    def read(self, name: str) -> bytes | None:
        parts = list[str]()
        for part in (self._folder / name).parts:
            parts = parts[:-1] if part == ".." else [*parts, part]
        return _read(self._file, "/".join(parts))


def _read(file: zipfile.ZipFile, name: str) -> bytes | None:
    """Return the content of an entry; None if there is none, it is too large, or it is damaged."""
    try:
        return file.read(name) if file.getinfo(name).file_size <= MAX_ITEM_BYTES else None
    except (KeyError, zipfile.BadZipFile, zlib.error, OSError, ValueError, NotImplementedError, RuntimeError, EOFError):
        return None


# --- what Harbor's files say ------------------------------------------------------------------------------------------


def trial_facts(folder: Folder) -> TrialFacts:
    """Return what the `result.json` of a trial says about the trajectory in `folder`."""
    result = _object(folder.read("../result.json"))
    if "task_name" not in result:
        return TrialFacts()
    job = _text(_object(folder.read("../../config.json")).get("job_name"))
    return _TrialResult(result).facts._replace(run=job or _job_of(result))


def _job_of(result: dict[str, Any]) -> str:
    """Return the name of the job's directory, which the configuration of a trial names."""
    name = PurePosixPath(_text(_dict(result.get("config")).get("trials_dir"))).name
    return "" if name == "trials" else name


class _TrialResult:
    """Harbor's `result.json` of a trial. Missing and odd values are left out."""

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    @property
    def facts(self) -> TrialFacts:
        values, exception = self._values, _dict(self._values.get("exception_info"))
        kind = _text(exception.get("exception_type"))
        reward = self._reward()
        is_failure = bool(kind) and reward is None
        model = _dict(_dict(values.get("agent_info")).get("model_info"))
        return TrialFacts(
            environment=_text(values.get("source")) or "harbor",
            task=_text(values.get("task_name")),
            trial=_text(values.get("trial_name")),
            model="/".join(filter(None, [_text(model.get("provider")), _text(model.get("name"))])),
            reward=reward,
            exception=f"{kind}: {_text(exception.get('exception_message'))}" if kind else "",
            exception_kind=("expired" if "Timeout" in kind else "env_error") if is_failure else "",
            started=_moment(values.get("started_at")),
            finished=_moment(values.get("finished_at")),
        )

    def _reward(self) -> float | None:
        """Return the reward named `reward`, or the only one."""
        rewards = _dict(_dict(self._values.get("verifier_result")).get("rewards"))
        numbers = {name: float(value) for name, value in rewards.items() if _is_number(value)}
        return numbers.get("reward", next(iter(numbers.values())) if len(numbers) == 1 else None)


def _object(content: bytes | None) -> dict[str, Any]:
    try:
        return _dict(json.loads(content)) if content else {}
    except (ValueError, RecursionError):
        return {}


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _moment(value: Any) -> datetime | None:
    try:
        moment = datetime.fromisoformat(value)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        return None
