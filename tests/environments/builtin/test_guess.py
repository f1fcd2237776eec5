"""The guess environment: hints, attempts and shaped rewards."""

from typing import Any

import pytest

from environments import ToolError, ToolOutput
from environments.authoring.hosted_class import HostedClass
from environments.builtin.guess import COUNTS, Guess, Number
from tests.rows import each


def game(**changes: Any) -> Guess:
    return Guess({"low": 1, "high": 100, "target": 37, "attempts": 7, "hint": False, **changes})


def said(output: ToolOutput) -> str:
    [block] = output.blocks
    return str(getattr(block, "text", ""))


async def play(episode: Guess, *numbers: int) -> list[ToolOutput]:
    return [await episode.guess(Number(number=number)) for number in numbers]


async def bisect(episode: Guess) -> list[ToolOutput]:
    """Guess the middle of what remains until the end."""
    outputs: list[ToolOutput] = []
    while not (outputs and outputs[-1].finished):
        outputs += await play(episode, (episode.low + episode.high) // 2)
    return outputs


def returned(outputs: list[ToolOutput]) -> float:
    return sum(output.reward or 0.0 for output in outputs)


def test_it_can_be_hosted_with_its_task_specific_tool() -> None:
    hosted = HostedClass(Guess)
    assert hosted.name == "guess"
    assert [spec.name for spec in hosted.class_tools.tools] == ["guess"]
    assert [spec.name for spec in hosted.tools.task_specific] == ["hint"]


@pytest.mark.parametrize(("split", "count"), COUNTS.items())
def test_it_lists_the_same_games_every_time(split: str, count: int) -> None:
    assert len(Guess.list_tasks(split)) == count
    assert Guess.list_tasks(split) == Guess.list_tasks(split)


def test_it_has_no_game_in_two_splits() -> None:
    games = {
        split: {(task["low"], task["high"], task["target"]) for task in Guess.list_tasks(split)}
        for split in COUNTS
    }
    assert not games["train"] & games["validation"]
    assert not games["train"] & games["test"]
    assert not games["validation"] & games["test"]


@pytest.mark.parametrize("split", COUNTS)
async def test_it_sets_games_that_halving_wins(split: str) -> None:
    for task in Guess.list_tasks(split):
        episode = Guess(task)
        outputs = [await episode.hint()] if task["hint"] else []
        outputs += await bisect(episode)
        assert returned(outputs) == pytest.approx(0.8 if task["hint"] else 1.0), task


async def test_it_says_higher_or_lower_and_counts_down() -> None:
    low, high = await play(game(), 10, 90)
    assert said(low) == "The number is higher than 10. Attempts left: 6."
    assert said(high) == "The number is lower than 90. Attempts left: 5."


async def test_it_pays_half_of_the_share_that_a_miss_rules_out() -> None:
    first, second = await play(game(), 10, 90)
    assert (first.reward, second.reward) == pytest.approx((0.05, 0.055))


async def test_it_pays_nothing_for_what_was_ruled_out_before() -> None:
    _, again, below = await play(game(), 20, 20, 5)
    assert (again.reward, below.reward) == (0.0, 0.0)


@each("misses", [[], [50], [50, 25, 31], [36, 38], [1, 2, 3]])
async def test_it_pays_one_in_all_for_finding_the_number(misses: list[int]) -> None:
    outputs = await play(game(), *misses, 37)
    assert returned(outputs) == 1.0
    assert [output.finished for output in outputs] == [False] * len(misses) + [True]


async def test_it_ends_without_success_when_attempts_run_out() -> None:
    outputs = await play(game(attempts=2), 36, 38)
    assert said(outputs[-1]).endswith("No attempt is left; it was 37.")
    assert [output.finished for output in outputs] == [False, True]
    assert 0 < returned(outputs) < Guess.success_threshold


@pytest.mark.parametrize("number", [0, 101, -(10**30)])
async def test_it_refuses_a_guess_out_of_range_without_taking_an_attempt(number: int) -> None:
    episode = game(attempts=1)
    with pytest.raises(ToolError, match="guess a whole number from 1 to 100"):
        await episode.guess(Number(number=number))
    assert (await play(episode, 37))[0].reward == 1.0


# --- the hint -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("allowed", "names"), [(True, ["hint"]), (False, [])])
def test_it_offers_the_hint_where_the_task_allows_it(allowed: bool, names: list[str]) -> None:
    assert [spec.name for spec in game(hint=allowed).list_task_tools().tools] == names


async def test_it_halves_what_remains_at_a_price() -> None:
    episode = game(hint=True)
    await play(episode, 20)
    output = await episode.hint()
    assert (said(output), output.reward, output.finished) == (
        "The number is from 21 to 60.",
        -0.2,
        False,
    )


async def test_it_pays_less_for_a_number_found_with_a_hint() -> None:
    episode = game(hint=True)
    assert returned([await episode.hint(), *await play(episode, 25, 37)]) == pytest.approx(0.8)


async def test_it_gives_the_hint_once() -> None:
    episode = game(hint=True)
    await episode.hint()
    with pytest.raises(ToolError, match="given already"):
        await episode.hint()


async def test_it_refuses_the_hint_where_the_task_has_none() -> None:
    with pytest.raises(ToolError, match="no hint"):
        await game().hint()


@pytest.mark.parametrize("mentioned", [True, False])
def test_it_states_the_range_and_mentions_the_hint_where_there_is_one(mentioned: bool) -> None:
    [block] = game(hint=mentioned).get_prompt()  # type: ignore[misc]
    assert "from 1 to 100" in block.text and "7 attempts" in block.text
    assert ("hint" in block.text) is mentioned
    assert "37" not in block.text
