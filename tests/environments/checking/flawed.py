"""One environment without a flaw, and many with one each. Served as
`tests.environments.checking.flawed:Name`."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, Field, RootModel, field_validator

from environments import (
    Blocks,
    Calls,
    Environment,
    GroupCandidate,
    GroupScore,
    ImageBlock,
    JSONObject,
    ListToolsOutput,
    Split,
    TextBlock,
    ToolError,
    ToolOutput,
    ToolSpec,
    terminal,
    tool,
)
from environments.checking import loop_watch


class Step(BaseModel):
    """Nothing that stands in a prompt by chance."""

    direction: Literal["north", "south"]
    times: int = Field(default=1, ge=1, le=3)


class Loose(BaseModel):
    model_config = {
        "json_schema_extra": {"properties": {"text": {"type": "string"}}, "required": ["text"]}
    }
    text: Any = ""


class Number(BaseModel):
    number: int

    def model_post_init(self, context: Any) -> None:
        raise ValueError("never good enough")


class Task(BaseModel):
    place: int


def told(
    text: str, reward: float | None = None, *, finished: bool = False, **metadata: Any
) -> ToolOutput:
    return ToolOutput(
        blocks=[TextBlock(text=text)], reward=reward, finished=finished, metadata=metadata or None
    )


class Sound(Environment):
    """Walk to place 5 or below 0. Task: `place`."""

    task_schema: ClassVar[Any] = Task

    def __init__(self, task_spec: JSONObject = {}, secrets: dict[str, str] = {}) -> None:
        super().__init__(task_spec, secrets)
        self.place = int(task_spec["place"])

    @classmethod
    def list_splits(cls) -> Sequence[Split | str]:
        return ["train", "test"]

    @classmethod
    def list_tasks(cls, split: str) -> Sequence[JSONObject]:
        return [{"place": place} for place in {"train": (1, 2, 3), "test": (4,)}[split]]

    def get_prompt(self) -> Blocks:
        return [TextBlock(text=f"You are at place {self.place}.")]

    @tool
    def step(self, params: Step) -> ToolOutput:
        """Go some places on."""
        self.place += params.times if params.direction == "north" else -params.times
        is_over = not 0 <= self.place < 5
        return told(
            f"You are at place {self.place}.",
            float(self.place >= 5) if is_over else 0.0,
            finished=is_over,
        )

    def oracle(self) -> Iterator[tuple[str, JSONObject]]:
        while self.place < 5:
            yield "step", {"direction": "north"}

    def exploits(self) -> Mapping[str, Calls]:
        return {"to and fro": [("step", {"direction": "south"}), ("step", {"direction": "north"})]}


CLEARING = "\x1b[2J\x9b31m\u202e"
"""Clears a terminal, writes in red and from right to left."""


class Colourful(Sound):
    """Prints that in the ways that there are."""

    def get_prompt(self) -> Blocks:
        print(f"print {CLEARING}")
        os.write(1, f"output {CLEARING}\n".encode())
        subprocess.run(["echo", f"program {CLEARING}"], check=True)
        return super().get_prompt()


class ColourfulApart(Colourful):
    isolation = "session"


class Saved(Sound):
    """Saved after each call."""

    def save(self) -> bytes:
        return str(self.place).encode()

    def load(self, state: bytes) -> None:
        self.place = int(state)


class LosesPlaces(Saved):
    """Loads the place before the last one."""

    def load(self, state: bytes) -> None:
        self.place = int(state) - 1


class SavesNoBytes(Saved):
    """Saves text."""

    def save(self) -> bytes:
        return str(self.place)  # type: ignore[return-value]


class SavesSeldom(Saved):
    """Saved after every third call, although calls can't be made again."""

    snapshot_every = 3


class Procedural(Sound):
    """Asked for each task, of which it has very many."""

    @classmethod
    def list_tasks(cls, split: str) -> Sequence[JSONObject]:
        raise NotImplementedError

    @classmethod
    async def num_tasks(cls, split: str) -> int:
        return 1_000_000

    @classmethod
    async def get_task(cls, split: str, index: int) -> JSONObject:
        if not 0 <= index < 1_000_000:
            raise IndexError(index)
        return {"place": index % 5}


# --- tasks ----------------------------------------------------------------------------------------


class Shuffled(Sound):
    @classmethod
    def list_tasks(cls, split: str) -> Sequence[JSONObject]:
        return random.SystemRandom().sample([{"place": place} for place in range(200)], 200)


class OfASet(Sound):
    """The order of a set of strings is another in every process."""

    @classmethod
    def list_tasks(cls, split: str) -> Sequence[JSONObject]:
        return [{"place": int(place)} for place in {str(number) for number in range(50)}]


