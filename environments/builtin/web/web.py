"""web: reach a goal on a small web site, a shop with a search, a cart, forms, help pages and an
account.

Actions: `open` an address, `click` a link or button, `type` into a field, `back`, `read` the page
again; in tasks that ask a question also `answer`. Each takes a step but `read`; what the page does
not have is refused and takes none. Observations: the page as text, with numbered links, fields and
buttons.
Rewards: 0.5 in all for the milestones on the way, equal shares, each once; the goal pays what is
then missing to 1.0. So an episode returns 1.0 when the goal was reached, on any path, and at most
0.5 otherwise. A wrong answer pays nothing.
End: the goal was reached, an answer was given, or no step is left.
Splits: train (240), validation (50), test (100); each has sites of its own.
Origin: written for this server. The pages are made within the process from the number of the site;
no network is used.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar
from urllib.parse import urljoin, urlsplit

from pydantic import BaseModel, ConfigDict, Field

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
from environments.builtin.web import tasks
from environments.builtin.web.page import LEGEND, Link, Page
from environments.builtin.web.site import HOST, Site
from environments.builtin.web.visitor import calls_for
from environments.errors import shorten

MILESTONES_REWARD = 0.5


class WebTask(BaseModel):
    """A goal, and what has to happen for it."""

    goal: str = Field(min_length=1, description="What the agent has to do.")
    start_url: str = Field(
        default=f"{HOST}/", description="The page that is open at the beginning."
    )
    max_steps: int = Field(ge=1, description="Actions after which the episode ends.")
    site: int = Field(
        default=0,
        ge=0,
        description="Number of the site; each has things, prices and facts of its own.",
    )
    milestones: list[str] = Field(
        default=[],
        description='What has to happen, such as "opened /news" or "cart: 2 x Oak stool"; the last '
        "is the goal itself, "
        "unless there is an answer.",
    )
    answer: str = Field(
        default="", description="The answer that is the goal; empty: the last milestone is."
    )
    topic: str = Field(default="", description="Kind of the goal.")
    seed: str = Field(default="", description="Where the task came from.")


class Address(BaseModel):
    url: str = Field(
        max_length=2000, description="An address of the site, such as /shop.", examples=["/shop"]
    )


class Target(BaseModel):
    model_config = ConfigDict(coerce_numbers_to_str=True)

    target: str = Field(
        max_length=200, description="The number or the text of a link or button on the page."
    )


class Typing(BaseModel):
    model_config = ConfigDict(coerce_numbers_to_str=True)

    field: str = Field(
        max_length=200, description="The number or the label of a field on the page."
    )
    text: str = Field(
        max_length=2000, description="The new text of the field; it replaces what is there."
    )


class Answer(BaseModel):
    model_config = ConfigDict(coerce_numbers_to_str=True)

    text: str = Field(max_length=2000, description="The answer alone, such as a number or a name.")


class Web(Environment):
    """Reach a goal on a small web site: buy, look up, compare, write, change a profile.

    Tools: `open`, `click`, `type`, `back`, `read`, and `answer` where the goal is a question. Rewards are shaped:
    shares of 0.5 for milestones on the way, the rest for the goal.
    Task: `goal`, `start_url`, `max_steps`, `site`, `milestones`, `answer`, `topic`, `seed`.
    """

    task_schema: ClassVar[type[BaseModel]] = WebTask
    replayable: ClassVar[bool] = True
    fixed_tasks: ClassVar[bool] = True
    hidden_fields: ClassVar[Sequence[str]] = ("milestones", "answer")
    default_return: ClassVar[str] = "sum"
    reward_range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    success_threshold: ClassVar[float] = 0.9

    def __init__(self, task_spec: JSONObject = {}, secrets: dict[str, str] = {}) -> None:
        """Raises: ValueError for a task without a goal that can be checked, or that starts elsewhere."""
        super().__init__(task_spec, secrets)
        self.task = WebTask.model_validate(task_spec)
        if not self.task.milestones and not self.task.answer:
            raise ValueError(
                "The task has neither milestones nor an answer; give one, or no goal "
                "can be reached."
            )
        self.site = Site(self.task.site)
        self.steps_taken, self.earned, self.notice = 0, 0.0, ""
        self.reached: set[str] = set()
        self.history: list[str] = []
        self.typed: dict[str, str] = {}
        self.url = _within(self.task.start_url, HOST)
        self.page: Page = self.site.page(self.url)

    @classmethod
    def name(cls) -> str:
        return "web"

    @classmethod
    def list_splits(cls) -> Sequence[Split | str]:
        return list(tasks.COUNTS)

    @classmethod
    def list_tasks(cls, split: str) -> Sequence[JSONObject]:
        return [tasks.task(split, index) for index in range(tasks.COUNTS[split])]

    @classmethod
    def hand_controls(cls) -> JSONObject:
        links, buttons = (
            {"open": a, "close": b, "tool": "click", "argument": "target"} for a, b in ("[]", "<>")
        )
        fields = {"open": "{", "close": "}", "tool": "type", "argument": "field"}
        return {"drawing": "text", "marks": [links, buttons, fields]}

    def get_prompt(self) -> Blocks:
        how = (
            " When you know it, call `answer`; only your first answer counts."
            if self.task.answer
            else ""
        )
        text = (
            f"{self.task.goal}{how}\n\nYou have a browser with this page open, and "
            f"{self.task.max_steps} steps. Each "
            f"open, click, type, back{' and answer' if how else ''} takes one. {LEGEND}"
        )
        return [TextBlock(text=text), TextBlock(text=self.page.text(self.url, self.typed))]

    def list_task_tools(self) -> ListToolsOutput:
        """Return the tool `answer` where the goal is a question, else no tools."""
        description = (self.answer.__doc__ or "").strip()
        spec = ToolSpec(
            name="answer", description=description, input_schema=Answer.model_json_schema()
        )
        return ListToolsOutput(tools=[spec] if self.task.answer else [])

    # Async without an await: a page takes well under a millisecond, and actions never interleave.

    @tool
    async def open(self, params: Address) -> ToolOutput:
        """Open an address of the site. Links on a page are easier to click."""
        url = _within(params.url, self.url)
        self._go(url)
        return self._observation()

    @tool
    async def click(self, params: Target) -> ToolOutput:
        """Click a link or a button, by its number or its text."""
        control = self.page.clickable(params.target)
        if isinstance(control, Link):
            self._go(urljoin(self.url, control.url))
            return self._observation()
        values = {field.name: self.typed.get(field.name, field.value) for field in self.page.fields}
        result = self.site.submit(control.action, values)
        if isinstance(result, str):
            self.notice = result
        else:
            self._go(urljoin(self.url, result[0]))
            self.notice = result[1]
        return self._observation()

    @tool
    async def type(self, params: Typing) -> ToolOutput:
        """Fill in a field, by its number or its label. Replaces what it contained; nothing is sent before a click."""
        field = self.page.field(params.field)
        text = params.text.strip()
        if field.choices:
            matches = [choice for choice in field.choices if choice.casefold() == text.casefold()]
            if not matches:
                choices = ", ".join(field.choices)
                raise ToolError(
                    f"{field.label} cannot be {shorten(text, 80)!r}; choose one of: {choices}."
                )
            text = matches[0]
        self.typed[field.name] = text
        return self._observation()

    @tool
    async def back(self) -> ToolOutput:
        """Go back to the page before this one."""
        if not self.history:
            raise ToolError("There is no page before this one; click a link, or open an address.")
        before = self.history.pop()
        self._go(before)
        self.history.pop()
        return self._observation()

    @tool
    async def read(self) -> ToolOutput:
        """Read the page again. Takes no step."""
        return self._observation(steps=0)

    @tool(shared=False)
    async def answer(self, params: Answer) -> ToolOutput:
        """Answer the question of the goal. Only the first answer counts; it ends the episode."""
        if not self.task.answer:
            raise ToolError("This goal is not a question; do what it says on the site.")
        is_right = plain(params.text) == plain(self.task.answer)
        self.steps_taken += 1
        return ToolOutput(
            blocks=[TextBlock(text="Right." if is_right else "Wrong.")],
            metadata={"expected": self.task.answer},
            reward=round(1.0 - self.earned, 6) if is_right else 0.0,
            finished=True,
        )

    def oracle(self) -> Iterator[tuple[str, JSONObject]]:
        for milestone in self.task.milestones:
            yield from calls_for(milestone, self.task.site)
        if self.task.answer:
            yield "answer", {"text": self.task.answer}

    def exploits(self) -> Mapping[str, Calls]:
        return {
            "to and fro": [("open", {"url": "/"}), ("back", {})] * 2,
            "an answer without looking": [("answer", {"text": "yes, no, 7, 30, Sunday"})],
        }

    # --- what an action does ---

    def _go(self, url: str) -> None:
        self.history.append(self.url)
        self.url, self.typed, self.notice = url, {}, ""
        self.page = self.site.page(url)

    def _observation(self, steps: int = 1) -> ToolOutput:
        """Return the current page, rendered again after changes, and the reward for them."""
        self.steps_taken += steps
        self.page = self.site.page(self.url)
        reward, is_reached = self._reward()
        remaining = self.task.max_steps - self.steps_taken
        ending = f"Steps left: {remaining}." if remaining else "No step is left."
        if is_reached:
            ending = "The goal is reached."
        notice, self.notice = f"* {self.notice}\n\n" if self.notice else "", ""
        text = f"{notice}{self.page.text(self.url, self.typed)}\n\n{ending}"
        return ToolOutput(
            blocks=[TextBlock(text=text)], reward=reward, finished=is_reached or not remaining
        )

    def _reward(self) -> tuple[float, bool]:
        """Return the reward for newly reached milestones, and whether the goal is among them."""
        facts, milestones = self.site.facts(), self.task.milestones
        self.reached |= facts & set(milestones)
        is_reached = not self.task.answer and milestones[-1] in facts
        on_the_way = set(milestones if self.task.answer else milestones[:-1])
        due = (
            1.0
            if is_reached
            else MILESTONES_REWARD * len(self.reached & on_the_way) / max(1, len(on_the_way))
        )
        reward = round(due - self.earned, 6) + 0.0  # no -0.0
        self.earned += reward
        return reward, is_reached


def plain(text: str) -> str:
    """Return an answer without case, blanks and a final stop; a number also without its unit and
    zero decimals."""
    bare = re.sub(r"\s+", " ", text.strip().rstrip(".").casefold()).removeprefix("the ")
    number = re.fullmatch(
        r"\$? ?([0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.([0-9]+))? ?(?:[a-z]+)?", bare
    )
    if not number:
        return bare
    whole, decimals = number[1].replace(",", "").lstrip("0") or "0", (number[2] or "").rstrip("0")
    return f"{whole}.{decimals}" if decimals else whole


def _within(url: str, base: str) -> str:
    """Return the absolute `url` from the page `base`. Raises: ToolError for an invalid address or
    another site."""
    try:
        address = urlsplit(urljoin(base, url.strip()))
    except ValueError:  # such as an unclosed [ for an IPv6 host
        address = urlsplit("")
    if f"{address.scheme}://{address.netloc}" != HOST:
        raise ToolError(
            f"{shorten(url, 80)!r} is not on this site; open an address below {HOST}, "
            "such as /shop."
        )
    return f"{HOST}{address.path or '/'}{'?' if address.query else ''}{address.query}"
