"""math: word problems with one number for an answer, made by a seeded generator.

Actions: `submit` with `answer`, a number or its text. Only the first readable answer counts.
Observations: the question as text; then whether the answer was right.
Rewards: 1.0 for a right answer, 0.0 for a wrong one; either ends the episode. If a text contains no
number, or more than one, the agent gets an error and can try again.
Splits: train (1,000), validation (100), test (200); no question is in two of them. Difficulty 1
takes one or two
steps of arithmetic, 4 takes five or more.
Origin: written for this server. To add a problem, write a function like those below and list it in
`PROBLEMS`.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from random import Random
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from environments import (
    Blocks,
    Calls,
    Environment,
    JSONObject,
    Split,
    TextBlock,
    ToolError,
    ToolOutput,
    tool,
)

Number = int | float | Fraction
Problem = Callable[[Random], tuple[str, Number]]

COUNTS = {"train": 1000, "validation": 100, "test": 200}
WHOLE_TOLERANCE = Fraction(1, 1_000_000)
"""Tolerance for rounding errors of an agent's floating-point arithmetic."""
DECIMAL_TOLERANCE = Fraction(1, 200)
"""Half of the last decimal that the question asks for."""
NAMES = [
    "Ada",
    "Ben",
    "Chloe",
    "Dev",
    "Elif",
    "Femi",
    "Greta",
    "Hiro",
    "Ines",
    "Jonas",
    "Kemi",
    "Luca",
    "Mei",
    "Noor",
]


class Submission(BaseModel):
    """`answer`: a number, or text such as "42", "1,234", "$7.50", "3/4", "1 3/4", "-5", "30 %", "42 apples"."""

    answer: (
        Annotated[float, Field(strict=True, allow_inf_nan=False)]
        | Annotated[str, Field(max_length=100)]
    ) = Field(
        description='The final answer: a number or its text, such as 42, "1,234", "$7.50" or "3/4".'
    )


class Task(BaseModel):
    """A question with a number for an answer."""

    model_config = ConfigDict(extra="allow", strict=True)

    question: str = Field(min_length=1)
    answer: float | int = Field(
        allow_inf_nan=False, description="Whole: met to a millionth; else to half a hundredth"
    )
    topic: str = ""
    difficulty: int = Field(default=1, ge=1, le=4)
    seed: str = Field(default="", description="Split and index of a generated task")


class Math(Environment):
    """Word problems with a numeric answer: rates, percentages, ages, geometry, fractions, in one to many steps.

    The agent reads a question and calls `submit` once, with a number or its text. Reward 1.0 when it is right, else 0.
    A whole-number answer must be met to a millionth, any other to half a hundredth: 33.33, 33.333 and 100/3 are all
    right where two decimals were asked for. Task: `question`, `answer`, `topic`, `difficulty` (1 to 4), `seed`.
    """

    task_schema: ClassVar[Any] = Task
    replayable: ClassVar[bool] = True
    fixed_tasks: ClassVar[bool] = True
    hidden_fields: ClassVar[Sequence[str]] = ("answer",)

    @classmethod
    def name(cls) -> str:
        return "math"

    @classmethod
    def list_splits(cls) -> Sequence[Split | str]:
        return list(COUNTS)

    @classmethod
    def list_tasks(cls, split: str) -> Sequence[JSONObject]:
        questions: set[str] = set()
        return [_task(split, index, questions) for index in range(COUNTS[split])]

    def get_prompt(self) -> Blocks:
        how = (
            "Work it out, then call the tool `submit` with the final number. "
            "Where it is not whole, round it to two decimals. Only your first answer counts."
        )
        return [TextBlock(text=f"{self.task_spec['question']}\n\n{how}")]

    @tool
    async def submit(self, params: Submission) -> ToolOutput:
        """Submit the final answer. The first one that can be read ends the episode."""
        value = (
            read_number(params.answer)
            if isinstance(params.answer, str)
            else Fraction(params.answer)
        )
        is_right = is_close(value, self.task_spec["answer"])
        return ToolOutput(
            blocks=[TextBlock(text="Correct." if is_right else "Wrong.")],
            metadata={"expected": self.task_spec["answer"]},
            reward=1.0 if is_right else 0.0,
            finished=True,
        )

    def oracle(self) -> Calls:
        return [("submit", {"answer": self.task_spec["answer"]})]

    def exploits(self) -> Mapping[str, Calls]:
        return {
            "many numbers at once": [("submit", {"answer": " ".join(map(str, range(30)))})],
            "a number that equals all": [
                ("submit", {"answer": "nan"}),
                ("submit", {"answer": "inf"}),
            ],
        }


