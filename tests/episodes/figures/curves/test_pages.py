"""Tests of the page of curves: its chart, parameters and CSV file, and the episodes of a point."""

from __future__ import annotations

import csv
import io
import json
import re
from html import unescape
from typing import Any
from urllib.parse import urlencode

import pytest
from django.http import QueryDict
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from environments.models.viewer import UNRESTRICTED
from environments.scoring.convention import Convention
from episodes.figures import scopes
from episodes.figures.curves import curve_series
from episodes.figures.curves.curve_parameters import CurveQuery
from episodes.figures.curves.smoothing import averaged, smoothed
from episodes.models import Episode, EpisodeComponent, RewardComponent, Rollout, Run
from tests.episodes.ended import count_statistics, end_episode
from tests.episodes.reported import reported
from tests.rows import each
from tests.stored import NOW, make_environment, make_run, make_task

pytestmark = pytest.mark.django_db
CURVES = "/runs/curves/"


def chart(client: Client, query: str = "") -> dict[str, Any]:
    answer = client.get(f"{CURVES}?format=json&{query}")
    assert answer.status_code == 200
    [found] = answer.json()["charts"]
    return dict(found)


def test_it_draws_the_mean_return_of_an_environment(client: Client) -> None:
    for reward in (0.0, 1.0, 1.0):
        end_episode(reward)
    [series] = chart(client, "environment=math")["series"]
    assert [point["y"] for point in series["points"]] == [0.0, 1.0, 1.0]
    assert sum(point["n"] for point in series["points"]) == 3


@each(
    ("figure", "value"),
    [("return", 0.95), ("success", 1.0), ("length", 2.0), ("errors", 4.0), ("refused", 3.0)],
)
def test_each_figure_has_its_own_values(client: Client, figure: str, value: float) -> None:
    end_episode(0.95, failed_count=1, refused_count=3)
    [series] = chart(client, f"y={figure}")["series"]
    assert series["points"][0]["y"] == pytest.approx(value)


def test_several_figures_have_a_chart_each_over_the_same_part(client: Client) -> None:
    for _ in range(12):
        end_episode(0.5)
    query = "environment=math&y=return,success,length&from=4&to=9"
    charts = client.get(f"{CURVES}?format=json&{query}").json()["charts"]
    assert [one["figure"] for one in charts] == ["return", "success", "length"]
    assert {tuple(point["x"] for point in one["series"][0]["points"]) for one in charts} == {
        (4, 5, 6, 7, 8, 9)
    }
    page = unescape(client.get(f"{CURVES}?{query}").content.decode())
    assert page.count("<canvas data-chart") == 3
    for toggled in ("return,length", "return,success,length,components"):
        assert urlencode({"y": toggled}) in page


def test_another_threshold_makes_other_successes(client: Client) -> None:
    end_episode(0.95)
    [series] = chart(client, "y=success&threshold=0.99")["series"]
    assert series["points"][0]["y"] == 0


def test_another_definition_makes_other_returns(client: Client) -> None:
    end_episode(1.0, return_max=7.0)
    assert chart(client, "return=max")["series"][0]["points"][0]["y"] == 7.0
    assert chart(client)["unit"] == "return (sum)"


def test_probes_and_failures_are_counted_apart(client: Client) -> None:
    end_episode(1.0)
    end_episode(0.0, cause="env_error")
    end_episode(0.0, cause="abandoned", is_probe=True)
    page = client.get(CURVES).content.decode()
    assert (
        "1 infrastructure failure excluded" in page
        and "ending=failure" in page
        and "ending=probe" in page
    )
    assert sum(point["n"] for point in chart(client)["series"][0]["points"]) == 1


def test_those_without_a_training_step_are_counted_where_there_are_any(client: Client) -> None:
    end_episode(run=make_run(), run_step=1)
    page = f"{CURVES}?run=grpo-3&x=step"
    assert "training step;" not in client.get(page).content.decode()
    for note in ("1 episode names no training step;", "2 episodes name no training step;"):
        end_episode(run=make_run())
        assert note in client.get(page).content.decode()
    by_episode = f"{CURVES}?run=grpo-3&x=episode"
    assert "training step;" not in client.get(by_episode).content.decode()


