"""Tests of pages of episodes: every order in both directions, ties, nulls, cursors, and bounds of
combined filters."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.db import connection

from environments.filtering.parameters import BadFilter
from environments.models import UNRESTRICTED, Environment
from environments.scoring.convention import Convention
from episodes.browsing import episode_keys as keys
from episodes.browsing import episode_list
from episodes.browsing.episode_list import EpisodeList, EpisodeListQuery
from episodes.filtering.conditions import NamedRows
from episodes.filtering.filters import EpisodeFilter
from episodes.models import Episode
from episodes.search.index import index
from tests.episodes.ended import end_episode
from tests.filters import episode_filter
from tests.rows import each
from tests.stored import make_environment, make_episode, make_run, make_split, make_step, make_task

pytestmark = pytest.mark.django_db
SORTS = ("time", "return", "steps", "duration")


def asked(**values: str) -> EpisodeFilter:
    return EpisodeFilter.parse(values, UNRESTRICTED)


def page_of(filter: EpisodeFilter, sort: str = "", after: str = "", size: int = 50) -> EpisodeList:
    return EpisodeListQuery(filter, sort, after, size=size).result()


def ids(page: EpisodeList) -> list[int]:
    return [row.episode.pk for row in page.rows]


def forth(filter: EpisodeFilter, sort: str, size: int = 3) -> list[EpisodeList]:
    """Return all pages, starting with the first."""
    pages = [page_of(filter, sort, size=size)]
    while pages[-1].next:
        pages.append(page_of(filter, sort, pages[-1].next, size))
    return pages


def back(filter: EpisodeFilter, sort: str, last: EpisodeList, size: int = 3) -> list[EpisodeList]:
    """Return all pages from `last` back to the first."""
    pages = [last]
    while pages[-1].previous:
        pages.append(page_of(filter, sort, pages[-1].previous, size))
    return pages


def some_episodes() -> None:
    """Create episodes with ties in every figure, nulls where possible, and two that run."""
    for number in range(10):
        lacks = number % 4 == 0
        figures = {
            "return_sum": number % 3,
            "return_last": None if lacks else number % 3,
            "steps_count": number % 2,
        }
        make_episode(**figures, duration_seconds=None if lacks else float(number % 3))
    make_episode(status="running", cause="")
    make_episode(status="running", cause="")


@pytest.fixture
def few() -> None:
    some_episodes()


@pytest.mark.usefixtures("few")
@each("sort", [sign + name for name in SORTS for sign in ("", "-")])
@each("definition", ["sum", "last"])
def test_pages_forth_hold_every_episode_once_and_pages_back_the_same(
    sort: str, definition: str
) -> None:
    pages = forth(asked(**{"return": definition}), sort)
    shown = [pk for page in pages for pk in ids(page)]
    assert sorted(shown) == sorted(Episode.objects.values_list("pk", flat=True))
    returned = back(asked(**{"return": definition}), sort, pages[-1])
    assert [pk for page in returned[::-1] for pk in ids(page)] == shown


@pytest.mark.parametrize(("sort", "is_reverse"), [("return", False), ("-return", True)])
def test_a_figure_is_followed_by_what_has_none_and_by_what_runs(
    sort: str, is_reverse: bool
) -> None:
    some_episodes()
    rows = [row for page in forth(asked(**{"return": "last"}), sort) for row in page.rows]
    values = [row.value for row in rows if row.value is not None]
    assert values == sorted(values, reverse=is_reverse)
    assert [row.value for row in rows[len(values) :]] == [None] * 5
    assert [row.episode.status for row in rows[-2:]] == ["running"] * 2


def test_pages_hold_when_episodes_come_in_between() -> None:
    first = [make_episode().pk for _ in range(6)]
    page = page_of(asked(), size=3)
    make_episode()
    assert ids(page_of(asked(), after=page.next, size=3)) == first[2::-1]


@pytest.mark.parametrize("sort", SORTS)
def test_conditions_combine_in_every_order(sort: str) -> None:
    make_episode(model="m")
    make_episode(player="human")
    both = {
        make_episode(model="m", player="human", steps_count=number, return_sum=number).pk
        for number in range(5)
    }
    pages = forth(asked(model="m", player="human", return_from="0"), sort, size=2)
    assert sorted(pk for page in pages for pk in ids(page)) == sorted(both)


QUERIES = [
    {"ending": "attempt"},
    {"ending": "probe"},
    {"ending": "running"},
    {"since": "2020-01-01", "until": "2030-01-01"},
    {"ends_from": "0"},
    {"ends_from": "0", "environment": "math"},
    {"ends_from": "0", "run": "grpo-3"},
    {"return_from": "0"},
    {"return_from": "1", "model": "m"},
    {"steps_to": "9"},
    {"error": "yes"},
    {"error": "no"},
    {"model": "m", "until": "2030-01-01"},
    {"who": "@ada"},
    {"who": "@ada", "environment": "math", "until": "2030-01-01"},
    {"text": "walrus"},
    {"text": "walrus", "ending": "attempt"},
]


def varied_episodes() -> None:
    """Create episodes of each kind that QUERIES search for, with ties and nulls, and two that
    run."""
    for number in range(6):
        ending = {"cause": "abandoned" if number % 2 else "finished", "is_probe": number % 4 == 1}
        facts = {
            "end_number": number,
            "failed_count": number % 2,
            "steps_count": number % 3,
            "return_sum": number % 3,
        }
        facts["return_last"] = None if number % 4 == 0 else number % 3
        make_step(make_episode(**ending, **facts, model="m", run=make_run()), "the walrus")
        make_episode(
            player="human", key_label="@ada" if number % 2 else "@bob", return_last=number % 2
        )
    make_episode(status="running", cause="")
    make_episode(status="running", cause="", model="m")
    index(list(Episode.objects.values_list("pk", flat=True)))


def in_order(query: dict[str, str], sort: str) -> list[int]:
    """Return the ids of all episodes that the query finds, sorted without a database."""
    descending, name = sort.startswith("-"), sort.removeprefix("-")
    rows = list(
        NamedRows.of(asked(**query))
        .episodes()
        .values_list("return_last", "steps_count", "status", "pk")
    )

    def place(row: tuple[float | None, int, str, int]) -> tuple[int, float, int]:
        value = {"return": row[0], "steps": row[1], "time": 0}[name]
        group = 0 if name == "time" else 2 if row[2] == "running" else 1 if value is None else 0
        sign = -1 if descending else 1
        return group, sign * (value or 0) if group == 0 else 0, sign * row[3]

    return [row[3] for row in sorted(rows, key=place)]


@pytest.mark.parametrize("most", [0, 5, 10_000])
def test_every_way_of_reading_gives_the_same_pages(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    varied_episodes()
    for limit in ("MAX_SORTED", "MAX_SORTED_BY_DATABASE", "MAX_SCANNED"):
        monkeypatch.setattr(keys, limit, most)
    monkeypatch.setattr(
        keys, "MAX_SCANNED_BY_FIGURE", dict.fromkeys(keys.MAX_SCANNED_BY_FIGURE, most)
    )
    sorts = (("-time", "-return"), ("time", "steps"))
    for query, sort in (
        (query, sort) for place, query in enumerate(QUERIES, most) for sort in sorts[place % 2]
    ):
        query = {**query, "return": "last"}
        expected = in_order(query, sort)
        pages = forth(asked(**query), sort, size=4)
        assert expected
        assert [pk for page in pages for pk in ids(page)] == expected, (query, sort)
        returned = back(asked(**query), sort, pages[-1], size=4)
        assert [pk for page in returned[::-1] for pk in ids(page)] == expected, (query, sort)


def test_a_split_that_people_made_is_read_newest_first() -> None:
    episodes = [make_episode() for _ in range(4)]
    split = make_split(*(episode.task for episode in episodes), name="hard")
    type(split).objects.update(is_curated=True)
    make_episode()
    assert ids(page_of(asked(environment="math", split="hard"))) == [
        episode.pk for episode in episodes[::-1]
    ]


# --- what is looked at ----------------------------------------------------------------------------


@pytest.fixture
def low_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bound pages from six episodes on, instead of a million."""
    monkeypatch.setattr(keys, "MAX_LOOKED_AT", 5)