# --- answers --------------------------------------------------------------------------------------

_NUMBER = re.compile(
    r"""\s* (?P<sign>[-+\u2212]?) \s* [$€£]? \s*
    (?: (?: (?P<whole>[0-9]+) \s+ )? (?P<top>[0-9]+) \s* / \s* (?P<bottom>[0-9]+)
      | (?P<decimal> (?: [0-9]{1,3} (?: ,[0-9]{3} )+ | [0-9]+ ) (?: \.[0-9]* )? | \.[0-9]+ ) )
    \s* (?: [%°$€£] | [^\W\d_] \D* )? """,
    re.VERBOSE,
)


MAX_CHARACTERS = 100
"""Length of a number; the time for a text with many spaces grows with its square."""


def read_number(text: str) -> Fraction:
    """Return the one number in `text`; a sign of currency before it and a unit without digits after
    it are ignored.

    Raises: ToolError when there is no number, more than one, or a division by zero.
    """
    text = text.strip()
    match = _NUMBER.fullmatch(text) if len(text) <= MAX_CHARACTERS else None
    if match is None or (match["bottom"] and int(match["bottom"]) == 0):
        problem = f"{text[:MAX_CHARACTERS]!r} is not one number"
        raise ToolError(f"{problem}; submit a number or its text, such as 42, 1,234, $7.50 or 3/4.")
    if match["decimal"]:
        value = Fraction(match["decimal"].replace(",", ""))
    else:
        value = int(match["whole"] or 0) + Fraction(int(match["top"]), int(match["bottom"]))
    return value if match["sign"] in ("", "+") else -value


def is_close(value: Fraction, answer: int | float) -> bool:
    """Return whether `value` is right: to a millionth where a whole number is expected, else to
    half a hundredth."""
    exact = Fraction(str(answer))
    return abs(value - exact) <= (WHOLE_TOLERANCE if exact.denominator == 1 else DECIMAL_TOLERANCE)


# --- the generator --------------------------------------------------------------------------------


def _split_of(question: str) -> str:
    """Return the split of a question, which depends on its checksum alone, so that no question is
    in two splits."""
    place = zlib.crc32(question.encode()) % 13
    return "train" if place < 10 else "validation" if place == 10 else "test"


def _task(split: str, index: int, questions: set[str]) -> dict[str, Any]:
    """Return the task at `index`: the first question of its generator that is in the split and not
    in `questions`."""
    random = Random(f"math/{split}/{index}")
    while True:
        difficulty, problem = random.choice(PROBLEMS)
        question, value = problem(random)
        exact, cents = Fraction(value), round(Fraction(value), 2)
        # 77.998 would be shown as 78, and a whole number has to be answered exactly
        is_misleading = cents.denominator == 1 and exact != cents
        if _split_of(question) == split and question not in questions and not is_misleading:
            questions.add(question)
            answer = int(cents) if cents.denominator == 1 else float(cents)
            spec = {"question": question, "answer": answer, "topic": problem.__name__.strip("_")}
            return {**spec, "difficulty": difficulty, "seed": f"{split}/{index}"}


