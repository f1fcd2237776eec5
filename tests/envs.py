"""Small environments for every test, written with this project's own authoring API.

Serve any of them as `tests.envs:Echo`; each is named after its class in lower case. Tasks are
`{"id": "train-0"}` and so on, three in train and two in test; a client may send any task instead.
`log` in a task is the path of a file that gets one line per event, so that a test can watch a
server in another process. Those that wait are in `envs_slow.py`, those that fail in
`envs_faulty.py`.
"""

from __future__ import annotations

import base64
import logging
import threading
from collections.abc import Sequence
from typing import ClassVar
from urllib.parse import quote

from environments import (
    Blocks,
    GroupCandidate,
    GroupScore,
    ImageBlock,
    JSONObject,
    ListToolsOutput,
    Message,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    ToolError,
    ToolOutput,
    ToolResultBlock,
    Toolset,
    ToolSpec,
    terminal,
    tool,
)
from tests.envs_base import Listed, Numbers, Small, Text, said
from tests.envs_faulty import (
    Counter,
    FailingConstructor,
    FailingPrompt,
    FailingSetup,
    FailingTeardown,
    Raises,
)
from tests.envs_slow import GATES, PASSED, BlockingSetup, Gated, Slow, SlowSetup, SlowTeardown

__all__ = [
    "GATES",
    "PASSED",
    "BlockingSetup",
    "Conversation",
    "Counter",
    "Echo",
    "Endless",
    "FailingConstructor",
    "FailingPrompt",
    "FailingSetup",
    "FailingTeardown",
    "Gated",
    "Procedural",
    "Raises",
    "Scored",
    "Secretive",
    "Slow",
    "SlowSetup",
    "SlowTeardown",
    "Sparse",
    "SyncEcho",
    "TaskTools",
    "Terminal",
    "Toolsetted",
]

PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n not really").decode()


class Echo(Small):
    """`echo` pays 0.1 a call, `finish` pays 0.5 and ends the episode."""

    @tool
    async def echo(self, args: Text) -> ToolOutput:
        """Say it again."""
        self.note(f"echo {args.text}")
        return said(args.text, 0.1)

    @tool
    async def finish(self) -> ToolOutput:
        """End the episode."""
        self.note("finish")
        return said("bye", 0.5, finished=True)

    def teardown(self) -> None:
        self.note("teardown")


class SyncEcho(Small):
    """As Echo, in plain functions. The metadata of `echo` holds the `thread` it ran on."""

    @tool
    def echo(self, args: Text) -> ToolOutput:
        """Say it again."""
        self.note(f"echo {args.text}")
        return said(args.text, 0.1, thread=threading.get_ident())

    @tool
    def finish(self) -> ToolOutput:
        """End the episode."""
        return said("bye", 0.5, finished=True)

    def teardown(self) -> None:
        self.note("teardown")


class Procedural(Small):
    """A million tasks in train that are never listed: `{"seed": index}`."""

    @classmethod
    def list_tasks(cls, split: str) -> Sequence[JSONObject]:
        raise NotImplementedError

    @classmethod
    async def num_tasks(cls, split: str) -> int:
        return 1_000_000 if split == "train" else 10

    @classmethod
    async def get_task(cls, split: str, index: int) -> JSONObject:
        count = await cls.num_tasks(split)
        return {"split": split, "seed": range(count)[index]}

    @tool
    async def answer(self, args: Text) -> ToolOutput:
        """Right when it is the seed."""
        return said("ok", float(args.text == str(self.task_spec["seed"])), finished=True)


class Endless(Procedural):
    """10**12 tasks in split big, given without ever suspending; `asked` counts those given, in all
    tests together."""

    asked: ClassVar[int] = 0

    @classmethod
    def list_splits(cls) -> Sequence[str]:
        return ["big"]

    @classmethod
    async def num_tasks(cls, split: str) -> int:
        return 10**12

    @classmethod
    async def get_task(cls, split: str, index: int) -> JSONObject:
        Endless.asked += 1
        return {"seed": index}


class Sparse(Endless):
    """Of a range it gives every second thousandth task only, so that parts of a range are empty."""

    @classmethod
    async def get_task_range(
        cls, split: str, start: int | None = None, stop: int | None = None
    ) -> list[JSONObject]:
        return [{"seed": index} for index in range(start or 0, stop or 0) if index % 2000 == 1000]


class Adder(Toolset):
    """A toolset that reads its environment."""

    @tool
    def add(self, args: Numbers) -> ToolOutput:
        """The sum of both."""
        return said(f"{args.a + args.b:g}", task=self.env.task_spec.get("id"))


class Lonely:
    """A toolset without a base class and without a constructor argument."""

    @tool
    async def wave(self) -> ToolOutput:
        """Wave."""
        return said("hello")

    @tool(shared=False)
    async def whisper(self) -> ToolOutput:
        """Offered in sessions only."""
        return said("psst")


class Toolsetted(Small):
    """One tool of its own, three from two toolsets."""

    toolsets = (Adder, Lonely)

    @tool
    async def own(self) -> ToolOutput:
        """The class's own."""
        return said("own")


