"""A class that only another interpreter can import, as that interpreter describes it.

`describe` makes the description there, as JSON; `DescribedClass` is the environment that the server
makes of it.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from environments import wire
from environments.authoring.declarations import HandControls, plain_schema
from environments.authoring.hosted_class import HostedClass, check_toolset
from environments.authoring.hosted_environment import ClassRevision, HostedEnvironment
from environments.errors import Unhostable, explained

_DECLARED = (
    "reward_range",
    "success_threshold",
    "default_return",
    "convention",
    "required_secrets",
)
"""Attributes of a class that the server reads, besides its task schema."""


class ClassDescription(BaseModel):
    """What a server needs to know about a class; the fields are those of HostedClass."""

    name: str
    origin: str
    description: str
    card: str
    splits: list[wire.Split]
    unavailable: str
    revision: ClassRevision | None
    tools_json: str
    tool_schemas: dict[str, Any]
    hidden_fields: frozenset[str]
    hand_controls: HandControls
    sdk: str
    toolsets: list[str]
    """Names of the toolsets that a session may choose."""
    declared: dict[str, Any]
    isolation: str | None
    sessions_at_once: int | None
    replayable: bool
    saves: bool
    resources: dict[str, float]
    runs_constructor: bool
    supports_score_group: bool
    has_own_prompt: bool
    has_own_messages: bool


def describe(hosted: HostedClass) -> ClassDescription:
    """Return the description of a class of this process. Raises: Unhostable."""
    declared = {
        name: value for name in _DECLARED if (value := hosted.declared(name, None)) is not None
    }
    if (schema := hosted.declared("task_schema", None)) is not None:
        try:
            declared["task_schema"] = plain_schema(schema)
        except (Exception, SystemExit) as error:  # a method or a model of the author's
            raise Unhostable(
                f"{hosted.name}: task_schema cannot be read: {explained(error)}."
            ) from error
    fields = {
        name: getattr(hosted, name)
        for name in ClassDescription.model_fields
        if hasattr(hosted, name)
    }
    fields |= {
        "sdk": hosted.sdk.name,
        "toolsets": list(hosted.session_toolsets),
        "declared": declared,
    }
    return ClassDescription(**fields)


class DescribedClass(HostedEnvironment):
    """A class that this process does not import. Its tasks are read, and its sessions played, by
    other processes: of the interpreter `python`, or of this one if that is empty.
    """

    def __init__(self, description: ClassDescription, python: str) -> None:
        self.python = python
        self.name, self.origin = description.name, description.origin
        self.splits, self.unavailable, self.revision = (
            description.splits,
            description.unavailable,
            description.revision,
        )
        self.hand_controls = description.hand_controls
        self._of = description

    @property
    def isolation(self) -> str | None:
        return self._of.isolation

    @property
    def resources(self) -> dict[str, float]:
        return self._of.resources

    @property
    def sessions_at_once(self) -> int | None:
        return self._of.sessions_at_once

    @property
    def replayable(self) -> bool:
        return self._of.replayable

    @property
    def saves(self) -> bool:
        return self._of.saves

    @property
    def description(self) -> str:
        return self._of.description

    @property
    def card(self) -> str:
        return self._of.card

    @property
    def runs_constructor(self) -> bool:
        return self._of.runs_constructor

    @property
    def supports_score_group(self) -> bool:
        return self._of.supports_score_group

    @property
    def has_own_prompt(self) -> bool:
        return self._of.has_own_prompt

    @property
    def has_own_messages(self) -> bool:
        return self._of.has_own_messages

    @property
    def tools_json(self) -> str:
        return self._of.tools_json

    @property
    def tool_schemas(self) -> dict[str, Any]:
        return self._of.tool_schemas

    @property
    def hidden_fields(self) -> frozenset[str]:
        return self._of.hidden_fields

    def declared(self, name: str, default: Any) -> Any:
        """Return the class attribute `name`, if it is one that the server reads, or `default`."""
        return self._of.declared.get(name, default)

    def check_toolset(self, name: str | None) -> None:
        """Raise InvalidRequest if the SDK of the class has no toolset called `name`. None is always
        accepted."""
        check_toolset(self.name, self._of.sdk, self._of.toolsets, name)
