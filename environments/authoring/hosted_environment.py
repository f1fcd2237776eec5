"""What this server knows about an environment that it serves, wherever the environment runs.

`hosted_class.py` describes a class in this process, `other_interpreter_class.py` one of another
interpreter, and `environments/hosts/remote_environment.py` an environment of another server. The
registry, the catalogue, sync, sessions and pages read these attributes only.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Protocol

from environments.errors import Unavailable
from environments.wire import Split


@dataclass(frozen=True, slots=True)
class ClassRevision:
    """The code of a hosted environment; `revision.py` computes it when the server starts.

    Of an environment on another server only the digests and the versions are set: they cover what
    that server says.
    """

    source_hash: str
    """SHA-256 of the source files that the class consists of; empty if there are none to read."""
    git_commit: str
    """Commit that is checked out where the class is; empty outside of a repository."""
    is_dirty: bool
    """Whether one of the source files differs from that commit."""
    versions: tuple[tuple[str, str], ...]
    """Names and versions of the SDK and of the packages that the class names in
    `revision_packages`."""
    code: str
    """Digest of what decides whether two revisions are the same code: the class, its source files
    and the versions."""
    digest: str
    """Digest of everything, which also differs between two commits of the same code."""
    unread: str = ""
    """The first part of the code that was not read and so may change unnoticed; empty if all was
    read."""


def digest_of(*parts: str) -> str:
    """Return a digest of texts as 32 hexadecimal digits."""
    return hashlib.blake2b("\0".join(parts).encode("utf-8", "replace"), digest_size=16).hexdigest()


class HostedEnvironment(ABC):
    """An environment and the name under which it is served."""

    name: str
    origin: str
    """Where it comes from: `module:Class`, or the URL of a remote environment without
    credentials."""
    splits: list[Split]
    """The splits that the environment declares; people may have added others to its rows."""
    unavailable: str
    """Why it cannot be played now, as a sentence that includes the fix; empty if it can."""
    revision: ClassRevision | None
    """The code that plays its episodes; None if that is unknown."""

    @property
    def card(self) -> str:
        """What its author wrote about it for people, in Markdown; empty if there is nothing."""
        return ""

    @property
    def is_described(self) -> bool:
        """Return whether the splits and tools are known; another server has to be asked first."""
        return True

    @property
    def replayable(self) -> bool:
        """Return whether the same calls on the same task have the same outcomes in a new
        instance."""
        return False

    @property
    def saves(self) -> bool:
        """Return whether a session can be saved after each call, or some calls, and loaded into a
        new instance."""
        return False

    @property
    def has_fixed_tasks(self) -> bool:
        """Return whether its lists of tasks depend on its code alone, which this process can
        read."""
        return False

    @property
    def sessions_at_once(self) -> int | None:
        """The most sessions that it bears at the same time; None: as many as the server."""
        return None

    @property
    def comes_back(self) -> bool:
        """Return whether a session can go on in a new instance."""
        return self.replayable or self.saves

    @property
    @abstractmethod
    def description(self) -> str:
        """Its description in plain text; empty if there is none."""

    @property
    @abstractmethod
    def runs_constructor(self) -> bool:
        """Return whether constructing an instance runs the environment's code, and so may take
        time."""

    @property
    @abstractmethod
    def supports_score_group(self) -> bool:
        """Return whether the environment scores groups of answers."""

    @property
    @abstractmethod
    def has_own_prompt(self) -> bool:
        """Return whether the environment writes a prompt of its own, from which its messages may be
        derived."""

    @property
    @abstractmethod
    def has_own_messages(self) -> bool:
        """Return whether the environment writes messages with roles of its own, from which a prompt
        may be derived."""

    @property
    @abstractmethod
    def tools_json(self) -> str:
        """The response to GET /{env}/tools; empty while it is unknown."""

    @property
    def tool_schemas(self) -> dict[str, Any]:
        """Input schemas, by name, of the tools known without a session, also of those that only
        sessions list."""
        listing = json.loads(self.tools_json or '{"tools": []}')
        return {
            tool["name"]: tool.get("input_schema")
            for tool in [*listing["tools"], listing.get("terminal_tool")]
            if tool
        }

    @property
    @abstractmethod
    def hidden_fields(self) -> frozenset[str] | None:
        """Fields of a task that agents must not see; None if that is unknown."""

    @abstractmethod
    def declared(self, name: str, default: Any) -> Any:
        """Return what the environment declares under `name`, such as `reward_range`, or
        `default`."""

    @abstractmethod
    def check_toolset(self, name: str | None) -> None:
        """Raise InvalidRequest if there is no toolset called `name` for a session. None is always
        accepted."""

    def check_available(self) -> None:
        """Raise Unavailable, with the sentence that says why, if the environment cannot be played
        now."""
        if self.unavailable:
            raise Unavailable(self.name, self.unavailable)


class EnvironmentTasks(Protocol):
    """The tasks of one environment as JSON texts, read from the environment itself. May raise
    EnvironmentFault."""

    async def listing(self, split: str) -> list[str]:
        """Return all tasks of the split, in order.

        Raises: NotImplementedError when the environment only returns tasks by index.
        """

    async def count(self, split: str) -> int:
        """Return the number of tasks in the split."""

    async def get(self, split: str, index: int) -> str:
        """Return the task at `index`; a negative index counts from the end. Raises:
        InvalidIndex."""

    def range(self, split: str, start: int | None, stop: int | None) -> AsyncIterator[list[str]]:
        """Yield the tasks from `start` up to `stop` in chunks. Raises: InvalidIndexRange."""
