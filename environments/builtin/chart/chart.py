"""chart: read a value off a picture of a chart.

Actions: `zoom` into a part of the picture, as often as the task allows; `submit` with `value`,
once.
Observations: the question, and the chart as a picture; by `zoom` a part of it, drawn larger and as
crisp.
Rewards: by `submit` alone. 1.0 within the reading precision (half of a small tick for each reading
that the question takes); beyond it max(0, 1 - 4 * (error - precision) / scale), where scale is the
size of the answer, or ten times the precision where that is more. So an answer that is 25 % too
large pays nothing.
End: a value was submitted.
Splits: train (300), validation (50), test (100); no chart is in two of them.
Origin: written for this server, as an example of images in prompts and outputs and of a continuous
reward.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import ClassVar

from pydantic import BaseModel, Field

from environments import (
    Blocks,
    Calls,
    Environment,
    ImageBlock,
    JSONObject,
    Split,
    TextBlock,
    ToolError,
    ToolOutput,
    tool,
)
from environments.builtin.chart import tasks
from environments.builtin.chart.canvas import HEIGHT, WIDTH, Canvas
from environments.builtin.chart.picture import Data, draw

STEEPNESS = 4
MIN_WINDOW = 40
"""Minimum width and height of a window in pixels."""


class ChartTask(Data):
    """A chart and what to read off it."""

    question: str = Field(min_length=1)
    answer: float
    precision: float = Field(
        gt=0, description="Error up to which the full reward is paid, in the unit of the answer."
    )
    zooms: int = Field(default=tasks.ZOOMS, ge=0, description="How often the agent may zoom.")
    seed: str = Field(default="", description="Where the chart came from.")


class Window(BaseModel):
    x: int = Field(ge=0, lt=WIDTH, description="Left edge, in pixels of the whole picture.")
    y: int = Field(ge=0, lt=HEIGHT, description="Top edge, in pixels of the whole picture.")
    width: int = Field(ge=MIN_WINDOW, le=WIDTH)
    height: int = Field(ge=MIN_WINDOW, le=HEIGHT)


class Reading(BaseModel):
    value: float = Field(allow_inf_nan=False, description="What you read, in the unit of the axis.")


class Chart(Environment):
    """Read a value off a chart: bars, lines, stacked bars, scatter plots and pies, with axes, ticks and a legend.

    Tools: `zoom` shows a part of the picture larger; `submit` takes the value and ends the episode. The reward is
    continuous: 1 within the reading precision, less the farther off. Task: the data (`kind`, `title`, `x_label`,
    `y_label`, `categories`, `series`), `question`, `answer`, `precision`, `zooms`, `seed`.
    """

    task_schema: ClassVar[type[BaseModel]] = ChartTask
    replayable: ClassVar[bool] = True
    fixed_tasks: ClassVar[bool] = True
    hidden_fields: ClassVar[Sequence[str]] = ("series", "answer")
    default_return: ClassVar[str] = "sum"
    reward_range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    success_threshold: ClassVar[float] = 0.9

    def __init__(self, task_spec: JSONObject = {}, secrets: dict[str, str] = {}) -> None:
        """Raises: ValueError when the data does not fit the kind of chart."""
        super().__init__(task_spec, secrets)
        self.task = ChartTask.model_validate(task_spec)
        self.task.check()
        self.zooms_left = self.task.zooms

    @classmethod
    def name(cls) -> str:
        return "chart"

    @classmethod
    def list_splits(cls) -> Sequence[Split | str]:
        return list(tasks.COUNTS)

    @classmethod
    def list_tasks(cls, split: str) -> Sequence[JSONObject]:
        return [tasks.task(split, index) for index in range(tasks.COUNTS[split])]

    def get_prompt(self) -> Blocks:
        text = (
            f"{self.task.question}\n\nRead it off the chart below, a picture of {WIDTH} x "
            f"{HEIGHT} pixels, and call `submit` with the number. `zoom` shows a part of the "
            f"picture larger, up to {self.task.zooms} times. The closer your reading, the more it "
            "pays; only the first counts."
        )
        return [
            TextBlock(text=text),
            _whole(self.task.model_dump_json(include=set(Data.model_fields))),
        ]

    @tool
    def zoom(self, params: Window) -> ToolOutput:
        """See a part of the picture larger. x and y are its left and top edge in pixels from the top left corner."""
        if not self.zooms_left:
            raise ToolError(f"All {self.task.zooms} zooms are used up; submit a value.")
        for edge, size, name in (
            (params.x + params.width, WIDTH, "x + width"),
            (params.y + params.height, HEIGHT, "y + height"),
        ):
            if edge > size:
                raise ToolError(
                    f"{name} is {edge}, beyond the edge of the picture; make it at most {size}."
                )
        self.zooms_left -= 1
        canvas = Canvas(params.x, params.y, params.width, params.height)
        text = (
            f"x {params.x} to {params.x + params.width}, y {params.y} to "
            f"{params.y + params.height}, "
            f"{canvas.magnification:.3g} times larger. Zooms left: {self.zooms_left}."
        )
        return ToolOutput(blocks=[TextBlock(text=text), draw(self.task, canvas).png()], reward=0.0)

    @tool
    async def submit(self, params: Reading) -> ToolOutput:
        """Submit the value that you read; ends the episode."""
        error = abs(params.value - self.task.answer)
        reward = reward_for(error, self.task.answer, self.task.precision)
        how = "Right, to the precision of the picture." if reward == 1 else f"Off by {error:.4g}."
        return ToolOutput(
            blocks=[TextBlock(text=f"{how} The value is {self.task.answer:g}.")],
            metadata={"expected": self.task.answer, "error": error},
            reward=reward,
            finished=True,
        )

    def oracle(self) -> Calls:
        return [("submit", {"value": self.task.answer})]

    def exploits(self) -> Mapping[str, Calls]:
        return {
            "nothing was read": [("submit", {"value": 0.0})],
            "a huge number": [("submit", {"value": 1e300})],
        }


def reward_for(error: float, answer: float, precision: float) -> float:
    """Return 1.0 for an error up to `precision`, then linearly less, to 0.0 at a quarter of the
    answer beyond it."""
    scale = max(abs(answer), 10 * precision)
    return round(max(0.0, 1 - STEEPNESS * max(0.0, error - precision) / scale), 6)


@lru_cache(maxsize=128)
def _whole(data_json: str) -> ImageBlock:
    """Return the whole picture, cached because a group of agents requests it many times; 128 take
    about 4 MB."""
    return draw(Data.model_validate_json(data_json), Canvas()).png()