class OfItsProcess(Sound):
    """Another one in every process, whatever its hash seed."""

    @classmethod
    def list_tasks(cls, split: str) -> Sequence[JSONObject]:
        return [{"place": os.getpid()}]


class SetsAnAlarm(Sound):
    @tool
    def step(self, params: Step) -> ToolOutput:
        """Walk for at most a second."""
        signal.signal(signal.SIGALRM, lambda number, frame: None)
        return told("walked", 0.0, finished=True)


class Alone(Saved):
    """Keeps its state in a module and handles signals, as code may that has a process for itself."""

    isolation = "session"
    own_thread = True
    walked: ClassVar[list[int]] = []

    @classmethod
    def list_splits(cls) -> Sequence[Split | str]:
        return ["test"]

    @tool
    def step(self, params: Step) -> ToolOutput:
        """Walk for at most a second."""
        signal.signal(signal.SIGALRM, lambda number, frame: None)
        self.walked.append(self.place)
        self.place += params.times if params.direction == "north" else -params.times
        is_over = not 0 <= self.place < 5
        return told(f"{len(self.walked)} steps", float(self.place >= 5), finished=is_over)

    def teardown(self) -> None:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)

    def save(self) -> bytes:
        return str([self.place, *self.walked]).encode()

    def load(self, state: bytes) -> None:
        self.place, *self.walked[:] = json.loads(state)


class PaysByHash(Sound):
    """Lists the same tasks everywhere, and pays by a number that is made of a hash."""

    @tool
    def step(self, params: Step) -> ToolOutput:
        """Walk."""
        return told("walked", random.Random(hash(params.direction)).random(), finished=True)


class Bare(Sound):
    @classmethod
    def list_tasks(cls, split: str) -> Sequence[JSONObject]:
        return []


class HalfBare(Sound):
    @classmethod
    def list_tasks(cls, split: str) -> Sequence[JSONObject]:
        return Sound.list_tasks(split) if split == "train" else []


class Repeating(Sound):
    @classmethod
    def list_tasks(cls, split: str) -> Sequence[JSONObject]:
        return [{"place": 1}, {"place": 2}, {"place": 1}]


class Rewording(Sound):
    @classmethod
    def list_tasks(cls, split: str) -> Sequence[JSONObject]:
        mark = "." if split == "train" else " !"
        return [
            {"question": f"Where is {place}{mark}", "place": place, "seed": split}
            for place in (1, 2, 3)
        ]


class Miscounting(Procedural):
    @classmethod
    def list_tasks(cls, split: str) -> Sequence[JSONObject]:
        return [{"place": 1}]

    @classmethod
    async def num_tasks(cls, split: str) -> int:
        return 2


class Unkept(Sound):
    task_schema = {"type": "object", "properties": {"place": {"type": "integer", "maximum": 2}}}


class NotJson(Sound):
    @classmethod
    def list_tasks(cls, split: str) -> Sequence[JSONObject]:
        return [{"place": float("nan")}]


# --- prompts --------------------------------------------------------------------------------------


class Silent(Sound):
    def get_prompt(self) -> Blocks:
        return [TextBlock(text=" ")]


class Telling(Sound):
    hidden_fields = ("place",)


class Misspelling(Sound):
    hidden_field = ("place",)


class HidingNothing(Sound):
    hidden_fields = ("answer", "key")


class Changing(Sound):
    numbers = count()

    def get_prompt(self) -> Blocks:
        return [TextBlock(text=f"Session {next(self.numbers)}.")]


class WrongImage(Sound):
    def get_prompt(self) -> Blocks:
        return [ImageBlock(data="R0lGODlh", mimeType="image/png")]


class NeedsSecret(Sound):
    def __init__(self, task_spec: JSONObject = {}, secrets: dict[str, str] = {}) -> None:
        super().__init__(task_spec, secrets)
        self.key = secrets["API_KEY"]


# --- play -----------------------------------------------------------------------------------------


class Crashing(Sound):
    @tool
    def jump(self, params: Step) -> ToolOutput:
        """Jump."""
        raise KeyError("legs")


class Misconstruing(Sound):
    """Constructs a model of its own wrongly, which a library notices."""

    @tool
    def jump(self, params: Step) -> ToolOutput:
        """Jump."""
        return told(Task(place="far").model_dump_json())  # type: ignore[arg-type]


class Undescribed(Sound):
    __doc__ = None


class Unfinished(Sound):
    @tool
    def step(self, params: Step) -> ToolOutput:
        """Go on for ever."""
        return told("On and on.", 0.1)


class Uncounted(Sound):
    convention: ClassVar = {"no_call": "keep"}


