"""Finds what can be imported in the files that a command names: lines, single trajectories,
directories and zips.

A directory or zip is searched for `agent/trajectory.json`, as Harbor's jobs and trials have them.
Harbor's files next to a trajectory say what was played and how it was rewarded.
"""

from __future__ import annotations

import json
import math
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, NamedTuple, Protocol

from environments.database.storable import double_of, number_in
from environments.errors import shorten
from environments.files.json_lines import Lines
from environments.files.rows import BadRow, Unreadable
from environments.wire import RepeatedKey, distinct_members, json_problem
from episodes.attempts.components import (
    COMPONENT_MEMBERS,
    MAX_COMPONENTS,
    MAX_NAME_CHARACTERS,
    components_of,
)
from episodes.transfer.formats.atif.imported import Folder, TrialFacts, reward_names

MAX_ITEM_BYTES = 512 * 1024 * 1024
"""Limit of a line or trajectory, which is one episode and is held in memory."""
TRAJECTORY = "trajectory.json"
TOO_LONG = f"is longer than {MAX_ITEM_BYTES // 2**20} MB"
_FIRST_BYTES = 4096
_SHOWN_CHARACTERS = 100
_WANTED = (
    "export_episodes --format jsonl, atif or harbor writes what can be imported, and so does Harbor"
)


class FoundItem(NamedTuple):
    """What may be an episode."""

    file: str
    number: int
    """Number of the line, from 1."""
    content: bytes | str
    """The bytes; a text says why there are none, as the end of a sentence."""
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
        raise Unreadable(
            f"{path.name} cannot be read: {getattr(error, 'strerror', None) or error}."
        ) from error


def _is_single(path: Path) -> bool:
    """Return whether a file is one object over several lines."""
    if path.stat().st_size > MAX_ITEM_BYTES:
        return False
    with path.open("rb") as file:
        first = next(
            (line for line in Lines(file, MAX_ITEM_BYTES) if line is None or line.strip()), None
        )
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

    @property
    def step(self) -> str:
        return _step_of(self._folder, self)

    def read(self, name: str) -> bytes | None:
        try:
            path = (self._folder / name).resolve()
            if (
                not path.is_relative_to(self._root)
                or not path.is_file()
                or path.stat().st_size > MAX_ITEM_BYTES
            ):
                return None
            return path.read_bytes()
        except (OSError, ValueError):
            return None


def _around(path: Path) -> Folder:
    """Return the files around a trajectory: those of its trial if it is where Harbor writes it."""
    folder = path.absolute().parent
    if path.name != TRAJECTORY or folder.name != "agent":
        return _Files(folder, folder)
    job = folder.parent.parent
    around = _Files(folder, job)
    return _Files(folder, job.parent.parent) if around.step else around


def _step_of(folder: PurePath, files: Folder) -> str:
    """Return the step of which Harbor has moved the agent's files to `folder`,
    `TRIAL/steps/STEP/agent`."""
    is_step = folder.name == "agent" and folder.parent.parent.name == "steps"
    return folder.parent.name if is_step and files.read("../result.json") is None else ""


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
                    content = TOO_LONG if line is None else line
                    yield FoundItem(self._path.name, lines.number, content, folder, lines.done)


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
            content = path.read_bytes() if size <= MAX_ITEM_BYTES else TOO_LONG
            name = str(path.relative_to(self._path.parent))
            yield FoundItem(name, 1, content, _Files(path.parent, self._path), done)