def test_a_bounded_page_says_so_and_continues(low_bound: None) -> None:
    old = make_episode(player="agent", run_step=1, model="m")
    for _ in range(7):
        make_episode(model="m")
    page = page_of(asked(step="1", model="m"))
    assert (ids(page), page.is_bounded) == ([], True)
    further = page_of(asked(step="1", model="m"), after=page.next)
    assert (ids(further), further.is_bounded) == ([old.pk], False)


@pytest.mark.parametrize("most", [2, 10_000])
def test_the_newest_of_a_large_record_are_sorted_by_a_figure(
    most: int, low_bound: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys, "MAX_SORTED", most)
    made = [make_episode(model="m", player="human", return_sum=-number).pk for number in range(7)]
    for query in ({"model": "m"}, {"model": "m", "player": "human"}, {"error": "no"}):
        page = page_of(asked(**query), "-return")
        assert (ids(page), page.is_bounded) == (made[1:], True)


def test_one_condition_alone_is_never_bounded(low_bound: None) -> None:
    made = [make_episode(model="m", return_sum=float(number)).pk for number in range(9)]
    for query, sort in (
        ({"model": "m"}, ""),
        ({"return_from": "0"}, "-return"),
        ({"return_from": "0"}, ""),
    ):
        page = page_of(asked(**query), sort)
        assert (ids(page), page.is_bounded) == (made[::-1], False)


