"""The names that authors of environments import, with the names and semantics of `ors` and
`openreward.environments`.

`Server` only raises an error that says how to serve. openreward's `download_text` and `upload_text`
are missing, because they need its sandboxes.
"""

from environments.authoring.environment import Calls, Environment, Server
from environments.authoring.tools import Toolset, terminal, tool
from environments.errors import ToolError
from environments.wire import MESSAGE_BLOCK_TYPES as SUPPORTED_MESSAGE_BLOCK_TYPES
from environments.wire import (
    Blocks,
    CreateSession,
    GroupCandidate,
    GroupScore,
    ImageBlock,
    JSONObject,
    JSONValue,
    ListToolsOutput,
    Message,
    MessageBlocks,
    ReasoningBlock,
    Role,
    RunToolError,
    RunToolOutput,
    RunToolSuccess,
    Split,
    TerminalToolSpec,
    TextBlock,
    ToolCall,
    ToolCallBlock,
    ToolOutput,
    ToolResultBlock,
    ToolSpec,
)

__version__ = "0.1.0"

__all__ = [
    "SUPPORTED_MESSAGE_BLOCK_TYPES",
    "Blocks",
    "Calls",
    "CreateSession",
    "Environment",
    "GroupCandidate",
    "GroupScore",
    "ImageBlock",
    "JSONObject",
    "JSONValue",
    "ListToolsOutput",
    "Message",
    "MessageBlocks",
    "ReasoningBlock",
    "Role",
    "RunToolError",
    "RunToolOutput",
    "RunToolSuccess",
    "Server",
    "Split",
    "TerminalToolSpec",
    "TextBlock",
    "ToolCall",
    "ToolCallBlock",
    "ToolError",
    "ToolOutput",
    "ToolResultBlock",
    "ToolSpec",
    "Toolset",
    "terminal",
    "tool",
]
