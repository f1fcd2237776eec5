"""What a trajectory becomes here: an episode, and rollouts with the conversations that it tells."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple, Protocol

from environments.errors import shorten
from environments.files.rows import BadRow
from episodes.transfer.episode_line import EpisodeLine
from episodes.transfer.formats.atif.schema import MAX_SHOWN_CHARACTERS
from episodes.transfer.formats.atif.steps import Content, data_of
from episodes.transfer.rollout_line import MessagePart, RolloutPart

MAX_PATH_CHARACTERS = 300
"""Characters of the path of an image that stand in its place where it cannot be read."""

REWARD_NAMES = ("reward", "rewards", "score", "scores")


class Folder(Protocol):
    """The files around a trajectory: those of a directory or of a zip."""

    @property
    def step(self) -> str:
        """The step of Harbor's trial that the trajectory tells; empty for that of a whole trial."""

    def read(self, name: str) -> bytes | None:
        """Return the content of a file by its path relative to the trajectory; None if there is
        none."""


class ImportedRollout(NamedTuple):
    """A rollout with its messages."""

    facts: RolloutPart
    messages: Sequence[MessagePart]


@dataclass(slots=True)
class ImportedEpisode:
    """An episode to import, from a line of `jsonl` or from a trajectory."""

    line: EpisodeLine
    rollouts: list[ImportedRollout] = field(default_factory=list)
    is_foreign: bool = False
    """Whether another program wrote it: it has no id here, and its session id alone identifies
    it."""


class TrialFacts(NamedTuple):
    """What Harbor's files around a trajectory say about it, and what the command was told."""

    environment: str = ""
    """Name of the environment; empty if nothing names one."""
    run: str = ""
    task: str = ""
    trial: str = ""
    step: str = ""
    model: str = ""
    reward: float | None = None
    components: Mapping[str, float | None] = {}
    """Further rewards of the trial by name; with the total if it is null."""
    exception: str = ""
    exception_kind: Literal["", "expired", "env_error"] = ""
    started: datetime | None = None
    finished: datetime | None = None


def reward_names(part: Mapping[str, Any], names: Sequence[str] = REWARD_NAMES) -> list[str]:
    """Return the members that may hold a reward, without empty ones."""
    return [
        name
        for name, value in part.items()
        if name.casefold() in names and value not in (None, {}, [])
    ]


def loaded(content: Content, folder: Folder, *, must_exist: bool) -> Content:
    """Return the content with each image as a data URI.

    must_exist: whether an image that cannot be read is an error; otherwise its path stands in its
    place.

    Raises: BadRow.
    """
    if isinstance(content, str):
        return content
    return [_loaded_part(part, folder, must_exist=must_exist) for part in content]


def _loaded_part(part: dict[str, Any], folder: Folder, *, must_exist: bool) -> dict[str, Any]:
    if part["type"] == "text":
        return {"type": "text", "text": part["text"]}
    path, kind = part["source"]["path"], part["source"]["media_type"]
    if part["type"] == "image":
        if data_of(path)[0]:
            return {"type": "image", "source": {"media_type": kind, "path": path}}
        if "://" not in path and (data := folder.read(path)) is not None:
            uri = f"data:{kind};base64,{base64.b64encode(data).decode()}"
            return {"type": "image", "source": {"media_type": kind, "path": uri}}
    if must_exist:
        raise BadRow(
            f"the image {shorten(repr(path), MAX_SHOWN_CHARACTERS)} is not next to the trajectory"
        )
    return {"type": "text", "text": f"[{part['type']}: {shorten(path, MAX_PATH_CHARACTERS)}]"}
