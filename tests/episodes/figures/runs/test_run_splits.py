"""A run that played several splits has the figures of one of them everywhere, with its name, unless
a reader asks."""

from __future__ import annotations

import csv
from io import StringIO
from random import Random
from statistics import fmean
from typing import Any, NamedTuple

import pytest
from django.test import Client

from environments.models import UNRESTRICTED, Split, Viewer
from episodes.figures import summary_cover as covers
from episodes.figures.run_splits import splits_of
from episodes.models import Episode, Run, RunTotal
from episodes.rollups.follower import catch_up
from tests.episodes.ended import count_statistics, end_episodes
from tests.rows import each
from tests.stored import make_environment, make_run, make_split, make_task

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_follower", "client")]
TOGETHER = "splits=together"


class Counted(NamedTuple):
    n: int
    mean: float
    successes: int


@pytest.fixture(scope="module")
def record(committed_rows: None) -> None:
    """A run that played train and test, one that played test and train, and one of test alone."""
    environment = make_environment()
    splits = {
        name: make_split(
            *(make_task(environment=environment) for _ in range(4)),
            name=name,
            environment=environment,
        )
        for name in ("train", "test", "val")
    }
    play(make_run("both"), [splits["train"], splits["test"]], 300)
    play(make_run("turned"), [splits["test"], splits["train"]], 200)
    play(make_run("tested"), [splits["test"]], 150)
    count_statistics()
    catch_up()