class _Archive:
    """A zip of Harbor's jobs or trials."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._entries: dict[str, list[zipfile.ZipInfo]] = {}
        with zipfile.ZipFile(path) as file:
            for entry in file.infolist():
                self._entries.setdefault(str(PurePosixPath(entry.filename)), []).append(entry)
        names = sorted(name for name in self._entries if PurePosixPath(name).name == TRAJECTORY)
        self._found = [
            name for name in names if PurePosixPath(name).parent.name == "agent"
        ] or names
        self.size_bytes = sum(self._size_bytes(name) for name in self._found)
        if not self._found:
            raise Unreadable(f"{path.name} has no agent/{TRAJECTORY} in it; {_WANTED}.")

    def _size_bytes(self, name: str) -> int:
        return sum(entry.file_size for entry in self._entries[name])

    def __iter__(self) -> Iterator[FoundItem]:
        done = 0
        with zipfile.ZipFile(self._path) as file:
            for name in self._found:
                done += self._size_bytes(name)
                folder = _Entries(file, self._entries, PurePosixPath(name).parent)
                content: bytes | str
                try:
                    content = folder.read(TRAJECTORY) or b""
                except BadRow as error:
                    content = str(error)
                yield FoundItem(f"{self._path.name}/{name}", 1, content, folder, done)


class _Entries:
    """The files of a zip around a trajectory."""

    def __init__(
        self,
        file: zipfile.ZipFile,
        entries: dict[str, list[zipfile.ZipInfo]],
        folder: PurePosixPath,
    ) -> None:
        self._file, self._entries, self._folder = file, entries, folder

    @property
    def step(self) -> str:
        return _step_of(self._folder, self)

    def read(self, name: str) -> bytes | None:
        """Return the content of a file; None if there is none.

        Raises: BadRow for one that is damaged or too long, and for a path that the zip has twice,
        because nothing says which of the files belongs to which trial.
        """
        parts = list[str]()
        for part in (self._folder / name).parts:
            parts = parts[:-1] if part == ".." else [*parts, part]
        path = "/".join(parts)
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
            *(zipfile.BadZipFile, zlib.error, OSError, ValueError),
            *(NotImplementedError, RuntimeError, EOFError),
        ) as error:
            raise BadRow(f"cannot be read: {path!r} is damaged ({error})") from error


# --- what Harbor's files say ----------------------------------------------------------------------


def trial_facts(folder: Folder) -> TrialFacts:
    """Return what the `result.json` of a trial says about the trajectory in `folder`, or else its
    verifier's files.

    Raises: BadRow.
    """
    up = "../../.." if folder.step else ".."
    result: Any = {}
    if (content := folder.read(f"{up}/result.json")) is not None:
        result = _parsed(content, "result.json")
        if not isinstance(result, dict):
            raise BadRow("has a result.json that is not an object, so its reward is unknown")
    trial = _TrialResult(result, folder)
    if not result.keys() & {"task_name", "verifier_result"}:
        rewards = trial.rewards()
        return TrialFacts(reward=rewards.total, components=rewards.components, step=folder.step)
    job = _text(
        _dict(_parsed(folder.read(f"{up}/../config.json") or b"{}", "config.json")).get("job_name")
    )
    return trial.facts()._replace(run=job or _job_of(result))


def _parsed(content: bytes, name: str) -> Any:
    try:
        return json.loads(content, object_pairs_hook=distinct_members)
    except (ValueError, RecursionError) as error:
        raise BadRow(f"has a {name} that cannot be read: {json_problem(error)}") from error


def _job_of(result: dict[str, Any]) -> str:
    """Return the name of the job's directory, which the configuration of a trial names."""
    name = PurePosixPath(_text(_dict(result.get("config")).get("trials_dir"))).name
    return "" if name == "trials" else name


class _Rewards(NamedTuple):
    total: float | None = None
    components: Mapping[str, float | None] = {}
    """The others by name; None for null."""

    @property
    def has_number(self) -> bool:
        return any(value is not None for value in (self.total, *self.components.values()))