def test_a_split_is_one_condition_though_its_environment_is_named_too(low_bound: None) -> None:
    split = make_split(make_task())
    made = [make_episode(split=split, task=split.entries.get().task).pk for _ in range(9)]
    page = page_of(asked(environment="math", split="train"))
    assert (ids(page), page.is_bounded) == (made[::-1], False)


def test_newest_first_is_read_along_an_index() -> None:
    queries = (
        {},
        {"model": "m"},
        {"player": "human"},
        {"error": "yes"},
        {"ending": "finished"},
        {"environment": "math"},
    )
    make_episode(model="m", player="human", run=make_run())
    plans = [
        str(NamedRows.of(asked(**query)).episodes().order_by("-pk").values("pk")[:5].explain())
        for query in queries
    ]
    assert connection.vendor != "sqlite" or not [plan for plan in plans if "TEMP B-TREE" in plan]


# --- what a page tells ----------------------------------------------------------------------------


@each("after", ["x", "!!!", "bnVsbA", "WzEsMiwzLDQsNV0", "W10", "eyJhIjoxfQ"])
def test_a_malformed_cursor_is_refused(after: str) -> None:
    with pytest.raises(BadFilter, match=r"not a cursor|another order"):
        page_of(asked(), after=after)


def test_a_cursor_of_another_order_is_refused() -> None:
    some_episodes()
    with pytest.raises(BadFilter, match="another order"):
        page_of(asked(), "steps", page_of(asked(), "-return", size=3).next)