def test_a_page_says_how_many_training_steps_a_point_averages(client: Client) -> None:
    for step in range(60):
        end_episode(run=make_run(), run_step=step)
    page = f"{CURVES}?run=grpo-3&x=step"
    said = "Each point averages up to 3 steps. Zoom in for detail."
    assert said in client.get(page).content.decode()
    assert "Each point averages" not in client.get(f"{page}&from=10&to=19").content.decode()


def test_a_point_of_several_steps_has_a_light_band_to_its_extremes(client: Client) -> None:
    for step in range(60):
        end_episode(50.0 if step == 31 else step % 2, run=make_run(), run_step=step)
    query = "run=grpo-3&x=step"
    found = chart(client, query)
    points = found["series"][0]["points"]
    assert {(point["min"], point["max"]) for point in points} == {(0, 1), (0, 50)}
    assert (
        found["extremes"]
        and "data-minmax checked" in client.get(CURVES + "?" + query).content.decode()
    )
    without = chart(client, f"{query}&minmax=no")
    assert not without["extremes"] and "max" not in without["series"][0]["points"][0]
    near = f"{query}&from=30&to=32"
    assert not chart(client, near)["extremes"] and chart(client, f"{near}&minmax=yes")["extremes"]
    assert not chart(client, f"{query}&y=success")["extremes"]
    rows = csv.DictReader(io.StringIO(client.get(f"{CURVES}?{query}&format=csv").content.decode()))
    assert max(float(row["highest"]) for row in rows) == 50.0
    data = client.get(f"{CURVES}?{query}&format=data").content.decode()
    assert max(float(row["max"]) for row in csv.DictReader(io.StringIO(data))) == 50.0


def test_the_light_band_of_a_group_reaches_to_its_runs(client: Client) -> None:
    found = chart(client, f"{sweep(3)}&x=step&group=lr&minmax=yes&band=no")
    point = found["series"][1]["points"][0]
    assert (point["min"], point["max"]) == pytest.approx((1.0, 1.2))
    assert point["low"] is None and "run of a group" in found["extremes"]


def test_runs_are_drawn_over_each_other(client: Client) -> None:
    for name in ("first", "second"):
        end_episode(run=make_run(name))
    assert [series["name"] for series in chart(client, "by=run")["series"]] == ["first", "second"]


def test_models_are_drawn_over_each_other(client: Client) -> None:
    for name in ("small", "large"):
        end_episode(model=name)
    assert {series["name"] for series in chart(client, "by=model")["series"]} == {"small", "large"}


def test_runs_are_drawn_in_the_order_of_the_address(client: Client) -> None:
    first, second = make_run("first"), make_run("second")
    for run in (first, second):
        end_episode(run=run)
    assert [s["name"] for s in chart(client, f"runs={second.pk},{first.pk}")["series"]] == [
        "second",
        "first",
    ]


def test_training_steps_are_an_axis(client: Client) -> None:
    for step in (10, 10, 20):
        end_episode(run=make_run(), run_step=step)
    points = chart(client, "run=grpo-3&x=step")["series"][0]["points"]
    assert [(point["x"], point["n"]) for point in points] == [(10, 2), (20, 1)]


