"""What a trajectory becomes here: an episode, and rollouts with the conversations that it tells."""

from __future__ import annotations

import base64
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import PurePath
from typing import Any, Literal, NamedTuple

from environments.errors import shorten
from environments.files.rows import BadRow
from episodes.transfer.episode_line import EpisodeLine, MessagePart, RolloutPart
from episodes.transfer.formats.atif.schema import MAX_VALUE_CHARACTERS
from episodes.transfer.formats.atif.steps import Content, data_of

MAX_PATH_CHARACTERS = 300
"""Characters of the path of an image that stand in its place where it cannot be read."""

REWARD_NAMES = ("reward", "rewards", "score", "scores")


class Folder(ABC):
    """The files around a trajectory: those of a directory or of a zip."""

    def __init__(self, path: PurePath) -> None:
        self.path = path

    @abstractmethod
    def read(self, name: str) -> bytes | None:
        """Return the content of a file by its path relative to the trajectory; None if there is
        none."""

    @property
    def step(self) -> str:
        """The step of Harbor's trial that the trajectory tells, whose files Harbor has moved to
        TRIAL/steps/STEP/agent; empty for that of a whole trial."""
        is_step = self.path.name == "agent" and self.path.parent.parent.name == "steps"
        return self.path.parent.name if is_step and self.read("../result.json") is None else ""


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
    parts = list[dict[str, Any]]()
    for part in content:
        if part["type"] == "text":
            parts.append({"type": "text", "text": part["text"]})
            continue
        path, kind = part["source"]["path"], part["source"]["media_type"]
        uri = ""
        if part["type"] == "image" and data_of(path)[0]:
            uri = path
        elif part["type"] == "image" and "://" not in path:
            data = folder.read(path)
            if data is not None:
                uri = f"data:{kind};base64,{base64.b64encode(data).decode()}"
        if uri:
            parts.append({"type": "image", "source": {"media_type": kind, "path": uri}})
        elif must_exist:
            name = shorten(repr(path), MAX_VALUE_CHARACTERS)
            raise BadRow(f"the image {name} is not next to the trajectory")
        else:
            name = shorten(path, MAX_PATH_CHARACTERS)
            parts.append({"type": "text", "text": f"[{part['type']}: {name}]"})
    return parts
