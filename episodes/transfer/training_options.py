"""Options of exports for training: how messages and pairs are written. Used by the export page, the
API and commands.

Each option has a name and a list of choices, which are the same in an address, in the API and on
the command line. The first choice is the default: what TRL and the chat templates of transformers
read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from environments.filtering.parameters import BadFilter, chosen, given
from environments.scoring.definition import NO_OVERRIDES, DefinitionOverrides

CHOICES: dict[str, tuple[str, ...]] = {
    "arguments": ("object", "string"),
    "tools": ("list", "text"),
    "images": ("text", "column", "url"),
    "final_output": ("no", "yes"),
    "conversation": ("reported", "recorded"),
    "reasoning": ("reasoning_content", "thinking", "no"),
    "usage": ("no", "yes"),
}
"""Name of each option and its choices, the default first."""
HELP = {
    "arguments": (
        "for messages and pairs: arguments of tool calls as JSON objects, which chat templates "
        "need, or as strings of "
        "JSON, as in OpenAI's format"
    ),
    "tools": "for messages and pairs: tools as a list of JSON Schemas, or as one text of JSON, a "
    "column of one type",
    "images": (
        "for messages and pairs: images as the text [image], as data URIs in a column `images` "
        "with placeholders in "
        "user messages, or as image_url parts of user messages, as in OpenAI's format"
    ),
    "final_output": (
        "for messages: whether a conversation includes the output of its last tool call; no: it "
        "ends with the "
        "assistant's last turn, as pairs always do"
    ),
    "conversation": (
        "for messages and pairs: episodes whose client uploaded the conversation as it really was, "
        "with reasoning, or "
        "all made of what this server recorded"
    ),
    "reasoning": "for messages and pairs: the member of a message with the model's reasoning, or "
    "none",
    "usage": "for messages: whether to add the tokens and the cost that the client reported",
}
"""What each option is for."""


@dataclass(frozen=True, slots=True)
class TrainingOptions:
    """How messages and pairs are written. See HELP."""

    definition: DefinitionOverrides = NO_OVERRIDES
    """Parts of the definition of the reward; those that are None are as each environment defines
    them."""
    margin: float = 0.0
    """Minimum difference of the returns of a pair."""
    arguments: Literal["object", "string"] = "object"
    tools: Literal["list", "text"] = "list"
    images: Literal["text", "column", "url"] = "text"
    has_final_output: bool = False
    is_reported: bool = True
    """Whether uploaded conversations are used where there are any."""
    reasoning: Literal["reasoning_content", "thinking", "no"] = "reasoning_content"
    has_usage: bool = False

    @classmethod
    def parse(
        cls,
        query: Mapping[str, str],
        *,
        definition: DefinitionOverrides = NO_OVERRIDES,
        margin: float = 0.0,
    ) -> TrainingOptions:
        """Return the options in an address or of a command; absent and empty ones have their
        default.

        Raises: BadFilter.
        """
        if not margin >= 0:
            raise BadFilter("margin", margin, "it has to be a number of at least 0, such as 0.5")
        values: dict[str, Any] = {
            name: given(query, name, chosen(choices)) or choices[0]
            for name, choices in CHOICES.items()
        }
        return cls(
            definition=definition,
            margin=margin,
            arguments=values["arguments"],
            tools=values["tools"],
            images=values["images"],
            has_final_output=values["final_output"] == "yes",
            is_reported=values["conversation"] == "reported",
            reasoning=values["reasoning"],
            has_usage=values["usage"] == "yes",
        )
