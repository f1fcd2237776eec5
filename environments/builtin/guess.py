"""guess: find a hidden whole number in a range, in as few attempts as halving the range takes.

Actions: `guess` with `number`; in tasks that allow it also `hint`, once, which halves what remains.
Observations: the range and the number of attempts as text; after each guess, whether the number is
higher or lower. Rewards: a miss earns half of the share of the range that it rules out, so misses
together stay below 0.5. Finding the number pays what is missing to 1.0. A hint costs 0.2. So an
episode returns 1.0 when the number was found, 0.8 when it was found with a hint, and less than 0.5
otherwise.
End: the number was found, or no attempt is left.
Splits: train (500), validation (50), test (100); no game is in two of them.
Origin: an old game, written for this server as an example of several steps, shaped rewards and a
task-specific tool.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from environments import (
    Blocks,
    Calls,
    Environment,
    JSONObject,
    ListToolsOutput,
    Split,
    TextBlock,
    ToolError,
    ToolOutput,
    ToolSpec,
    tool,
)

COUNTS = {"train": 500, "validation": 50, "test": 100}
SIZES = [10, 30, 100, 300, 1000, 10_000]
HINT_COST = 0.2


class Number(BaseModel):
    number: int


class Task(BaseModel):
    """A number to find."""

    model_config = ConfigDict(extra="allow", strict=True)

    low: int
    high: int
    target: int = Field(description="The hidden number, from low to high")
    attempts: int = Field(ge=1)
    hint: bool = Field(default=False, description="Whether the tool `hint` is there")
    seed: str = Field(default="", description="Split and index of a generated task")

    @model_validator(mode="after")
    def _target_is_in_range(self) -> Task:
        if not self.low <= self.target <= self.high:
            raise ValueError(
                f"target is {self.target}; it has to be from low, {self.low}, to high, {self.high}"
            )
        return self


class Guess(Environment):
    """Find a hidden whole number: every guess is answered with "higher" or "lower".

    Tools: `guess` with `number`; `hint`, in tasks whose spec has `"hint": true`, says once in which half of the
    remaining range the number is. Rewards are shaped: a miss earns half of the share of the range that it rules out,
    finding the number pays the rest up to 1.0, a hint costs 0.2.
    Task: `low`, `high`, `target`, `attempts`, `hint`, `seed`.
    """

    replayable: ClassVar[bool] = True
    fixed_tasks: ClassVar[bool] = True
    hidden_fields: ClassVar[Sequence[str]] = ("target",)
    reward_range: ClassVar[tuple[float, float]] = (-HINT_COST, 1.0)
    success_threshold: ClassVar[float] = 0.5
    task_schema: ClassVar[Any] = Task

    def __init__(self, task_spec: JSONObject = {}, secrets: dict[str, str] = {}) -> None:
        super().__init__(task_spec, secrets)
        self.low, self.high = int(task_spec["low"]), int(task_spec["high"])
        self.attempts_left = int(task_spec["attempts"])
        self.earned = 0.0
        self.is_hinted = False

    @classmethod
    def name(cls) -> str:
        return "guess"

    @classmethod
    def list_splits(cls) -> Sequence[Split | str]:
        return list(COUNTS)

    @classmethod
    def list_tasks(cls, split: str) -> Sequence[JSONObject]:
        return [_task(split, index) for index in range(COUNTS[split])]

    def get_prompt(self) -> Blocks:
        low, high, attempts = (self.task_spec[key] for key in ("low", "high", "attempts"))
        hint = " The tool `hint` helps once, at a price." if self.task_spec.get("hint") else ""
        text = (
            f"I am thinking of a whole number from {low} to {high}. Find it with the tool `guess`; "
            f"you have {attempts} "
            f"attempts, and after each I tell you whether the number is higher or lower.{hint}"
        )
        return [TextBlock(text=text)]

    def list_task_tools(self) -> ListToolsOutput:
        """Return the tool `hint` where the task allows it, else no tools."""
        spec = ToolSpec(
            name="hint", description=(self.hint.__doc__ or "").strip(), input_schema=None
        )
        return ListToolsOutput(tools=[spec] if self.task_spec.get("hint") else [])

    # Async without an await: such tools need no thread, and a guess and a hint never interleave.

    @tool
    async def guess(self, params: Number) -> ToolOutput:
        """Guess the number."""
        low, high, target = self.task_spec["low"], self.task_spec["high"], self.task_spec["target"]
        if not low <= params.number <= high:
            raise ToolError(
                f"{params.number} is out of range; guess a whole number from {low} to {high}."
            )
        self.attempts_left -= 1
        if params.number == target:
            return _output(f"Yes, {target} is the number.", 1.0 - self.earned, finished=True)
        reward = self._rule_out(params.number)
        where = "higher" if target > params.number else "lower"
        if not self.attempts_left:
            text = (
                f"The number is {where} than {params.number}. No attempt is left; it was {target}."
            )
            return _output(text, reward, finished=True)
        return _output(
            f"The number is {where} than {params.number}. Attempts left: {self.attempts_left}.",
            reward,
        )

    @tool(shared=False)
    async def hint(self) -> ToolOutput:
        """Learn in which half of the remaining range the number is. Works once and costs 0.2 of the reward."""
        if not self.task_spec.get("hint"):
            raise ToolError("This task has no hint; use guess.")
        if self.is_hinted:
            raise ToolError("The hint has been given already; use guess.")
        self.is_hinted = True
        middle = (self.low + self.high) // 2
        if self.task_spec["target"] <= middle:
            self.high = middle
        else:
            self.low = middle + 1
        return _output(f"The number is from {self.low} to {self.high}.", -HINT_COST)

    def oracle(self) -> Calls:
        return [("guess", {"number": self.task_spec["target"]})]

    def exploits(self) -> Mapping[str, Calls]:
        low, high = self.task_spec["low"], self.task_spec["high"]
        return {
            "numbers out of range": [
                ("guess", {"number": low - 1}),
                ("guess", {"number": high + 1}),
            ],
            "the hint again and again": [("hint", {})] * 3,
        }

    def _rule_out(self, number: int) -> float:
        """Rule out the numbers that a wrong `number` excludes. Return half of their share of the whole range."""
        before = self.high - self.low
        if self.task_spec["target"] > number:
            self.low = max(self.low, number + 1)
        else:
            self.high = min(self.high, number - 1)
        size: int = self.task_spec["high"] - self.task_spec["low"] + 1
        reward = (before - (self.high - self.low)) / size / 2
        self.earned += reward
        return reward


def _output(text: str, reward: float, *, finished: bool = False) -> ToolOutput:
    return ToolOutput(blocks=[TextBlock(text=text)], reward=reward, finished=finished)


def _task(split: str, index: int) -> dict[str, Any]:
    """Return the game at `index`, made by its own generator.

    `attempts` is the worst case of halving plus up to two, less one in tasks with a hint.
    """
    random = Random(f"guess/{split}/{index}")
    size = random.choice(SIZES)
    # the lowest number modulo three determines the split, so no game is in two of them
    low = random.randrange(1000) * len(COUNTS) + list(COUNTS).index(split)
    has_hint = random.random() < 0.3
    attempts = size.bit_length() + (-1 if has_hint else random.randint(0, 2))
    target = random.randint(low, low + size - 1)
    spec = {"low": low, "high": low + size - 1, "target": target, "attempts": attempts}
    return {**spec, "hint": has_hint, "seed": f"{split}/{index}"}