def test_an_unknown_sort_is_refused_with_the_known_ones() -> None:
    with pytest.raises(BadFilter, match="time, -time, return"):
        page_of(asked(), "luck")


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ({"environment": "maht"}, "No environment is named 'maht'. Did you mean 'math'?"),
        (
            {"environment": "math", "split": "trian"},
            "No split of math is named 'trian'. Did you mean 'train'?",
        ),
        ({"run": "grpo-4"}, "No run is named 'grpo-4'. Did you mean 'grpo-3'?"),
        ({"model": "qwem"}, "No model is named 'qwem'. Did you mean 'qwen'?"),
        ({"who": "@adda"}, "No player is named '@adda'. Did you mean '@ada'?"),
        ({"task": "0"}, "There is no task 0; a task's number is in the address of its page."),
    ],
)
def test_an_unknown_name_is_reported_with_the_nearest(query: dict[str, str], sentence: str) -> None:
    make_split(make_task(environment=make_environment()))
    make_episode(run=make_run(), model="qwen")
    make_episode(player="human", key_label="@ada")
    page = page_of(asked(**query))
    assert (ids(page), page.unknown) == ([], sentence)


def test_a_row_tells_the_task_and_the_return_in_force() -> None:
    task = make_task({"question": "How many?", "long": "x" * 50_000})
    make_episode(task=task, return_sum=3.0, return_last=1.0)
    (row,) = page_of(asked(**{"return": "last"})).rows
    assert (row.summary, row.value) == ("How many?", 1.0)


def test_the_number_of_queries_does_not_grow_with_the_rows(
    django_assert_num_queries: object, django_assert_max_num_queries: object
) -> None:
    split = make_split(make_task(environment=make_environment()))
    for _ in range(10):
        make_episode(run=make_run(), model="m", split=split, task_index=0)
    with django_assert_num_queries(3):  # type: ignore[operator]
        page_of(asked())
    with django_assert_max_num_queries(8):  # type: ignore[operator]  # 7 on SQLite
        page_of(asked(environment="math", run="grpo-3"), "-steps", size=5)


def total(**query: str) -> str:
    """Return the number of matches as a page of two episodes shows it."""
    listed = EpisodeListQuery(asked(**query), size=2)
    return str(listed.match_count(listed.result()))


def test_a_match_count_is_of_what_a_filter_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(7):
        make_episode(model="m", player="script" if number % 2 else "agent")
    assert [total(**query) for query in ({}, {"model": "m"}, {"run": "x"})] == ["7", "7", "0"]
    assert total(model="m", player="script") == "3"
    monkeypatch.setattr(episode_list, "LOOKED_AT_FOR_COUNT", 3)
    assert total(model="m", player="script") == "at least 2"
    monkeypatch.setattr(episode_list, "MAX_COUNTED", 5)
    assert total(model="m") == "more than 5"


ZERO = {"expired": "zero", "env_error": "zero", "interrupted": "out"}


@pytest.mark.parametrize("convention", ["asked", "declared"])
def test_a_return_that_counts_as_0_is_0_in_ranges_and_orders(convention: str) -> None:
    expired, failed = (end_episode(0.5, cause=cause) for cause in ("expired", "env_error"))
    low, high, interrupted = (
        end_episode(value, cause=cause)
        for value, cause in ((-1.0, "finished"), (1.0, "finished"), (0.25, "interrupted"))
    )
    asked = episode_filter(**ZERO) if convention == "asked" else episode_filter()  # type: ignore[arg-type]
    if convention == "declared":
        Environment.objects.update(convention=Convention(expired="zero", env_error="zero").code)
    rows = page_of(asked, "-return").rows
    assert [row.episode for row in rows] == [high, interrupted, failed, expired, low]
    assert [(row.value, row.is_zero) for row in rows][2:4] == [(0.0, True)] * 2
    pages = [page_of(asked, "-return", size=2)]
    while pages[-1].next:
        pages.append(page_of(asked, "-return", pages[-1].next, size=2))
    assert [row.episode for page in pages for row in page.rows] == [row.episode for row in rows]
    for low_end, high_end, found in (
        (0.0, 0.0, {expired, failed}),
        (0.1, None, {high, interrupted}),
        (None, -0.5, {low}),
    ):
        within = page_of(replace(asked, return_from=low_end, return_to=high_end))
        assert {row.episode for row in within.rows} == found