@pytest.fixture(params=["rows", "blocks"])
def run(request: pytest.FixtureRequest, record: None, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return the first run, whose figures are read from its rollouts or from blocks of them."""
    if request.param == "blocks":
        monkeypatch.setattr("episodes.figures.curves.zoomed_range.MAX_RAW_ENDINGS", 0)
        monkeypatch.setattr(covers, "MAX_RAW_ENDINGS", 0)
        monkeypatch.setattr(covers, "MIN_RAW", 0)
    return Run.objects.get(name="both")


def play(run: Run, splits: list[Split], count: int) -> None:
    """Play the splits in turns. Returns in the last of them are lower."""
    random, tasks = (
        Random(run.name),
        {split.pk: [entry.task for entry in split.entries.all()] for split in splits},
    )
    attempts = []
    for number in range(count):
        split = splits[number % len(splits)]
        value = round(random.random() / (1 + (split.name == "test")), 1)
        task = random.choice(tasks[split.pk])
        attempts.append(
            (value, {"task": task, "split": split, "run": run, "run_step": number // 50})
        )
    end_episodes(*attempts)


def counted(run: Run, *splits: str) -> Counted:
    episodes = Episode.objects.filter(run=run, split__name__in=splits).select_related("environment")
    values = [(one.return_sum, one.environment.success_threshold) for one in episodes]
    mean = pytest.approx(fmean(value for value, _ in values))
    return Counted(len(values), mean, sum(value > threshold for value, threshold in values))


def shown(total: Any) -> Counted:
    return Counted(total.n, total.mean, total.successes)


def in_api(found: Any) -> Counted:
    return Counted(found["n"], found["mean"], found["successes"])


def content(client: Client, address: str, status: int = 200) -> Any:
    answer = client.get(address)
    assert answer.status_code == status, answer.content
    return answer.json()


CHOICES = [
    ("", ("train",)),
    ("environment=math&split=test", ("test",)),
    (TOGETHER, ("train", "test")),
]


def test_pages_and_the_api_count_the_same_split(client: Client, run: Run) -> None:
    for choice, splits in CHOICES:
        assert_the_same_everywhere(client, run, choice, splits)


def assert_the_same_everywhere(
    client: Client, run: Run, choice: str, splits: tuple[str, ...]
) -> None:
    expected, split = counted(run, *splits), splits[0] if len(splits) == 1 else None
    page = client.get(f"/runs/{run.pk}/?{choice}").context
    assert (page["split"] and page["split"].name) == split
    found = [shown(page["line"].outline.total)]
    for axis in ("episode", "time", "step"):
        drawn = client.get(f"/runs/curves/?run=both&x={axis}&{choice}").context["drawn"]
        points = drawn.series[0].curve.points
        assert sum(point.n for point in points) == expected.n
        answer = content(client, f"/api/curves?run=both&x={axis}&{choice}")
        assert (answer["split"] and answer["split"]["split"]) == split
        found += [shown(drawn.series[0].curve.total), in_api(answer["total"])]
    answer = content(client, f"/api/runs/{run.pk}?{choice}")
    is_one = len(splits) == 1
    assert answer["split"] == ({"environment": "math", "split": split} if is_one else None)
    assert [(part["split"], in_api(part)) for part in answer["by_split"]] == [
        (name, counted(run, name)) for name in ("train", "test")
    ]
    assert [*found, in_api(answer["figures"])] == [expected] * (len(found) + 1)
    listed = len(
        content(client, f"/api/episodes?limit=500&{page['line'].attempts_query}")["results"]
    )
    assert listed == expected.n


def test_the_list_names_the_split_and_leads_to_the_others(client: Client, run: Run) -> None:
    page = client.get("/runs/")
    lines = {line.run.name: line for line, *_ in page.context["rows"]}
    of = {name: line.split and line.split.name for name, line in lines.items()}
    assert of == {"both": "train", "turned": "test", "tested": None}
    assert shown(lines["both"].outline.total) == counted(run, "train")
    assert (
        f'<a href="/runs/{run.pk}/?environment=math&amp;split=test">test</a>'
        in page.content.decode()
    )
    figures = {
        one["name"]: (one["split"], in_api(one["figures"]))
        for one in content(client, "/api/runs")["results"]
    }
    assert figures["both"] == ({"environment": "math", "split": "train"}, counted(run, "train"))
    assert figures["tested"] == (None, counted(Run.objects.get(name="tested"), "test"))


@each(
    ("choice", "expected"),
    [
        ("split=test", {"both": ("test",), "turned": ("test",), "tested": ("test",)}),
        ("split=train", {"both": ("train",), "turned": ("train",)}),
        ("split=val", {}),
        (TOGETHER, {"both": ("train", "test"), "turned": ("train", "test"), "tested": ("test",)}),
    ],
)
def test_a_reader_of_the_list_chooses_the_split(
    client: Client, record: None, choice: str, expected: dict[str, tuple[str, ...]]
) -> None:
    figures = {
        name: counted(Run.objects.get(name=name), *splits) for name, splits in expected.items()
    }
    lines = client.get(f"/runs/?{choice}").context["rows"]
    assert {line.run.name: shown(line.outline.total) for line, *_ in lines} == figures
    results = content(client, f"/api/runs?{choice}")["results"]
    assert {one["name"]: in_api(one["figures"]) for one in results} == figures


def test_curves_of_several_runs_are_of_the_split_that_they_share(client: Client, run: Run) -> None:
    turned, tested = (Run.objects.get(name=name) for name in ("turned", "tested"))
    for runs, label, splits in (
        ([run, turned], "train", ("train",)),
        ([turned, run], "test", ("test",)),
        ([run, turned, tested], "test", ("test",)),
    ):
        page = client.get(f"/runs/curves/?runs={','.join(str(one.pk) for one in runs)}")
        series = page.context["drawn"].series
        assert series[0].label == f"{runs[0].name} · {label}"
        assert [shown(one.curve.total) for one in series] == [counted(one, *splits) for one in runs]
        assert "All splits together" in page.content.decode()
    series = client.get(f"/runs/curves/?by=run&{TOGETHER}").context["drawn"].series
    assert {one.label: one.curve.total.n for one in series} == {
        "both": 300,
        "turned": 200,
        "tested": 150,
    }
    file = client.get("/runs/curves/?by=run&format=csv").content.decode()
    assert {row["series"] for row in csv.DictReader(StringIO(file))} == {
        "both · test",
        "turned · test",
        "tested",
    }


def test_a_filter_that_says_what_it_finds_is_drawn_as_it_is(client: Client, run: Run) -> None:
    task = Episode.objects.filter(run=run).values_list("task", flat=True)[0]
    for query in ("run=both&environment=math&split=test", f"run=both&task={task}"):
        [series] = client.get(f"/runs/curves/?{query}").context["drawn"].series
        assert series.curve.total.n == len(
            content(client, f"/api/episodes?limit=500&{query}")["results"]
        )


def test_a_zoomed_curve_of_a_split_has_the_points_of_the_whole(client: Client, run: Run) -> None:
    for end in ("to=49", "from=50"):
        points = content(client, f"/api/curves?run=both&{end}")["points"]
        for point in points:
            ended = Episode.objects.filter(
                run=run, split__name="train", end_number__lte=point["last_end"]
            ).count()
            assert (ended, point["episodes"]) == (point["x_to"], point["x_to"] - point["x"])
        assert points[0]["x"] == 0 if end == "to=49" else points[-1]["x_to"] == 150


def test_groups_of_a_split_are_those_of_its_rollouts(client: Client, run: Run) -> None:
    def groups(query: str) -> list[int]:
        points = content(client, f"/api/curves?run=both&x=step&{query}")["points"]
        return [sum(point[name] for point in points) for name in ("groups", "flat_groups")]

    each_split = [groups(""), groups("environment=math&split=test")]
    assert (
        groups(TOGETHER) == [sum(pair) for pair in zip(*each_split, strict=True)]
        and each_split[0][0] > 0
    )


def test_runs_are_compared_on_the_tasks_of_one_split(client: Client, run: Run) -> None:
    turned = Run.objects.get(name="turned")

    def compared(query: str) -> tuple[str | None, int, list[int]]:
        context = client.get(f"/compare/?runs={run.pk},{turned.pk}&x=episode&{query}").context
        pairing, split = context["pairing"], context["split"]
        drawn = [one.curve.total.n for one in context["drawn"].series]
        assert drawn == [figure.attempts for figure in pairing.measures[0].runs]
        return split and split.name, pairing.shared, drawn

    assert compared("") == ("train", 4, [150, 100])
    assert compared("environment=math&split=test") == ("test", 4, [150, 100])
    assert compared(TOGETHER) == (None, 8, [300, 200])
    refused = client.get(f"/compare/?runs={run.pk},{turned.pk}&environment=math&split=val")
    assert (
        refused.status_code == 400
        and "the run played math train, math test" in refused.content.decode()
    )


def test_what_a_run_reached_is_counted_by_split(record: None) -> None:
    """A task that is in two splits counts in that which its episode names."""
    run, task = make_run("same"), make_task()
    first, second = (make_split(task, name=name) for name in ("all", "some"))
    end_episodes(
        *((1.0, {"run": run, "task": task, "split": split}) for split in (first, second, second))
    )
    catch_up()
    rows = (
        RunTotal.objects.filter(scope_id=run.pk)
        .order_by("split_id")
        .values_list("split_id", "episodes")
    )
    assert list(rows) == [(first.pk, 1), (second.pk, 2)]


@each("name", ["rows", "definition"])
def test_a_leaderboard_by_run_is_of_one_split(client: Client, record: None, name: str) -> None:
    asked = {"rows": "", "definition": "&threshold=0.3"}[name]
    board = "/environments/math/leaderboard/"
    pages = [(f"{board}?by=run{asked}", "test"), (f"{board}?by=run&split=train{asked}", "train")]
    for address, split in pages:
        context = client.get(address).context
        runs = {row.key: row.n for row in context["board"].rows}
        assert context["board"].split.name == split
        assert runs == {
            run.name: Episode.objects.filter(run=run, split__name=split).count()
            for run in Run.objects.filter(episodes__split__name=split).distinct()
        }
    assert "results on different splits" in client.get(pages[0][0]).content.decode()
    pooled = client.get(f"{board}?by=run&{TOGETHER}{asked}").context["board"]
    assert pooled.split is None and {row.key: row.n for row in pooled.rows}["both"] == 300
    answer = content(client, f"/api/environments/math/leaderboard?by=run{asked}")
    assert (answer["split"], len(answer["rows"])) == ("test", 3)
    assert client.get(f"{board}?by=model").context["board"].split is None


def test_the_splits_of_a_run_are_in_the_order_in_which_it_began_them(record: None) -> None:
    runs = {run.pk: run.name for run in Run.objects.all()}
    played = {
        runs[pk]: [split.name for split in splits]
        for pk, splits in splits_of(list(runs), UNRESTRICTED).items()
    }
    assert played == {"both": ["train", "test"], "turned": ["test", "train"], "tested": ["test"]}
    assert splits_of(list(runs), Viewer(key_label="nobody")) == {} == splits_of([], UNRESTRICTED)


def test_a_wrong_choice_is_refused(client: Client, run: Run) -> None:
    for address in (
        "/runs/",
        f"/runs/{run.pk}/",
        "/runs/curves/",
        "/environments/math/leaderboard/",
    ):
        answer = client.get(f"{address}?splits=all")
        assert answer.status_code == 400 and "allowed are together" in answer.content.decode()
    for address in (
        "/api/runs",
        f"/api/runs/{run.pk}",
        "/api/curves",
        "/api/environments/math/leaderboard",
    ):
        assert content(client, f"{address}?splits=all", 400)["allowed"] == "together"
    assert "the run played" in content(client, f"/api/runs/{run.pk}?split=val", 400)["detail"]


@each(
    "query",
    [
        "environment=nope",
        "environment=math&split=val",
        "environment=math&split=nope",
        f"environment=x&{TOGETHER}",
    ],
)
def test_what_a_run_has_not_played_is_refused(client: Client, record: None, query: str) -> None:
    """Also of a run that played one split, and where splits are counted together."""
    runs = {run.name: run.pk for run in Run.objects.all()}
    name = "split" if "split=" in query else "environment"
    for run, played in (("both", "math train, math test"), ("tested", "math test")):
        page = client.get(f"/runs/{runs[run]}/?{query}")
        assert page.status_code == 400 and f"the run played {played}." in page.content.decode()
        refusal = content(client, f"/api/runs/{runs[run]}?{query}", 400)
        assert (refusal["field"], refusal["allowed"]) == (name, f"the run played {played}")
    compared = client.get(f"/compare/?runs={runs['both']},{runs['tested']}&{query}")
    assert compared.status_code == 400 and "the run played math" in compared.content.decode()


def test_a_list_of_runs_refuses_a_split_that_there_is_not(client: Client, record: None) -> None:
    assert content(client, "/api/runs?split=nope", 400)["allowed"] == (
        "no split has that name; allowed are test, train, val"
    )
    page = client.get("/runs/?split=nope")
    assert page.status_code == 400 and "allowed are test, train, val" in page.content.decode()


def test_a_run_without_a_split_has_its_environment_alone(client: Client, record: None) -> None:
    run = make_run("free")
    end_episodes((1.0, {"run": run, "environment": make_environment()}))
    assert content(client, f"/api/runs/{run.pk}?environment=math")["figures"]["n"] == 1
    assert (
        content(client, f"/api/runs/{run.pk}?environment=nope", 400)["allowed"]
        == "the run played math"
    )


def test_the_list_names_the_environment_of_each_split_where_a_run_played_several(
    client: Client, record: None
) -> None:
    other = make_environment("guess")
    splits = [
        make_split(make_task(environment=other), name="train", environment=other),
        Split.objects.get(name="val"),
    ]
    play(run := make_run("wide"), splits, 2)
    page = client.get("/runs/").content.decode()
    assert (
        f'>train · <a href="/runs/{run.pk}/?environment=math&amp;split=val">math val</a></td>'
        in page
    )
