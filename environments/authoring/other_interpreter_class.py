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
    "title_field",
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


def describe(environment: HostedClass) -> ClassDescription:
    """Return the description of a class of this process. Raises: Unhostable."""
    declarations = {
        name: value for name in _DECLARED if (value := environment.declared(name, None)) is not None
    }
    if (schema := environment.declared("task_schema", None)) is not None:
        try:
            declarations["task_schema"] = plain_schema(schema)
        except (Exception, SystemExit) as error:  # a method or a model of the author's
            raise Unhostable(
                f"{environment.name}: task_schema cannot be read: {explained(error)}."
            ) from error
    fields = {
        name: getattr(environment, name)
        for name in ClassDescription.model_fields
        if hasattr(environment, name)
    }
    fields |= {
        "sdk": environment.sdk.name,
        "toolsets": list(environment.session_toolsets),
        "declared": declarations,
    }
    return ClassDescription(**fields)


class DescribedClass(HostedEnvironment):
    """A class that this process does not import. Other processes read its tasks and play its
    sessions, with the interpreter `python`, or with this one if that is empty.
    """

    def __init__(self, description: ClassDescription, python: str) -> None:
        self.python = python
        self.name = description.name
        self.origin = description.origin
        self.splits = description.splits
        self.unavailable = description.unavailable
        self.revision = description.revision
        self.hand_controls = description.hand_controls
        self._description = description

    @property
    def isolation(self) -> str | None:
        return self._description.isolation

    @property
    def resources(self) -> dict[str, float]:
        return self._description.resources

    @property
    def sessions_at_once(self) -> int | None:
        return self._description.sessions_at_once

    @property
    def replayable(self) -> bool:
        return self._description.replayable

    @property
    def saves(self) -> bool:
        return self._description.saves

    @property
    def description(self) -> str:
        return self._description.description

    @property
    def card(self) -> str:
        return self._description.card

    @property
    def runs_constructor(self) -> bool:
        return self._description.runs_constructor

    @property
    def supports_score_group(self) -> bool:
        return self._description.supports_score_group

    @property
    def has_own_prompt(self) -> bool:
        return self._description.has_own_prompt

    @property
    def has_own_messages(self) -> bool:
        return self._description.has_own_messages

    @property
    def tools_json(self) -> str:
        return self._description.tools_json

    @property
    def tool_schemas(self) -> dict[str, Any]:
        return self._description.tool_schemas

    @property
    def hidden_fields(self) -> frozenset[str]:
        return self._description.hidden_fields

    def declared(self, name: str, default: Any) -> Any:
        """Return the class attribute `name`, if it is one that the server reads, or `default`."""
        return self._description.declared.get(name, default)

    def check_toolset(self, name: str | None) -> None:
        """Raise InvalidRequest if the SDK of the class has no toolset called `name`. None is always
        accepted."""
        check_toolset(self.name, self._description.sdk, self._description.toolsets, name)
