"""Parses uploaded rollouts in files: those of a line, which `formats/jsonl.py` writes, and those
of a trajectory."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from episodes.models.rollouts import RESPONSE_KINDS
from episodes.transfer.line_parts import Count, LinePart, Name, Number, Text, Time
from episodes.uploads.events import CALL_ID_LENGTH, EVENT_ID_LENGTH, ID_LENGTH

EXACT_ROLLOUT: dict[str, Any] = {"event": None, "info": None, "messages": [{"extra": None}]}
"""The members of a rollout that hold exact JSON texts; a shape for `sliced`."""


class MessagePart(LinePart):
    """A message of a conversation, as columns of RolloutMessage."""

    kind: Annotated[Text, Field(max_length=40)]
    call: Count | None = None
    """Position of its tool call in the step of a trajectory."""
    event_id: Annotated[Text, Field(max_length=EVENT_ID_LENGTH)]
    index: Number
    name: Name = ""
    call_id: Annotated[Text, Field(max_length=CALL_ID_LENGTH)] = ""
    content: Text | None = None
    """None: in a trajectory, the text that the step has."""
    summary: Text = ""
    extra: Text = ""
    extra_text: Text = ""
    reward: float | None = None
    is_finished: bool = False
    sent_ms: Number | None = None
    received: Time
    problem: Annotated[Text, Field(max_length=300)] = ""

    @model_validator(mode="after")
    def take_texts(self) -> Self:
        self.extra, self.extra_text = self.extra or self.extra_text, ""
        return self

    @property
    def text(self) -> str:
        return self.content or ""

    @property
    def response_characters(self) -> int:
        return len(self.text) if self.kind in RESPONSE_KINDS else 0


class RolloutPart(LinePart):
    """A rollout, as columns of Rollout."""

    event_id: Annotated[Text, Field(min_length=1, max_length=ID_LENGTH)]
    is_announced: bool = True
    run: Name | None = None
    run_step: Number | None = None
    name: Annotated[Text, Field(max_length=300)] = ""
    environment: Annotated[Text, Field(max_length=300)] = ""
    environment_name: Name = ""
    variant: Name = ""
    split: Name = ""
    task_index: Number | None = None
    model: Name = ""
    model_params: Number | None = None
    training_stage: Annotated[Text, Field(max_length=20)] = ""
    event: Text = ""
    event_text: Text = ""
    info: Text = ""
    info_text: Text = ""
    sent_ms: Number | None = None
    received: Time
    problem: Annotated[Text, Field(max_length=300)] = ""
    messages: list[MessagePart] = []
    """Absent from a trajectory, which has them in its steps."""

    @model_validator(mode="after")
    def take_texts(self) -> Self:
        self.event, self.event_text = self.event or self.event_text, ""
        self.info, self.info_text = self.info or self.info_text, ""
        return self
