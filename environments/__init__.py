"""What an author of environments imports; the same names as in `ors` and `openreward.environments`."""

from environments.environment import Environment
from environments.errors import ToolError
from environments.tools import Toolset, terminal, tool
from environments.wire import (
    Blocks,
    GroupCandidate,
    GroupScore,
    ImageBlock,
    JSONObject,
    ListToolsOutput,
    Message,
    ReasoningBlock,
    Split,
    TextBlock,
    ToolCallBlock,
    ToolOutput,
    ToolResultBlock,
    ToolSpec,
)

__all__ = [
    "Blocks",
    "Environment",
    "GroupCandidate",
    "GroupScore",
    "ImageBlock",
    "JSONObject",
    "ListToolsOutput",
    "Message",
    "ReasoningBlock",
    "Split",
    "TextBlock",
    "ToolCallBlock",
    "ToolError",
    "ToolOutput",
    "ToolResultBlock",
    "ToolSpec",
    "Toolset",
    "terminal",
    "tool",
]