MOVES = {
    "type": "object",
    "properties": {"way": {"enum": ["up", "down"]}, "steps": {"type": "integer", "maximum": 3}},
    "required": ["way"],
    "additionalProperties": False,
}


class Schematic(Small):
    """Its tool is declared by a JSON Schema."""

    @tool(input_schema=MOVES)
    async def move(self, params) -> ToolOutput:  # type: ignore[no-untyped-def]
        """Move on."""
        return said(f"moved {params}")


class TaskTools(Small):
    """`dig` is marked shared=False; a task `{"tools": ["dig"]}` lists it, others list nothing but `look`."""

    @tool
    async def look(self) -> ToolOutput:
        """Look around."""
        return said("a field")

    @tool(shared=False)
    async def dig(self) -> ToolOutput:
        """Dig a hole."""
        return said("a hole")

    def list_task_tools(self) -> ListToolsOutput:
        names = self.task_spec.get("tools", [])
        return ListToolsOutput(
            tools=[ToolSpec(name=name, description="Dig.", input_schema=None) for name in names]
        )


class Terminal(Small):
    """The final message goes to `submit`, which pays 1.0 for "42"; `look` is an ordinary tool."""

    @tool
    async def look(self) -> ToolOutput:
        """Look around."""
        return said("a field")

    @terminal
    @tool
    async def submit(self, args: Text) -> ToolOutput:
        """Grade the final message."""
        return said("graded", float(args.text.strip() == "42"), finished=True)


class Scored(Small):
    """Scores a candidate by the length of its last text; a task `{"drop": true}` returns one score too few."""

    @tool
    async def finish(self) -> ToolOutput:
        """End the episode."""
        return said("bye", finished=True)

    async def score_group(
        self, candidates: Sequence[GroupCandidate]
    ) -> Sequence[GroupScore | float]:
        last = [candidate.messages[-1].blocks[-1] for candidate in candidates]
        scores: list[GroupScore | float] = [
            float(len(getattr(block, "text", ""))) for block in last
        ]
        scores[0] = GroupScore(
            reward=float(len(getattr(last[0], "text", ""))), metadata={"rank": 1}
        )
        return scores[1:] if self.task_spec.get("drop") else scores


class Conversation(Listed):
    """Has a conversation in place of a prompt, with every kind of block."""

    def get_messages(self) -> Sequence[Message]:
        call = ToolCallBlock(id="c1", name="look", input={"far": True})
        result = ToolResultBlock(
            tool_call_id="c1", blocks=[ImageBlock(data=PIXEL, mimeType="image/png")]
        )
        return [
            Message(role="system", blocks=[TextBlock(text="Be brief.")]),
            Message(role="assistant", blocks=[ReasoningBlock(text="I must look."), call]),
            Message(role="user", blocks=[result, TextBlock(text="And now?")]),
        ]

    @tool
    async def reply(self, args: Text) -> ToolOutput:
        """Answer the conversation."""
        return said(args.text, 1.0, finished=True)


class Secretive(Small):
    """Says its secret `token` in every way it can. A task's `fail` ("constructor" or "setup") makes that raise it."""

    def __init__(self, task_spec: JSONObject = {}, secrets: dict[str, str] = {}) -> None:
        super().__init__(task_spec, secrets)
        self.secrets = secrets
        self._maybe_fail("constructor")

    async def setup(self) -> None:
        self._maybe_fail("setup")

    def _maybe_fail(self, where: str) -> None:
        if self.task_spec.get("fail") == where:
            raise RuntimeError(f"{where} refused {self.secrets['token']}")

    def get_prompt(self) -> Blocks:
        return [TextBlock(text=f"The token is {self.secrets.get('token', 'missing')}.")]

    @tool
    async def reveal(self) -> ToolOutput:
        """Return the secret, in text and metadata."""
        token = self.secrets.get("token", "missing")
        return said(f"token {token}", 0.1, token=token)

    @tool
    async def disguise(self) -> ToolOutput:
        """Return the secret encoded, and in two parts; write it into the log."""
        token = self.secrets["token"]
        basic = base64.b64encode(f"user:{token}".encode()).decode()
        encoded = f"Basic {basic} {token.encode().hex()} {quote(token, safe='')}"
        logging.getLogger("author").warning("opened %s with %s", token, encoded)
        middle = len(token) // 2
        return ToolOutput(
            blocks=[TextBlock(text=part) for part in (token[:middle], token[middle:], encoded)]
        )

    @tool
    async def names(self) -> ToolOutput:
        """The names of all secrets, sorted."""
        return said(",".join(sorted(self.secrets)))

    @tool
    async def leak(self) -> ToolOutput:
        """Raise the secret."""
        raise RuntimeError(f"bad token {self.secrets['token']}")

    @tool
    async def scold(self) -> ToolOutput:
        """Raise the secret as a recoverable error."""
        raise ToolError(f"bad token {self.secrets['token']}")