class Grand(Sound):
    """Its rewards are written as people write them, not as 1.25e+06. The oracle misses the top of the range."""

    reward_range = (-2_000_000.0, 2_500_000.0)
    success_threshold = 1_250_000.0

    @tool
    def step(self, params: Step) -> ToolOutput:
        """Earn a lot."""
        return told("Here.", 1_250_000.0, finished=True)

    @tool
    def wait(self) -> ToolOutput:
        """Be paid for nothing."""
        return told("Here too.", 1_500_000.0, finished=True)

    def exploits(self) -> Mapping[str, Calls]:
        return {"no work": [("wait", {})]}


class Overpaid(Sound):
    reward_range = (0.0, 1.0)

    @tool
    def step(self, params: Step) -> ToolOutput:
        """Get rich."""
        return told("Here.", 7.0, finished=True)


class NoNumber(Sound):
    @tool
    def step(self, params: Step) -> ToolOutput:
        """Divide by nothing."""
        return told("Oh.", float("nan"), finished=True)


class ShortOfScores(Sound):
    def score_group(self, candidates: Sequence[GroupCandidate]) -> Sequence[GroupScore | float]:
        return [1.0]


class Gullible(Sound):
    """Its schema forbids what its model takes."""

    @tool
    def say(self, params: Loose) -> ToolOutput:
        """Say it."""
        return told("Said.")


class Picky(Sound):
    """Its model refuses what its schema allows."""

    @tool
    def give(self, params: Number) -> ToolOutput:
        """Give a number."""
        raise ToolError("unreachable")


class Word(BaseModel):
    word: str

    @field_validator("word")
    @classmethod
    def be_secret(cls, word: str) -> str:
        if word != "sesame":
            raise ValueError("wrong word")
        return word


class ExampleWord(Word):
    word: str = Field(examples=["sesame"])


class Unguessable(Sound):
    """No generated input is accepted, and nothing says which one is."""

    oracle = None  # type: ignore[assignment]

    @tool
    def step(self, params: Word) -> ToolOutput:
        """Open the door."""
        return told("It is open.", 1.0, finished=True)

    def exploits(self) -> Mapping[str, Calls]:
        return {"a guess": [("step", {"word": "please"})]}


class OddSessionTools(Sound):
    """Lists tools of its own for each task."""

    def list_task_tools(self) -> ListToolsOutput:
        union = {"anyOf": [Step.model_json_schema(), Number.model_json_schema()]}
        odd = ToolSpec(name="gehe weiter", description="", input_schema=union)
        guess = {
            "anyOf": [{"type": "integer"}, {"$ref": "#/$defs/Word"}],
            "$defs": {"Word": {"type": "string"}},
        }
        lost = {
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/X"}},
            "required": ["a", "a"],
        }
        others = {"count": {"type": "array"}, "guess": guess, "lost": lost}
        return ListToolsOutput(
            tools=[
                odd,
                *(
                    ToolSpec(name=name, description="-", input_schema=others[name])
                    for name in others
                ),
            ]
        )


class StepOrNumber(RootModel[Step | Number]):
    """A root that is a union."""


class OddTaskTool(Sound):
    """Has a tool that only sessions list."""

    @tool(shared=False)
    def größe(self, params: StepOrNumber) -> ToolOutput:
        """Tell the size."""
        return told("3")


class Unmarked(Sound):
    @tool
    def forgotten(self, params: Step):  # type: ignore[no-untyped-def]
        """Lacks what it returns."""
        return told("never")


# --- sessions -------------------------------------------------------------------------------------


class Random(Sound):
    @tool
    def step(self, params: Step) -> ToolOutput:
        """Land somewhere."""
        return told(f"Place {random.SystemRandom().random()}.")


class SavesAtRandom(Saved, Random):
    """Saved, but no snapshot holds where its steps land."""


class Shared(Sound):
    """Keeps the place on the class; played one by one nobody notices."""

    shared: ClassVar[int] = 0

    def __init__(self, task_spec: JSONObject = {}, secrets: dict[str, str] = {}) -> None:
        super().__init__(task_spec, secrets)
        type(self).shared = 0

    @tool
    async def step(self, params: Step) -> ToolOutput:
        """Go on."""
        type(self).shared += 1
        await asyncio.sleep(0)
        return told(f"You are at {self.shared}.")


class SharedUnguessable(Shared):
    """Its state can only be seen with the word."""

    oracle = None  # type: ignore[assignment]

    @tool
    async def step(self, params: Word) -> ToolOutput:
        """Go on."""
        return await Shared.step(self, Step(direction="north"))


class SharedWithOracle(SharedUnguessable):
    def oracle(self) -> Calls:  # type: ignore[override]
        return [("step", {"word": "sesame"})] * 3


