"""The chart environment: its pictures, its windows, its questions, its reward."""

import base64
import hashlib
import io
import json
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import pytest
from PIL import Image
from pydantic import ValidationError

from environments import ToolError, ToolOutput
from environments.authoring.hosted_class import HostedClass
from environments.builtin.chart.canvas import HEIGHT, WIDTH
from environments.builtin.chart.chart import Chart, Reading, Window, reward_for
from environments.builtin.chart.picture import BOTTOM, COLOURS, LEFT, RIGHT, TOP, Axis
from environments.builtin.chart.tasks import COUNTS, KINDS
from tests.rows import each

WHOLE = {"x": 0, "y": 0, "width": WIDTH, "height": HEIGHT}


@cache
def tasks_of(split: str) -> list[dict[str, Any]]:
    return list(Chart.list_tasks(split))


def every_task() -> list[dict[str, Any]]:
    return [task for split in COUNTS for task in tasks_of(split)]


def bars(**changes: Any) -> Chart:
    task = {
        "kind": "bars",
        "title": "Loaves",
        "y_label": "Loaves sold",
        "categories": ["Mon", "Tue"],
        "series": [{"name": "Rye", "values": [50, 100]}],
        "question": "How many loaves at Mon?",
        "answer": 50,
        "precision": 2,
        "zooms": 2,
    }
    return Chart({**task, **changes})


def opened(block: Any) -> Image.Image:
    assert block.mimeType == "image/png"
    return Image.open(io.BytesIO(base64.b64decode(block.data))).convert("RGB")


def whole(chart: Chart) -> Image.Image:
    return opened(list(chart.get_prompt())[1])


def zoomed(chart: Chart, **window: int) -> ToolOutput:
    return chart.zoom(Window(**{**WHOLE, **window}))


# --- the tasks ------------------------------------------------------------------------------------


def test_it_can_be_hosted() -> None:
    hosted = HostedClass(Chart)
    assert (hosted.name, [spec.name for spec in hosted.class_tools.tools]) == (
        "chart",
        ["submit", "zoom"],
    )


@pytest.mark.parametrize(("split", "count"), COUNTS.items())
def test_it_lists_the_same_charts_every_time(split: str, count: int) -> None:
    assert len(tasks_of(split)) == count
    assert Chart.list_tasks(split) == tasks_of(split)
    assert json.loads(json.dumps(tasks_of(split))) == tasks_of(split)


def test_it_keeps_the_charts_it_always_had() -> None:
    """Recorded episodes refer to tasks by content: change the generator on purpose only, and this
    test with it."""
    assert hashlib.sha256(json.dumps(every_task()).encode()).hexdigest()[:16] == "028197957627a698"


def test_it_has_no_chart_twice() -> None:
    assert len({json.dumps(task["series"]) for task in every_task()}) == len(every_task())


def test_it_shows_every_kind_in_every_split() -> None:
    assert [sorted({task["kind"] for task in tasks}) for tasks in map(tasks_of, COUNTS)] == [
        sorted(KINDS)
    ] * 3


async def test_it_pays_the_full_reward_for_the_answer_of_every_task() -> None:
    for task in every_task():
        assert (await Chart(task).submit(Reading(value=task["answer"]))).reward == 1.0


def test_it_pays_nothing_for_a_blind_zero() -> None:
    for task in every_task():
        assert reward_for(abs(task["answer"]), task["answer"], task["precision"]) == 0, task


# --- pictures -------------------------------------------------------------------------------------


@each("kind", KINDS)
def test_it_draws_every_kind_of_chart_alike_each_time(kind: str) -> None:
    task = next(task for task in tasks_of("validation") if task["kind"] == kind)
    picture = whole(Chart(task))
    assert picture.size == (WIDTH, HEIGHT)
    assert picture.tobytes() == opened(zoomed(Chart(task)).blocks[1]).tobytes()
    assert near(picture, COLOURS[0]) > 200


def test_it_draws_alike_in_many_threads_at_once() -> None:
    tasks = tasks_of("validation")[: len(KINDS)] * 4
    with ThreadPoolExecutor(8) as pool:
        drawn = list(
            pool.map(lambda task: zoomed(Chart(task), x=60, width=400, height=300).blocks[1], tasks)
        )
    assert drawn == drawn[: len(KINDS)] * 4


def near(picture: Image.Image, colour: tuple[int, int, int]) -> int:
    """Return the number of pixels that have about that colour."""
    found: Any = picture.getcolors(WIDTH * HEIGHT)
    return sum(
        count
        for count, one in found
        if max(abs(a - b) for a, b in zip(one, colour, strict=True)) <= 4
    )


def test_it_draws_bars_as_high_as_their_values() -> None:
    picture = whole(bars())
    monday, tuesday = (LEFT + (RIGHT - LEFT) * share for share in (0.25, 0.75))
    assert column(picture, round(monday)) == pytest.approx((BOTTOM - TOP) * 0.5, abs=2)
    assert column(picture, round(tuesday)) == pytest.approx(BOTTOM - TOP, abs=2)


