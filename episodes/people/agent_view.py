"""What the agent sees: a session's prompt and tools in the formats of model providers, for a panel
of the player."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from environments.display.parts import indented, read_json
from episodes.people.provider_formats import Format, Unrepresentable, prompt_as, tools_as

IMAGE_CHARACTERS = 120
"""Characters of an image's data that are shown; the prompt shows the image itself."""
MAX_SHOWN_CHARACTERS = 100_000
_NAMES: dict[Format, str] = {"openai": "OpenAI", "anthropic": "Anthropic", "google": "Google"}
_TOOLS = {"openai": "tools", "anthropic": "tools", "google": "functionDeclarations"}
_DATA = ("data", "url")


@dataclass(frozen=True, slots=True)
class ProviderView:
    """Prompt and tools in the format of one provider."""

    key: Format
    name: str
    prompt: str
    """Indented JSON, or a sentence if the prompt cannot be converted."""
    tools_word: str
    """The name of the list of tools in the provider's API."""
    tools: str
    """Tools as indented JSON."""


@dataclass(frozen=True, slots=True)
class AgentView:
    views: list[ProviderView]
    has_images: bool
    """Whether the prompt has images, whose data is shortened."""


def agent_view_of(prompt_json: str, tools_json: str) -> AgentView:
    """Return the view of a recorded prompt and a recorded listing of tools, both JSON texts that
    may be empty."""
    prompt, listing = read_json(prompt_json), read_json(tools_json)
    tools = listing.get("tools") if isinstance(listing, dict) else listing
    objects = [tool for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []
    views = [
        ProviderView(key, name, _prompt(prompt, key), _TOOLS[key], _tools(objects, key))
        for key, name in _NAMES.items()
    ]
    return AgentView(views, has_images='"mimeType"' in prompt_json)


def _prompt(prompt: Any, key: Format) -> str:
    if not isinstance(prompt, list):
        return "There is no prompt."
    try:
        return _text(_shortened(prompt_as(prompt, key)))
    except Unrepresentable as error:
        return str(error)
    except (LookupError, TypeError, AttributeError, RecursionError):  # it may be any JSON
        return "This prompt can't be converted by clients."


def _tools(tools: list[Any], key: Format) -> str:
    try:
        return _text(tools_as(tools, key))
    except (LookupError, TypeError, RecursionError):
        return "These tools can't be converted by clients."


def _text(value: Any) -> str:
    text = indented(value)
    is_long = len(text) > MAX_SHOWN_CHARACTERS
    return f"{text[:MAX_SHOWN_CHARACTERS]}\N{HORIZONTAL ELLIPSIS}" if is_long else text


def _shortened(value: Any) -> Any:
    """Return `value` with the data of images shortened."""
    if isinstance(value, list):
        return [_shortened(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _cut(inner) if key in _DATA and isinstance(inner, str) else _shortened(inner)
        for key, inner in value.items()
    }


def _cut(data: str) -> str:
    if len(data) <= IMAGE_CHARACTERS:
        return data
    return f"{data[:IMAGE_CHARACTERS]}\N{HORIZONTAL ELLIPSIS} ({len(data):,} characters)"
