"""An environment of another server, as it described itself last.

`describe` asks it. Until that has succeeded once, the environment has no tools and is unavailable;
whatever goes wrong later makes it unavailable again, with the reason, until it answers. Nothing
that it says can stop this server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import ValidationError

from environments import wire
from environments.authoring.declarations import MAX_NAME_CHARACTERS
from environments.authoring.hosted_environment import ClassRevision, HostedEnvironment, digest_of
from environments.errors import nearest, shorten
from environments.hosts.remote_server import RemoteFault, RemoteServer
from environments.hosts.remote_url import RemoteUrl
from environments.wire import Split

MAX_LISTED_NAMES = 20
NOT_ASKED = "It hasn't answered yet."
_TOOL_KEYS = frozenset(wire.ToolSpec.model_fields)


@dataclass(frozen=True, slots=True)
class Description:
    """What a remote environment says about itself. Two that are equal need no second sync."""

    tools: wire.ListToolsOutput
    splits: tuple[Split, ...]
    counts: tuple[int | None, ...]
    """Number of tasks in each split; None where the server does not say it."""
    version: str
    """What GET /version says, as JSON; empty if the server has none."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Description) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    @property
    def key(self) -> tuple[object, ...]:
        return (wire.model_json(self.tools), str(self.splits), self.counts, self.version)


class HostedRemote(HostedEnvironment):
    """An environment of another server."""

    runs_constructor = True
    has_own_prompt = True
    has_own_messages = False
    hidden_fields = None

    def __init__(self, url: RemoteUrl) -> None:
        self.url = url
        self.name = url.name
        self.origin = str(url)
        self.splits = []
        self.revision = None
        self.unavailable = f"{url}: {NOT_ASKED}"
        self.described: Description | None = None
        """The latest description, also while the environment is unavailable."""
        self._tools_json = ""

    @property
    def is_described(self) -> bool:
        return self.described is not None

    @property
    def description(self) -> str:
        return (
            f"Plays on another server, {self.url}. This server passes sessions through and records "
            "them."
        )

    @property
    def tools_json(self) -> str:
        return self._tools_json

    @property
    def supports_score_group(self) -> bool:
        return bool(self.described and self.described.tools.supports_score_group)

    def declared(self, name: str, default: Any) -> Any:
        """Return `default`: the protocol has no field for what classes declare."""
        return default

    def check_toolset(self, name: str | None) -> None:
        """Accept any name: the other server knows its toolsets, and refuses others."""

    def take(self, description: Description) -> None:
        """Set what the environment said about itself."""
        self.described, self.splits = description, list(description.splits)
        self._tools_json = wire.model_json(description.tools)
        tools, splits, *_ = description.key
        code = digest_of("remote", self.url.environment, str(tools), str(splits))
        versions = (("server", description.version),) if description.version else ()
        self.revision = ClassRevision(
            "", "", False, versions, digest_of(code, description.version), code
        )


async def describe(server: RemoteServer) -> Description:
    """Ask the server about the environment. Raises: RemoteFault, whose text is a sentence without a
    full stop."""
    try:
        tools, splits = await asyncio.gather(
            server.ask("GET", server.path("tools")), server.ask("GET", server.path("splits"))
        )
    except RemoteFault as fault:
        if fault.status in (404, 308, 307):
            await _check_name(server)
        raise
    split_list = read_splits(server, splits)
    listing = read_tools(server, tools)
    version = await _version(server)
    counts = await asyncio.gather(*(_count(server, split.name) for split in split_list))
    return Description(listing, tuple(split_list), tuple(counts), version)


async def _check_name(server: RemoteServer) -> None:
    """Raise RemoteFault with the names of the server's environments, if ours is not among them."""
    names = await server.ask("GET", "/list_environments")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return
    own_name = server.url.env_name
    if own_name.lower() not in [name.lower() for name in names]:
        options = ", ".join(map(repr, names[:MAX_LISTED_NAMES])) or "nothing"
        more = f" and {len(names) - MAX_LISTED_NAMES} more" if len(names) > MAX_LISTED_NAMES else ""
        hint = nearest(own_name, names).replace(" Did", "; did")
        raise RemoteFault(
            f"{server.url.server} has no environment {own_name!r}; it has {options}{more}{hint}",
            404,
        )