def test_the_episodes_of_a_training_step_are_found_among_those_of_others(client: Client) -> None:
    runs = [make_run(name) for name in "ab"]
    for number in range(40):
        end_episode(run=runs[number % 2], run_step=number // 2 + 100 * (number % 2))
    [series] = chart(client, "environment=math&x=step")["series"]
    for point in series["points"]:
        query = f"{series['query']}&{urlencode(point['behind'])}"
        page = client.get(f"/episodes/?{query}").content.decode()
        assert len(re.findall(r"<tr data-episode=", page)) == point["attempts"] > 1


def test_the_episodes_of_a_point_are_those_it_counts(client: Client) -> None:
    for _ in range(40):
        end_episode(1.0)
    end_episode(0.0, cause="interrupted")
    [series] = chart(client, "environment=math")["series"]
    for point in series["points"]:
        query = f"{series['query']}&{urlencode(point['behind'])}&ending=attempt"
        page = client.get(f"/episodes/?{query}").content.decode()
        assert len(re.findall(r"<tr data-episode=", page)) == point["attempts"]


def test_a_mean_return_rests_on_the_attempts_that_have_one(client: Client) -> None:
    for reward in (1.0, None):
        end_episode(reward)
    points = chart(client, "return=max")["series"][0]["points"]
    assert (sum(point["n"] for point in points), sum(point["attempts"] for point in points)) == (
        1,
        2,
    )


def test_tokens_are_those_that_clients_reported_for_certain(client: Client) -> None:
    for place, joined in enumerate(("session", "calls", "guess", "")):
        episode = end_episode(1.0)
        if joined:
            reported(
                f"r-{place}",
                (),
                episode=episode,
                joined_by=joined,
                input_tokens=100,
                output_tokens=10 + place,
            )
    reported("newer", (), episode=episode_of("r-1"), joined_by="call", output_tokens=31)
    query = f"{CURVES}?environment=math&y=return,tokens"
    found = client.get(f"{query}&format=json").json()["charts"][1]
    assert found["unit"] == "output tokens of an episode"
    assert [point["y"] for point in found["series"][0]["points"]] == [10, 31, None, None]
    assert found["caption"][-1] == "tokens known for 2 of 4 attempts"
    assert "known for 2 of 4" in client.get(query).content.decode()
    rows = list(csv.DictReader(io.StringIO(client.get(f"{query}&format=csv").content.decode())))
    assert [(row["tokens_known"], row["input_tokens"]) for row in rows] == [
        ("1", "100.0"),
        ("1", ""),
        ("0", ""),
        ("0", ""),
    ]


def episode_of(rollout: str) -> Episode | None:
    return Rollout.objects.get(event_id=rollout).episode


def test_a_file_has_a_row_for_each_point(client: Client) -> None:
    end_episode(0.5, run=make_run("=HYPERLINK()"))
    answer = client.get(f"{CURVES}?by=run&format=csv")
    [row] = csv.DictReader(io.StringIO(answer.content.decode()))
    assert (row["series"], row["n"], row["mean"]) == ("'=HYPERLINK()", "1", "0.5")
    assert answer["Content-Disposition"] == 'attachment; filename="curve.csv"'
    assert answer["X-Success-Error"] == "0"


def test_a_part_of_it_is_shown(client: Client) -> None:
    for _ in range(30):
        end_episode()
    points = chart(client, "environment=math&from=10&to=19")["series"][0]["points"]
    assert (points[0]["x"], points[-1]["x"]) == (10, 19)


@each(
    ("query", "expected"),
    [
        ("x=epoch", "allowed are episode, time, step"),
        ("y=return,loss", "allowed are return, success, length"),
        ("by=color", "allowed are run, environment, model"),
        ("smooth=1", "a number from 0 to 0.99"),
        ("window=4", "an odd number from 1 to 99"),
        ("window=101", "an odd number from 1 to 99"),
        ("window=5&smooth=0.5", "leave out smooth=0.5"),
        ("runs=a", "there is no run a; it takes run numbers or names"),
        ("from=3&to=1", "swap the two"),
        ("colour=red", "no filter has that name"),
        ("threshold=nan", "it has to be a number"),
    ],
)
def test_an_invalid_parameter_is_refused_with_what_is_allowed(
    client: Client, query: str, expected: str
) -> None:
    answer = client.get(f"{CURVES}?{query}")
    assert answer.status_code == 400 and expected in answer.content.decode()


def test_a_logarithmic_scale_says_what_it_hides_and_has_nothing_without_a_positive_value(
    client: Client,
) -> None:
    positive = end_episode(1.0)
    address = f"{CURVES}?environment=math&log=yes"
    assert chart(client, "environment=math&log=yes")["log"] is True
    assert "Log scale" not in client.get(address).content.decode()
    end_episode(-1.0)
    hidden = "Log scale: 1 point of the return (sum) at or below 0 are hidden."
    assert hidden in client.get(address).content.decode()
    positive.delete()
    assert "No return (sum) is above 0, so its scale" in client.get(address).content.decode()
    assert chart(client, "environment=math&log=yes")["log"] is False


def test_hidden_and_highlighted_curves_are_in_the_address_by_the_number_of_their_run(
    client: Client,
) -> None:
    runs = [make_run(name) for name in ("a,b", "c")]
    for run in runs:
        end_episode(run=run)
    assert [line["key"] for line in chart(client, "by=run")["series"]] == [
        str(run.pk) for run in runs
    ]
    end_episode(model="a,b")
    assert chart(client, "by=model&model=a%2Cb")["series"][0]["key"] == "a b"
    query = f"hidden={runs[0].pk},x&highlight={runs[1].pk}"
    switches = dict(CurveQuery.parse(QueryDict(query), UNRESTRICTED).switches())
    assert switches == {"hidden": f"{runs[0].pk},x", "highlight": f"{runs[1].pk}"}


def test_an_unknown_name_is_reported_with_the_nearest(client: Client) -> None:
    make_environment("math")
    page = client.get(f"{CURVES}?environment=maths").content.decode()
    assert "No environment is named" in page and "&#x27;math&#x27;" in page


def test_a_part_of_a_runs_name_offers_the_runs_that_have_it(client: Client) -> None:
    first, second = (make_run(f"sweep-{seed}") for seed in (1, 2))
    make_run("other")
    page = client.get(f"{CURVES}?run=sweep&x=step").content.decode()
    assert f"?x=step&amp;runs={second.pk}%2C{first.pk}" in page and "Draw all 2" in page
    assert "?run=sweep-1&amp;x=step" in page and "?run=other" not in page
    assert "No data yet" not in page
    nearest = client.get(f"{CURVES}?run=othre").content.decode()
    assert "Draw this run" in nearest and "?run=other" in nearest


def test_an_empty_database_says_what_to_do(client: Client) -> None:
    assert "Load demo data" in client.get(CURVES).content.decode()


def test_its_data_cannot_leave_the_element_that_holds_it(client: Client) -> None:
    end_episode(model="</script><script>alert(1)</script>")
    page = client.get(f"{CURVES}?by=model").content.decode()
    held = re.search(r'<script id="curve-data" type="application/json">(.*?)</script>', page)
    assert (
        held and json.loads(held[1])[0]["series"][0]["name"] == "</script><script>alert(1)</script>"
    )


def test_the_number_of_queries_does_not_grow_with_the_episodes(
    client: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    task = make_task()
    for number in range(20):
        end_episode(run=make_run(f"run {number % 5}"), task=task)
    with django_assert_max_num_queries(50):
        client.get(f"{CURVES}?environment=math&by=run")


@pytest.mark.parametrize("strength", [0.0, 0.5, 0.9])
def test_smoothing_leaves_what_is_level_and_what_is_missing(strength: float) -> None:
    found = smoothed([2.0, None, 2.0, 2.0], strength)
    assert found[1] is None
    assert [value for value in found if value is not None] == pytest.approx([2.0, 2.0, 2.0])


def test_smoothing_weighs_earlier_values_less() -> None:
    assert smoothed([0.0, 1.0], 0.5) == [0.0, pytest.approx(2 / 3)]


def test_a_window_averages_what_is_around_a_point() -> None:
    assert averaged([0.0, 3.0, 0.0, None, 6.0], 3) == [0.0, 1.0, 1.5, None, 6.0]


@pytest.mark.parametrize(
    ("query", "expected"), [("window=3", [0, 1, 5 / 3, 2]), ("smooth=0.5", [0, 2, 6 / 7, 22 / 15])]
)
def test_the_raw_values_stay_with_the_smoothed_ones(
    client: Client, query: str, expected: list[float]
) -> None:
    for reward in (0.0, 3.0, 0.0, 2.0):
        end_episode(reward)
    found = chart(client, query)
    points = found["series"][0]["points"]
    assert [point["raw"] for point in points] == [0.0, 3.0, 0.0, 2.0] and found["isSmoothed"]
    assert [point["y"] for point in points] == pytest.approx(expected)
    assert any("Smoothing: " in note and "none" not in note for note in found["notes"])


def end_with_components(run: Run, values: dict[str, float]) -> None:
    episode = end_episode(1.0, run=run)
    for name, value in values.items():
        component, _ = RewardComponent.objects.get_or_create(
            environment_id=episode.environment_id, name=name
        )
        figures = dict.fromkeys(("value_sum", "value_last", "value_max", "value_mean"), value)
        EpisodeComponent.objects.create(episode=episode, component=component, **figures)


def test_components_of_rewards_are_curves_of_their_own(client: Client) -> None:
    end_with_components(make_run(), {"format": 1.0, "length": -0.5})
    found = chart(client, "y=components")["series"]
    assert {one["name"]: one["points"][0]["y"] for one in found} == {"format": 1.0, "length": -0.5}
    assert "Attempts that report it" in client.get(f"{CURVES}?y=components").content.decode()
    lines = client.get(f"{CURVES}?y=components&by=run&format=csv").content.decode().splitlines()
    assert sorted(lines[0].split(",")[-2:]) == ["component:format", "component:length"]


def test_it_is_said_that_only_some_attempts_report_a_component(client: Client) -> None:
    end_with_components(make_run(), {"format": 1.0})
    note = "A component&#x27;s mean is over the attempts that report it."
    assert note not in client.get(f"{CURVES}?y=components").content.decode()
    end_with_components(make_run(), {})
    page = client.get(f"{CURVES}?y=components").content.decode()
    assert note in page and '1 <span class="hint">of 2 · 50%</span>' in page
    found = chart(client, "y=components")
    points = found["series"][0]["points"]
    assert [(point["n"], point["attempts"]) for point in points] == [(1, 1), (0, 1)]
    assert found["isReported"]


def test_components_of_several_runs_have_the_colours_of_their_runs(client: Client) -> None:
    runs = [make_run(name) for name in ("one", "two")]
    for run in runs:
        end_with_components(run, {f"part {number}": 0.1 for number in range(8)})
    found = chart(client, f"y=components&runs={runs[0].pk},{runs[1].pk}")["series"]
    colours = [one["colour"] for one in chart(client, f"runs={runs[0].pk},{runs[1].pk}")["series"]]
    assert [(one["name"], one["colour"]) for one in found[6:10]] == [
        *(("one · part 6", colours[0]), ("one · part 7", colours[0])),
        *(("two · part 0", colours[1]), ("two · part 1", colours[1])),
    ]
    assert found[1]["dash"] == found[9]["dash"] != found[0]["dash"]
    page = client.get(f"{CURVES}?y=components&runs={runs[0].pk},{runs[1].pk}").content.decode()
    assert "The first 12 of 16 components are shown." in page


def test_without_components_it_says_how_to_report_them(client: Client) -> None:
    end_episode(1.0)
    assert "reward_components" in client.get(f"{CURVES}?y=components").content.decode()


def test_flat_groups_of_a_run_are_drawn_as_the_api_counts_them(client: Client) -> None:
    tasks, run = [make_task(), make_task()], make_run("grpo")
    for step, rewards in enumerate(([1.0, 1.0], [0.0, 1.0], [0.5, 0.5])):
        for task in tasks[: 1 + step % 2]:
            for reward in rewards:
                end_episode(reward, task=task, run=run, run_step=step)
    points = client.get("/api/curves?run=grpo&x=step").json()["points"]
    drawn = chart(client, "run=grpo&x=step&y=flat")
    assert [point["y"] for point in drawn["series"][0]["points"]] == [
        point["flat_share"] for point in points
    ]
    assert [point["n"] for point in drawn["series"][0]["points"]] == [1, 2, 1] and drawn["isShare"]
    page = client.get(f"{CURVES}?run=grpo&x=step&y=flat").content.decode()
    assert '2 <span class="hint">of 4</span>' in page
    assert ">Flat groups</a>" in client.get(f"/runs/{run.pk}/").content.decode()


@each(
    ("query", "notice"),
    [
        ("y=flat", "Groups are counted"),
        ("y=deviation", "Groups are counted"),
        ("y=tokens", "No client has reported"),
        ("y=components", "no components"),
    ],
)
def test_a_figure_without_values_has_a_notice_and_no_chart(
    client: Client, query: str, notice: str
) -> None:
    end_episode(1.0)
    page = client.get(f"{CURVES}?{query}").content.decode()
    assert notice in page and "<canvas" not in page and "data-png" not in page


def test_a_run_has_the_definition_of_its_environment_as_on_its_page(client: Client) -> None:
    guess = make_environment(
        "guess", convention=Convention(no_call="out").code, success_threshold=0.5
    )
    run = make_run()
    for cause, reward in (("finished", 0.8), ("no_call", 0.0)):
        task = make_task(environment=guess)
        end_episode(reward, environment=guess, task=task, run=run, cause=cause, model="small")
    of_run = f"/runs/{run.pk}/"
    compared = f"{CURVES}?runs={run.pk}"
    for address in (
        of_run,
        f"{CURVES}?run={run.name}",
        f"{CURVES}?run={run.name}&by=run",
        f"{compared},9",
        compared,
    ):
        page = client.get(address).content.decode()
        assert "1 no call excluded" in page and 'Success <span class="hint">&gt; 0.5' in page
    for query in (f"run={run.name}", f"run={run.name}&by=model", f"runs={run.pk}"):
        answer = client.get(f"{CURVES}?{query}&format=csv")
        [row, *_] = csv.DictReader(io.StringIO(answer.content.decode()))
        assert (row["mean"], row["success"]) == ("0.8", "1.0")
        assert "threshold=0.5; no_call=out" in answer["X-Definition"]


def test_counts_link_to_the_episodes_with_a_training_step(client: Client) -> None:
    for step in (3, 7, None, None):
        end_episode(run=make_run(), run_step=step, model="small")
    page = client.get(f"{CURVES}?by=model&x=step").content.decode()
    links = re.findall(r'<a href="(/episodes/\?[^"]*)">(\d+)</a>', page)
    assert [count for _, count in links] == ["2", "2"]
    for address, count in links:
        listed = client.get(unescape(address)).content.decode()
        assert len(re.findall(r"<tr data-episode=", listed)) == int(count)


@pytest.mark.parametrize(("query", "count"), [("from=4&to=9", 6), ("x=step&from=3&to=5", 3)])
def test_counts_of_a_zoomed_curve_link_to_the_part_that_is_shown(
    client: Client, query: str, count: int
) -> None:
    for step in range(12):
        end_episode(run=make_run(), run_step=step)
    page = client.get(f"{CURVES}?run={make_run().name}&{query}").content.decode()
    links = re.findall(r'<a href="(/episodes/\?[^"]*)">(\d+)</a>', page)
    assert [int(number) for _, number in links] == [count, count]
    for address, _ in links:
        assert (
            len(re.findall(r"<tr data-episode=", client.get(unescape(address)).content.decode()))
            == count
        )


def test_an_image_says_what_it_shows(client: Client) -> None:
    end_episode(run=make_run(), run_step=1)
    assert chart(client, "run=grpo-3&x=step&y=success")["caption"][0] == "Success rate of grpo-3"


def test_each_run_has_the_definition_of_its_own_environment(client: Client) -> None:
    for name, threshold in (("math", 0.9), ("guess", 0.5)):
        environment = make_environment(name, success_threshold=threshold)
        end_episode(
            0.7,
            environment=environment,
            task=make_task(environment=environment),
            run=make_run(f"of {name}"),
        )
    series = chart(client, "by=run&y=success")["series"]
    assert [(one["name"], one["points"][0]["y"]) for one in series] == [
        ("of math", 0.0),
        ("of guess", 1.0),
    ]
    ids = ",".join(str(make_run(f"of {name}").pk) for name in ("guess", "math"))
    page = client.get(f"{CURVES}?runs={ids}").content.decode()
    assert "&gt; 0.5" in page and "&gt; 0.9" in page
    answer = client.get(f"{CURVES}?runs={ids}&format=csv")
    assert [part.split("; ")[1] for part in answer["X-Definition"].split(" | ")] == [
        "threshold=0.5",
        "threshold=0.9",
    ]
    answer = client.get(f"{CURVES}?runs={ids}&format=csv&threshold=0.6")
    assert answer["X-Definition"].count("threshold=0.6") == 1


def test_the_ranges_of_endings_are_written_as_their_filter_reads_them(client: Client) -> None:
    episodes = [
        end_episode(run=make_run("one" if number % 2 else "two"), run_step=1) for number in range(4)
    ]
    numbers = [episode.end_number for episode in episodes if episode.run.name == "one"]
    [head, line] = client.get(f"{CURVES}?run=one&x=step&format=csv").content.decode().splitlines()
    [row] = csv.DictReader(io.StringIO(f"{head}\n{line}"))
    assert row["ends"] == f"{numbers[0]}..{numbers[1]}"


@pytest.fixture
def few_curves(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (scopes, curve_series):
        monkeypatch.setattr(module, "MAX_SERIES", 12)


@pytest.mark.usefixtures("few_curves")
def test_more_runs_than_fit_are_counted(client: Client) -> None:
    for number in range(14):
        end_episode(run=make_run(f"run {number:02}"))
    assert [one["name"] for one in chart(client, "by=run")["series"]] == [
        f"run {number:02}" for number in range(2, 14)
    ]
    assert "The 12 newest of 14 runs are shown." in client.get(f"{CURVES}?by=run").content.decode()
    ids = [str(make_run(f"run {number:02}").pk) for number in range(14)]
    named = chart(client, f"runs={','.join(ids)}")["series"]
    assert [one["name"] for one in named] == [f"run {number:02}" for number in range(12)]
    for page, sentence in (
        (CURVES, "Showing the first 12 of 14 selected runs."),
        ("/compare/", "The first 12 of 14 runs are compared."),
    ):
        assert sentence in client.get(f"{page}?runs={','.join(ids)}").content.decode()
    assert "separated by commas" in client.get(f"{CURVES}?runs=3,x").content.decode()


@pytest.mark.usefixtures("few_curves")
def test_runs_that_cannot_be_drawn_are_named_with_the_reason(client: Client) -> None:
    with_step, without = (
        end_episode(run=make_run("stepped"), run_step=1),
        end_episode(run=make_run("stepless")),
    )
    page = client.get(
        f"{CURVES}?runs={with_step.run_id},{without.run_id},999&x=step"
    ).content.decode()
    assert "none of their ended episodes has a training step: stepless." in page
    assert "There is no run 999;" in page
    for number in range(12):
        end_episode(run=make_run(f"eval {number:02}"))
    page = client.get(f"{CURVES}?by=run&x=step").content.decode()
    assert [one["name"] for one in chart(client, "by=run&x=step")["series"]] == ["stepped"]
    assert "has a training step: eval 11, eval 10" in page and "and 1 more." in page
    for number in range(12):
        end_episode(run=make_run(f"run {number:02}"), run_step=1)
    page = client.get(f"{CURVES}?by=run&x=step").content.decode()
    assert "The 12 newest of 13 runs with training steps are shown." in page


def sweep(seeds: int) -> str:
    """Return the parameter `runs` of two learning rates, each with this many seeds."""
    runs = []
    for rate, reward in (("1e-5", 1.0), ("3e-6", 0.0)):
        for seed in range(seeds):
            config = f'{{"lr": {rate}, "seed": {seed}, "batch": 8}}'
            runs.append(Run.objects.create(name=f"{rate} {seed}", created=NOW, config=config))
            for step in (1, 2):
                end_episode(reward + seed / 10, run=runs[-1], run_step=step)
    return "runs=" + ",".join(str(run.pk) for run in runs)


def test_a_sweep_is_drawn_in_one_picture_and_a_part_of_it_too(client: Client) -> None:
    runs = sweep(14)
    lines = chart(client, f"{runs}&x=step")["series"]
    assert len(lines) == 28
    assert len({(line["colour"], tuple(line["dash"])) for line in lines}) == 28
    part = chart(client, f"{runs}&x=step&from=2&to=2")["series"]
    assert [[point["x"] for point in line["points"]] for line in part] == [[2]] * 28


def test_the_headers_of_a_file_of_many_curves_say_it_of_all_together(client: Client) -> None:
    sweep(7)
    environment = make_environment("guess", success_threshold=0.5)
    task = make_task(environment=environment)
    end_episode(environment=environment, task=task, run=make_run("of guess"))
    answer = client.get(f"{CURVES}?by=run&format=csv")
    assert (answer["X-Coverage"], answer["X-Success-Error"]) == ("29 attempts", "0")
    assert answer["X-Definition"].startswith("return=sum; threshold=environment; no_call=zero")
    assert " | " not in answer["X-Definition"]


def test_runs_are_grouped_by_a_value_of_their_configuration(client: Client) -> None:
    runs = sweep(3)
    page = client.get(f"{CURVES}?{runs}&x=step").content.decode()
    assert "group=lr" in page and "group=seed" in page and "group=batch" not in page
    lines = chart(client, f"{runs}&x=step&group=lr")["series"]
    assert [line["name"] for line in lines] == ["lr = 3e-06", "lr = 1e-05"]
    first = lines[1]["points"][0]
    assert (first["x"], first["n"]) == (1, 3)
    assert [first[key] for key in ("y", "low", "high")] == pytest.approx([1.1, 1.0, 1.2])
    page = client.get(f"{CURVES}?{runs}&x=step&group=lr").content.decode()
    assert len(re.findall('hint">[^<]*all steps<', page)) == 5  # of groups, and of curves
    part = client.get(f"{CURVES}?{runs}&x=step&group=lr&from=2").content.decode()
    assert len(re.findall('hint">[^<]*part in view<', part)) == 5
    assert "+1.10" in page and "± 0.10" in page and "1e-5 2</a>" in page
    assert "standard deviation over the runs" in page
    assert chart(client, f"{runs}&x=step&group=lr")["maxBands"] > 2
    [line] = chart(client, f"{runs}&x=step&group=nothing")["series"]
    assert line["name"] == "no nothing" and line["points"][0]["n"] == 6


def test_groups_of_long_values_have_short_labels_of_their_own(client: Client) -> None:
    for last in (1, 2):
        config = json.dumps({"layers": [*range(30_000), last]})
        end_episode(run=Run.objects.create(name=f"run {last}", created=NOW, config=config))
    first, second = chart(client, "by=run&group=layers")["series"]
    assert first["name"].startswith("layers = [0, 1") and len(first["name"]) == 80
    assert second["name"] == f"{first['name']} (2)"
    assert first["key"] != second["key"]


def test_equal_numbers_are_a_group_and_booleans_another(client: Client) -> None:
    runs = [
        Run.objects.create(name=value, created=NOW, config=f'{{"on": {value}}}')
        for value in ("true", "1", "1.0", "null", '"null"')
    ]
    for run in runs:
        end_episode(run=run, run_step=1)
    ids = ",".join(str(run.pk) for run in runs)
    lines = chart(client, f"runs={ids}&x=step&group=on")["series"]
    names = ["on = 1", "on = true", "on = null", "no on"]
    assert [line["name"] for line in lines] == names


def test_a_run_has_one_colour_on_every_page(client: Client) -> None:
    task = make_task()
    runs = [make_run(f"run {number}") for number in range(12)]
    for run in runs:
        episode = end_episode(run=run, run_step=1, model=run.name, task=task)
    colours = {one["name"]: one["colour"] for one in chart(client, "by=run")["series"]}
    assert len(set(colours.values())) == 12
    count_statistics()
    first, last = runs[0], runs[-1]
    assert chart(client, f"run={first.name}")["series"][0]["colour"] == colours[first.name]
    assert [one["colour"] for one in chart(client, f"runs={last.pk},{first.pk}")["series"]] == [
        colours[last.name],
        colours[first.name],
    ]
    of_run = (
        f"/runs/{last.pk}/",
        f"/runs/{last.pk}/groups/?step=1",
        f"/tasks/{episode.task_id}/group/?run={last.pk}",
    )
    listed = (
        "/runs/",
        f"/compare/?runs={first.pk},{last.pk}",
        "/environments/math/leaderboard/?by=run",
        "/episodes/",
    )
    for address in (*of_run, *listed, f"/episodes/{episode.pk}/"):
        assert (
            f'class="swatch line-{colours[last.name]}"' in client.get(address).content.decode()
        ), address


def test_curves_of_a_chart_have_colours_of_their_own_and_later_ones_are_dashed(
    client: Client,
) -> None:
    for pk in range(12, 145, 12):  # whose own colours are the same
        end_episode(run=Run.objects.create(pk=pk, name=str(pk), created=NOW))
    lines = chart(client, "by=run")["series"]
    assert [line["colour"] for line in lines] == list(range(12))
    assert [bool(line["dash"]) for line in lines] == [False] * 4 + [True] * 8
    assert lines[4]["dash"] != lines[8]["dash"]


def test_chosen_runs_stay_when_a_filter_changes(client: Client) -> None:
    run = make_run()
    end_episode(run=run)
    page = client.get(f"{CURVES}?runs={run.pk}").content.decode()
    assert f'<input type="hidden" name="runs" value="{run.pk}">' in page