def _shopping(random: Random) -> tuple[str, Number]:
    who, thing, other = (
        random.choice(NAMES),
        *random.sample(["pens", "notebooks", "stickers", "rulers", "erasers"], 2),
    )
    many, more, price, dear = (
        random.randint(2, 9),
        random.randint(2, 9),
        random.randint(1, 8),
        random.randint(2, 15),
    )
    question = (
        f"{who} buys {many} {thing} at ${price} each and {more} {other} at ${dear} each. How many "
        "dollars is that?"
    )
    return question, many * price + more * dear


def _change(random: Random) -> tuple[str, Number]:
    who, cents, many = random.choice(NAMES), random.randint(35, 480), random.randint(2, 8)
    note = next(n for n in (5, 10, 20, 50) if n * 100 > cents * many)
    question = (
        f"A ticket costs ${cents / 100:.2f}. {who} buys {many} tickets and pays with a ${note} "
        f"note. How many dollars does {who} get back?"
    )
    return question, note - Fraction(cents * many, 100)


def _distance(random: Random) -> tuple[str, Number]:
    who, speed, minutes = (
        random.choice(NAMES),
        random.randint(8, 60),
        random.choice([15, 20, 30, 40, 45, 75, 90, 105]),
    )
    question = (
        f"{who} cycles at a steady {speed} km/h for {minutes} minutes. How many kilometres is that?"
    )
    return question, Fraction(speed * minutes, 60)


def _discount(random: Random) -> tuple[str, Number]:
    price, percent = random.randint(20, 400), random.choice([5, 10, 12, 15, 20, 25, 30, 35, 40])
    thing = random.choice(["coat", "lamp", "chair", "radio", "tent", "bicycle", "clock"])
    question = f"A {thing} at ${price} is reduced by {percent}%. How many dollars does it cost now?"
    return question, Fraction(price * (100 - percent), 100)


def _fence(random: Random) -> tuple[str, Number]:
    long, wide, price = random.randint(12, 60), random.randint(5, 40), random.randint(3, 19)
    question = (
        f"A rectangular garden is {long} m long and {wide} m wide. A fence around all of it costs "
        f"${price} per metre. How many dollars does the fence cost?"
    )
    return question, 2 * (long + wide) * price


def _fraction(random: Random) -> tuple[str, Number]:
    (top, bottom), (upper, lower) = (
        random.choice([(2, 5), (3, 8), (1, 4), (5, 6)]),
        random.choice([(1, 2), (2, 3)]),
    )
    total = bottom * lower * random.randint(3, 40)
    question = (
        f"Of the {total} pupils of a school, {top}/{bottom} play an instrument, and "
        f"{upper}/{lower} of those also sing. How many pupils play an instrument but do not sing?"
    )
    return question, total * Fraction(top, bottom) * (1 - Fraction(upper, lower))


def _average(random: Random) -> tuple[str, Number]:
    who, scores = random.choice(NAMES), [random.randint(55, 98) for _ in range(5)]
    others, mean = ", ".join(map(str, scores[:4])), sum(scores) / 5
    question = (
        f"{who} scored {others} in four tests. What score in the fifth makes the average of all "
        f"five {mean:g}?"
    )
    return question, scores[4]


def _ages(random: Random) -> tuple[str, Number]:
    young, old = random.sample(NAMES, 2)
    age, times, years = random.randint(4, 20), random.randint(2, 4), random.randint(2, 12)
    question = (
        f"{old} is {times} times as old as {young}. In {years} years their ages will add up to "
        f"{age * (times + 1) + 2 * years}. How old is {old} now?"
    )
    return question, age * times


def _meeting(random: Random) -> tuple[str, Number]:
    slow, fast, distance = (
        random.randint(40, 90),
        random.randint(60, 160),
        random.randint(10, 90) * 10,
    )
    question = (
        f"Two trains leave towns {distance} km apart at the same time and drive towards each "
        f"other, one at {slow} "
        f"km/h, the other at {fast} km/h. After how many minutes do they meet?"
    )
    return question, Fraction(60 * distance, slow + fast)