async def _version(server: RemoteServer) -> str:
    """Return what the server says about its version; empty if it does not."""
    try:
        answer = await server.ask("GET", "/version")
    except RemoteFault as fault:
        if fault.status:
            return ""
        raise
    if not isinstance(answer, dict):
        return ""
    parts = [
        str(answer[key]) for key in ("version", "build_sha") if isinstance(answer.get(key), str)
    ]
    return shorten(" ".join(parts), MAX_NAME_CHARACTERS)


async def _count(server: RemoteServer, split: str) -> int | None:
    try:
        return await count_tasks(server, split)
    except RemoteFault as fault:
        if fault.status == 404:  # the server does not have this endpoint
            return None
        raise


async def count_tasks(server: RemoteServer, split: str) -> int:
    """Return the number of tasks in a split. Raises: RemoteFault."""
    body = wire.value_json({"split": split}).encode("ascii")
    answer = await server.ask("POST", server.path("num_tasks"), body)
    count = answer.get("num_tasks") if isinstance(answer, dict) else None
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise RemoteFault(
            f"{server.url} says that split {split!r} has {_short(count)} tasks, which is no number"
        )
    return count


def read_tools(server: RemoteServer, value: Any) -> wire.ListToolsOutput:
    """Return a list of tools that the server sent, without unknown keys. Raises: RemoteFault."""
    try:
        if not isinstance(value["tools"], list):
            raise TypeError("its tools aren't a list")
        tools: dict[str, wire.ToolSpec] = {}
        for tool in value["tools"]:
            values = {"description": "", "input_schema": None}
            values |= {key: tool[key] for key in _TOOL_KEYS if key in tool}
            spec = wire.ToolSpec.model_validate(values, strict=True)
            tools.setdefault(spec.name, spec)  # of two, the first counts
        fields = {key: value[key] for key in wire.ListToolsOutput.model_fields if key in value}
        fields["supports_score_group"] = bool(fields.get("supports_score_group"))
        # this server offers messages whatever the other does
        fields["message_block_types"] = wire.MESSAGE_BLOCK_TYPES
        fields["tools"] = list(tools.values())
        return wire.ListToolsOutput.model_validate(fields)
    except (ValidationError, KeyError, TypeError, ValueError) as error:
        raise RemoteFault(
            f"{server.url} sent a list of tools that is not valid: {_problem(error)}"
        ) from None


def read_splits(server: RemoteServer, value: Any) -> list[Split]:
    """Return a list of splits that the server sent: objects, or names alone. Raises:
    RemoteFault."""
    try:
        if not isinstance(value, Sequence) or isinstance(value, str) or not value:
            raise ValueError(f"{_short(value)} is no list of splits")
        splits = []
        for item in value:
            if isinstance(item, str):
                kind = item if item in get_args(wire.SplitType) else "validation"
                item = {"name": item, "type": kind}
            kind = item.get("type") or "validation"
            splits.append(Split.model_validate({"name": item["name"], "type": kind}))
    except (ValidationError, KeyError, TypeError, ValueError) as error:
        raise RemoteFault(
            f"{server.url} sent a list of splits that is not valid: {_problem(error)}"
        ) from None
    names = [split.name for split in splits]
    for name in names:
        if names.count(name) > 1 or not 0 < len(name) <= MAX_NAME_CHARACTERS:
            raise RemoteFault(
                f"{server.url} sent a list of splits with the name {_short(name)}, twice or too "
                "long"
            )
    return splits


def _short(value: object) -> str:
    return shorten(repr(value), 80)


def _problem(error: Exception) -> str:
    """Return what is wrong with a value, in one line and without the value."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(map(str, first['loc'])) or 'it'}: {first['msg']}"
    if isinstance(error, KeyError):
        return f"it has no {error}"
    return shorten(str(error), 200)