class SharedWithExamples(SharedUnguessable):
    @tool
    async def step(self, params: ExampleWord) -> ToolOutput:
        """Go on."""
        return await Shared.step(self, Step(direction="north"))


class Teardown(Sound):
    """Tears down what only setup makes, and only once."""

    def setup(self) -> None:
        self.lock: Any = threading.Lock()

    def teardown(self) -> None:
        self.lock.acquire(blocking=False)
        del self.lock


class BadTeardown(Sound):
    def teardown(self) -> None:
        raise RuntimeError("the door is stuck")


class Leaving(Sound):
    """Forgets the program that it starts."""

    def setup(self) -> None:
        subprocess.Popen(["sleep", "600"])


class LeavingThread(Sound):
    """Forgets the thread that it starts."""

    def setup(self) -> None:
        threading.Thread(target=threading.Event().wait, name="watcher", daemon=True).start()


class Blocking(Sound):
    @tool
    async def step(self, params: Step) -> ToolOutput:
        """Think for long without awaiting."""
        time.sleep(0.3)  # noqa: ASYNC251
        return told("Done.", 1.0, finished=True)


class SelfCancelling(Sound):
    @tool
    async def step(self, params: Step) -> ToolOutput:
        """Give oneself up."""
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(1)
        return told("Done.")


# --- that hang, for processes of their own --------------------------------------------------------


class HangingTools(Sound):
    """Leaves threads behind, one of them in an executor for which Python waits at its exit."""

    @tool
    def wait(self) -> ToolOutput:
        """Wait for ever in a thread."""
        threading.Event().wait()
        return told("never")

    @tool
    async def rest(self) -> ToolOutput:
        """Wait for ever in the default executor."""
        await asyncio.get_running_loop().run_in_executor(None, threading.Event().wait)
        return told("never")


class Exiting(Sound):
    @tool
    def step(self, params: Step) -> ToolOutput:
        """End the process."""
        os._exit(3)


class HangingConstructor(Sound):
    def __init__(self, task_spec: JSONObject = {}, secrets: dict[str, str] = {}) -> None:
        super().__init__(task_spec, secrets)
        threading.Event().wait()


class HoldingLoop(Sound):
    @tool
    async def step(self, params: Step) -> ToolOutput:
        """Block the loop for ever."""
        threading.Event().wait()
        return told("never")


class HoldingPython(Sound):
    """Shortens the time after which its process ends."""

    @classmethod
    def list_splits(cls) -> Sequence[Split | str]:
        loop_watch.STUCK_SECONDS = 1
        return super().list_splits()

    @tool
    def hold(self) -> ToolOutput:
        """Sleep in C code that lets no other thread run."""
        ctypes.PyDLL(None).sleep(600)
        return told("never")


# --- trials ---------------------------------------------------------------------------------------


class Underpaid(Sound):
    """The oracle is async and a generator too."""

    @tool
    def step(self, params: Step) -> ToolOutput:
        return told("You are out.", 0.5, finished=True)

    async def oracle(self) -> AsyncIterator[tuple[str, JSONObject]]:  # type: ignore[override]
        await asyncio.sleep(0)
        yield "step", {"direction": "north", "times": 2}


class Overdone(Sound):
    """Each step towards the exit is paid, so the return exceeds the range; the oracle is awaited."""

    @tool
    def step(self, params: Step) -> ToolOutput:
        self.place += 1
        return told(f"You are at place {self.place}.", 1.0, finished=self.place >= 5)

    async def oracle(self) -> Calls:
        return [("step", {"direction": "north"})] * 5


class Unplayable(Sound):
    def oracle(self) -> Calls:  # type: ignore[override]
        return [("jump", {})]


class NotCalls(Sound):
    def oracle(self) -> Any:
        return ["step"]


class PaysGivingUp(Sound):
    @tool
    def give_up(self) -> ToolOutput:
        """End here."""
        return told("You gave up.", 0.2, finished=True)


class PaysWaiting(Sound):
    @tool
    def wait(self) -> ToolOutput:
        """Do nothing for a while."""
        return told("Some time passes.", 0.1)


class PaysSilence(Sound):
    @tool
    @terminal
    def finish(self, params: Loose) -> ToolOutput:
        """Take the final message."""
        return told("Thank you.", 0.3, finished=True)


class Hackable(Sound):
    """Coming closer is paid and going away costs nothing."""

    @tool
    def step(self, params: Step) -> ToolOutput:
        return told("A step.", 0.25 if params.direction == "north" else 0.0)


class Penalised(Sound):
    """Its range starts below 0, and doing nothing returns 0."""

    reward_range: ClassVar[tuple[float, float]] = (-1.0, 1.0)