class _TrialResult:
    """Harbor's `result.json` of a trial. Missing and odd values are left out, but no reward is."""

    def __init__(self, values: dict[str, Any], folder: Folder) -> None:
        self._values, self._folder, self._step = values, folder, folder.step
        steps = values.get("step_results")
        self._steps = [_dict(step) for step in steps] if isinstance(steps, list) else []

    def facts(self) -> TrialFacts:
        """Return what the file says. Raises: BadRow."""
        values, (part, _) = self._values, self._own_part()
        exception = _dict((part or values).get("exception_info"))
        kind = _text(exception.get("exception_type"))
        rewards = self.rewards()
        is_failure = bool(kind) and (not rewards.has_number or part.get("reward_valid") is False)
        model = _dict(_dict(values.get("agent_info")).get("model_info"))
        times = _dict(part.get("agent_execution")) if self._step else values
        return TrialFacts(
            environment=_text(values.get("source")) or "harbor",
            task=_text(values.get("task_name")),
            trial=_text(values.get("trial_name")),
            step=self._step,
            model="/".join(filter(None, [_text(model.get("provider")), _text(model.get("name"))])),
            reward=rewards.total,
            components=rewards.components,
            exception=f"{kind}: {_text(exception.get('exception_message'))}" if kind else "",
            exception_kind=("expired" if "Timeout" in kind else "env_error") if is_failure else "",
            started=_moment(times.get("started_at")),
            finished=_moment(times.get("finished_at")),
        )

    def _own_part(self) -> tuple[dict[str, Any], str]:
        """Return what the file says about the trajectory, and its place: of the trial, or of one of
        its steps."""
        if not self._step:
            return self._values, ""
        place = next(
            (n for n, part in enumerate(self._steps) if part.get("step_name") == self._step), None
        )
        return ({}, "") if place is None else (self._steps[place], f"step_results.{place}.")

    def rewards(self) -> _Rewards:
        """Return the rewards: the total is the one that is named `reward`, or the only one. Raises:
        BadRow."""
        part, prefix = self._own_part()
        verdict, place = part.get("verifier_result"), f"{prefix}verifier_result"
        if isinstance(verdict, dict):
            name = "rewards" if verdict.get("rewards") not in (None, {}) else "reward"
            verdict, place = verdict.get(name), f"{place}.{name}"
        if verdict in (None, {}):
            verdict, place = self._written()
        if not isinstance(verdict, dict):
            rewards = _Rewards(self._number(verdict, place))
        else:
            numbers = {
                name: self._number(value, f"{place}.{name}") for name, value in verdict.items()
            }
            total = "reward" if "reward" in numbers or len(numbers) != 1 else next(iter(numbers))
            components = {name: value for name, value in numbers.items() if name != total}
            if numbers.get(total, 0) is None and (components or total != "reward"):
                components[total] = None
            self._check_components(components, place)
            rewards = _Rewards(numbers.get(total), components)
        self._check_other_places(rewards, place)
        return rewards

    def _check_components(self, components: Mapping[str, float | None], place: str) -> None:
        kept = components_of(
            {COMPONENT_MEMBERS[0]: {name: value or 0.0 for name, value in components.items()}}
        )
        if lost := [name for name in components if name not in kept]:
            shown = shorten(repr(lost[0]), _SHOWN_CHARACTERS)
            raise self._refusal(
                f"{place} has {shown}, which cannot be a component: those are at most "
                f"{MAX_COMPONENTS}, "
                f"with names of 1 to {MAX_NAME_CHARACTERS} characters without NUL"
            )

    def _check_other_places(self, rewards: _Rewards, read_place: str) -> None:
        """Refuse a trial with a reward where none is read, unless it repeats the total. Raises:
        BadRow."""
        part, prefix = self._own_part()
        parts = {prefix: part}
        if not rewards.has_number and not prefix:
            steps = {f"step_results.{n}.": step for n, step in enumerate(self._steps)}
            parts |= {"": self._values} if self._step else steps
        for prefix, part in list(parts.items()):
            parts |= {
                f"{prefix}{name}.": _dict(part.get(name)) for name in ("verifier_result", "extra")
            }
        for prefix, part in parts.items():
            for name in reward_names(part):
                if (place := f"{prefix}{name}") != read_place and part[name] != rewards.total:
                    shown = f"{place} is {shorten(repr(part[name]), _SHOWN_CHARACTERS)}"
                    whose = (
                        f" of step {shorten(repr(self._step), _SHOWN_CHARACTERS)} in step_results"
                        if self._step
                        else ""
                    )
                    raise self._refusal(
                        f"{shown}; a reward is read only in verifier_result.rewards{whose}"
                    )

    def _written(self) -> tuple[Any, str]:
        """Return what the verifier wrote, in the file that Harbor reads first, and its name; None
        if there is none."""
        has_failed = bool((self._own_part()[0] or self._values).get("exception_info"))
        for name in ("verifier/reward.json", "verifier/reward.txt"):
            content = self._folder.read(f"../{name}")
            if content is None or (not content.strip() and has_failed):  # which says so
                continue
            text = content.decode(errors="replace").strip()
            if name.endswith("txt"):
                return (text if (number := number_in(text)) is None else number), name
            try:
                return json.loads(text, object_pairs_hook=distinct_members), name
            except RepeatedKey as error:
                raise self._refusal(f"{name} {error}") from error
            except (ValueError, RecursionError):
                return text, name
        return None, ""

    def _number(self, value: Any, place: str) -> float | None:
        number = double_of(value) if type(value) in (int, float) else math.nan
        if value is not None and not math.isfinite(number):
            shown = (
                f"{shorten(place, _SHOWN_CHARACTERS)} is {shorten(repr(value), _SHOWN_CHARACTERS)}"
            )
            raise self._refusal(f"{shown}; a reward has to be a finite number, or null")
        return None if value is None else number

    def _refusal(self, why: str) -> BadRow:
        name = _text(self._values.get("trial_name"))
        trial = f"trial {shorten(repr(name), _SHOWN_CHARACTERS)}," if name else "a trial"
        return BadRow(f"belongs to {trial} whose {why}")


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _moment(value: Any) -> datetime | None:
    try:
        moment = datetime.fromisoformat(value)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        return None
