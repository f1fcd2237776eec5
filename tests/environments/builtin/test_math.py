"""The math environment: its tasks, its reading of answers, its reward."""

import hashlib
import json
import random
from fractions import Fraction
from typing import Any

import pytest
from pydantic import ValidationError

from environments import ToolError
from environments.authoring.hosted_class import HostedClass
from environments.builtin.math import COUNTS, PROBLEMS, Math, Submission, is_close, read_number
from tests.rows import each

TASK = {"question": "How many?", "answer": 42}


async def submit(answer: Any, expected: float = 42) -> tuple[float | None, bool]:
    output = await Math({**TASK, "answer": expected}).submit(Submission(answer=answer))
    return output.reward, output.finished


def test_it_can_be_hosted() -> None:
    hosted = HostedClass(Math)
    assert (hosted.name, [spec.name for spec in hosted.class_tools.tools]) == ("math", ["submit"])


@pytest.mark.parametrize(("split", "count"), COUNTS.items())
def test_it_lists_as_many_different_tasks_as_it_says(split: str, count: int) -> None:
    questions = {task["question"] for task in Math.list_tasks(split)}
    assert len(questions) == len(Math.list_tasks(split)) == count


def test_it_has_no_question_in_two_splits() -> None:
    questions = [task["question"] for split in COUNTS for task in Math.list_tasks(split)]
    assert len(questions) == len(set(questions))


def test_it_lists_the_same_tasks_whatever_the_global_generator_does() -> None:
    before = Math.list_tasks("test")
    random.seed(0)
    state = random.getstate()
    assert Math.list_tasks("test") == before
    assert random.getstate() == state


@pytest.mark.parametrize(
    ("split", "digest"),
    [
        ("train", "ec2b647910487726"),
        ("validation", "dc3bf736a6d91893"),
        ("test", "885ff167bc832995"),
    ],
)
def test_it_keeps_the_tasks_it_always_had(split: str, digest: str) -> None:
    """Recorded episodes refer to tasks by content: change PROBLEMS on purpose only, and this test
    with it."""
    text = json.dumps(Math.list_tasks(split))
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == digest


def test_it_shows_every_kind_of_problem_in_every_split() -> None:
    topics = {split: {task["topic"] for task in Math.list_tasks(split)} for split in COUNTS}
    assert len(PROBLEMS) >= 12
    assert [len(found) for found in topics.values()] == [len(PROBLEMS)] * 3


@pytest.mark.parametrize("split", COUNTS)
def test_it_states_tasks_that_survive_json_and_their_own_grading(split: str) -> None:
    for task in Math.list_tasks(split):
        assert json.loads(json.dumps(task)) == task
        assert is_close(read_number(f"{task['answer']:,}"), task["answer"]), task


@each(
    ("text", "value"),
    [
        ("42", 42),
        (" 42.0\n", 42),
        ("+42", 42),
        ("-7", -7),
        ("\u22127", -7),
        ("1,234", 1234),
        ("1,234,567.5", Fraction(2469135, 2)),
        ("$7.50", Fraction(15, 2)),
        ("-$7.50", Fraction(-15, 2)),
        ("7.50 \u20ac", Fraction(15, 2)),
        ("3/4", Fraction(3, 4)),
        ("-3 / 4", Fraction(-3, 4)),
        ("1 3/4", Fraction(7, 4)),
        (".5", Fraction(1, 2)),
        ("5.", 5),
        ("30 %", 30),
        ("42 apples", 42),
        ("60 km/h", 60),
        ("12 dollars.", 12),
    ],
)
def test_it_reads_one_number_from_text(text: str, value: Fraction) -> None:
    assert read_number(text) == value


@each(
    "text",
    [
        "",
        " ",
        "many",
        "x = 42",
        "42 or 43",
        "4 2",
        "1,5",
        "12,34",
        "1,2345",
        "1/0",
        "1/2/3",
        "0x1F",
        "1e5",
        "--1",
        "\u0664\u0662",
    ],
)
def test_it_refuses_text_without_exactly_one_number(text: str) -> None:
    with pytest.raises(ToolError, match="is not one number; submit a number or its text"):
        read_number(text)


@each("answer", [42, 42.0, "42", "42.00", "$42", "84/2", 41.9999999999])
async def test_it_pays_a_right_answer_and_ends(answer: Any) -> None:
    assert await submit(answer) == (1.0, True)


@each("answer", [41, 42.01, "-42", "41.99", 1e300])
async def test_it_pays_nothing_for_a_wrong_answer_and_ends(answer: Any) -> None:
    assert await submit(answer) == (0.0, True)


@each(
    ("answer", "reward"),
    [
        (33.33, 1),
        ("33.333", 1),
        ("100/3", 1),
        ("33.335", 1),
        ("33.325", 1),
        (33.34, 0),
        (33.32, 0),
        (33, 0),
    ],
)
async def test_it_takes_a_decimal_answer_to_half_a_hundredth(answer: Any, reward: float) -> None:
    assert await submit(answer, expected=33.33) == (reward, True)


async def test_it_lets_the_agent_correct_an_unreadable_answer() -> None:
    episode = Math(TASK)
    with pytest.raises(ToolError):
        await episode.submit(Submission(answer="forty-two"))
    assert (await episode.submit(Submission(answer="42"))).reward == 1.0


@each("answer", [None, True, [42], {"n": 42}, float("nan"), float("inf"), "4" * 101])
def test_it_refuses_an_answer_of_another_type(answer: Any) -> None:
    with pytest.raises(ValidationError):
        Submission(answer=answer)


def test_it_asks_the_question_without_the_answer() -> None:
    [block] = Math(TASK).get_prompt()  # type: ignore[misc]
    assert "How many?" in block.text and "submit" in block.text
    assert "42" not in block.text


@each("text", ["-" + " " * 100_000 + "x", "1" * 5_000, "1 " * 10_000])
def test_a_text_that_is_too_long_for_a_number_is_refused_at_once(text: str) -> None:
    with pytest.raises(ToolError, match="is not one number"):
        read_number(text)