def column(picture: Image.Image, x: int) -> int:
    """Return the height of the bar at `x`, in pixels."""
    return near(picture.crop((x, TOP - 5, x + 1, BOTTOM)), COLOURS[0])


def test_it_enlarges_a_window() -> None:
    output = zoomed(bars(), x=100, y=100, width=300, height=100)
    assert opened(output.blocks[1]).size == (900, 300)
    assert output.blocks[0].text == "x 100 to 400, y 100 to 200, 3 times larger. Zooms left: 1."  # type: ignore[union-attr]


def test_it_enlarges_at_most_eight_times() -> None:
    assert opened(zoomed(bars(), width=40, height=40).blocks[1]).size == (320, 320)


@pytest.mark.parametrize(
    ("window", "reason"),
    [({"x": 1}, "x \\+ width is 901.*at most 900"), ({"y": 9}, "y \\+ height")],
)
def test_it_refuses_a_window_beyond_the_edge(window: dict[str, int], reason: str) -> None:
    chart = bars()
    with pytest.raises(ToolError, match=reason):
        zoomed(chart, **window)
    assert chart.zooms_left == 2


@each("window", [{"x": -1}, {"x": 900}, {"width": 39}, {"height": 0}, {"width": 10**9}])
def test_it_refuses_a_window_that_is_none(window: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        Window(**{**WHOLE, **window})


def test_it_zooms_as_often_as_the_task_allows() -> None:
    chart = bars(zooms=1)
    zoomed(chart)
    with pytest.raises(ToolError, match="All 1 zooms are used up; submit a value"):
        zoomed(chart)


def test_it_does_not_tell_the_answer_in_words() -> None:
    told = list(bars(answer=7777, series=[{"name": "Rye", "values": [7777, 8888]}]).get_prompt())
    assert "7777" not in told[0].text and "How many loaves" in told[0].text  # type: ignore[union-attr]


@each(
    ("values", "from_zero", "ends"),
    [
        ([3, 97], True, (0, 100, 20)),
        ([0.31, 0.94], True, (0, 1, 0.2)),
        ([-4], False, (-4, 0, 1)),
        ([52, 58], False, (52, 58, 1)),
        ([-9, 19], False, (-10, 20, 5)),
        ([5], False, (0, 5, 1)),
        ([0], True, (0, 1, 0.2)),
        ([150, 2400], True, (0, 2500, 500)),
    ],
)
def test_it_lays_axes_over_round_numbers(
    values: list[float], from_zero: bool, ends: tuple[float, ...]
) -> None:
    axis = Axis.over(values, from_zero=from_zero)
    assert (axis.low, axis.high, axis.step) == pytest.approx(ends)


# --- the reward -----------------------------------------------------------------------------------


@each(
    ("value", "reward"),
    [(50, 1.0), (52, 1.0), (48, 1.0), (54.5, 0.8), (45.5, 0.8), (62, 0.2), (64.5, 0.0), (-50, 0.0)],
)
async def test_it_pays_less_the_farther_off(value: float, reward: float) -> None:
    output = await bars().submit(Reading(value=value))
    assert output.reward == pytest.approx(reward)
    assert output.finished


async def test_it_measures_small_answers_by_the_precision() -> None:
    assert (await bars(answer=0).submit(Reading(value=4.5))).reward == pytest.approx(0.5)


async def test_it_tells_the_value_at_the_end() -> None:
    output = await bars().submit(Reading(value=54.5))
    assert output.blocks[0].text == "Off by 4.5. The value is 50."  # type: ignore[union-attr]


@each("value", [float("nan"), float("inf"), "many", None])
def test_it_takes_finite_numbers_only(value: Any) -> None:
    with pytest.raises(ValidationError):
        Reading(value=value)


# --- edited tasks ---------------------------------------------------------------------------------


@each(
    ("changes", "reason"),
    [
        ({"categories": ["Mon"]}, "series 'Rye' has 2 values for 1 categories"),
        ({"kind": "scatter"}, "series 'Rye' has no points"),
        ({"series": [{"name": "Rye", "values": [-1, 2]}]}, "shows no values below 0"),
        ({"kind": "pie", "series": [{"name": "Share", "values": [0, 0]}]}, "add up to more than 0"),
        ({"categories": [], "series": [{"name": "Rye"}]}, "needs at least one category"),
        ({"precision": 0}, "greater than 0"),
        ({"kind": "radar"}, "kind"),
    ],
)
def test_it_says_what_is_wrong_with_the_data(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        bars(**changes)


def test_it_draws_a_title_and_names_that_are_far_too_long() -> None:
    assert whole(bars(title="T" * 500, categories=["M" * 300, "T"])).size == (WIDTH, HEIGHT)