def _recipe(random: Random) -> tuple[str, Number]:
    who, grams, serves, guests = (
        random.choice(NAMES),
        random.randint(12, 90) * 10,
        random.randint(3, 8),
        random.randint(9, 30),
    )
    question = (
        f"A recipe for {serves} people takes {grams} g of flour at $1.80 per kilogram. {who} "
        f"cooks it for {guests} people. How many dollars does the flour cost?"
    )
    return question, Fraction(grams * guests, serves) * Fraction(180, 100_000)


def _together(random: Random) -> tuple[str, Number]:
    (first_name, second_name), first, second = (
        random.sample(NAMES, 2),
        random.randint(2, 12),
        random.randint(2, 12),
    )
    question = (
        f"{first_name} paints a room in {first} hours, {second_name} paints the same room in {second} hours. "
        f"How many hours do they need together?"
    )
    return question, Fraction(first * second, first + second)


def _mixture(random: Random) -> tuple[str, Number]:
    weak, strong = random.randint(5, 25), random.randint(30, 80)
    litres, more = random.randint(2, 12), random.randint(1, 9)
    question = (
        f"{litres} litres of a {weak}% salt solution are mixed with {more} litres of a {strong}% "
        "salt solution, and "
        f"then 1 litre of water is added. What is the percentage of salt in the mixture?"
    )
    return question, Fraction(litres * weak + more * strong, litres + more + 1)


def _tank(random: Random) -> tuple[str, Number]:
    fill, leak, volume = random.randint(20, 60), random.randint(3, 15), random.randint(20, 120) * 10
    share = random.choice([10, 20, 25, 40])
    question = (
        f"A tank of {volume} litres is {share}% full. A pipe adds {fill} litres a minute while a "
        f"leak loses {leak} litres a minute. After half of the missing water has been added the "
        "leak is closed. How many minutes does it take to fill the tank?"
    )
    missing = volume * Fraction(100 - share, 100)
    return question, missing / 2 / (fill - leak) + missing / 2 / fill


def _wages(random: Random) -> tuple[str, Number]:
    who, wage, hours, tax = (
        random.choice(NAMES),
        random.randint(12, 40),
        random.randint(41, 56),
        random.randint(8, 30),
    )
    rent = random.randint(10, 35)
    question = (
        f"{who} earns ${wage} an hour for the first 40 hours of a week and half as much again for "
        f"each further hour. This week {who} worked {hours} hours. {tax}% of the pay goes in "
        f"taxes, and {rent}% of the rest in rent. How many dollars are left?"
    )
    return question, (40 + (hours - 40) * Fraction(3, 2)) * wage * Fraction(
        100 - tax, 100
    ) * Fraction(100 - rent, 100)


def _savings(random: Random) -> tuple[str, Number]:
    who, start, rate, deposit = (
        random.choice(NAMES),
        random.randint(5, 90) * 100,
        random.randint(1, 8),
        random.randint(1, 9) * 100,
    )
    question = (
        f"{who} puts ${start} into an account that pays {rate}% interest at the end of every "
        f"year. At the beginning of the second and of the third year {who} adds ${deposit}. How "
        "many dollars are there after three years?"
    )
    growth = Fraction(100 + rate, 100)
    return question, ((start * growth + deposit) * growth + deposit) * growth


PROBLEMS: list[tuple[int, Problem]] = [
    (1, _shopping),
    (1, _change),
    (1, _distance),
    (2, _discount),
    (2, _fence),
    (2, _fraction),
    (2, _average),
    (2, _ages),
    (3, _meeting),
    (3, _recipe),
    (3, _together),
    (3, _mixture),
    (4, _tank),
    (4, _wages),
    (4, _savings),
]
"""Every kind of problem with its difficulty. Adding or removing one changes all tasks."""
