"""Tests of filters: every field of an address and every refusal."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.http import QueryDict
from django.utils import timezone

from environments.filtering.parameters import BadFilter
from environments.models import UNRESTRICTED
from episodes.filtering.conditions import NamedRows
from episodes.filtering.filters import EpisodeFilter, moment_of
from episodes.models import Episode, TranscriptText
from episodes.search.index import index
from tests.rows import each
from tests.stored import (
    NOW,
    make_environment,
    make_episode,
    make_run,
    make_split,
    make_step,
    make_task,
)

EVERYTHING = {
    "environment": "math", "split": "train", "task": "7", "suite": "core/v2/1", "run": "grpo", "step": "-2",
    "model": "m", "revision": "0123abcd", "label": "seed=3,4;arm=b", "ending": "probe",
    "player": "human", "who": "@ada", "study": "pilot", "return": "last", "threshold": "0.5",
    "no_call": "out", "expired": "zero", "interrupted": "zero", "env_error": "zero", "success": "no",
    "return_from": "-0.5", "return_to": "1", "steps_from": "1", "steps_to": "9", "error": "no",
    "since": "24h", "until": "2026-01-31T12:00", "text": "a b", "ends_from": "3", "ends_to": "4",
    "ends": "1..2,4",
}  # fmt: skip


def found(query: str) -> set[int]:
    return set(
        NamedRows.of(EpisodeFilter.parse(QueryDict(query), UNRESTRICTED))
        .episodes()
        .values_list("pk", flat=True)
    )


def test_every_parameter_goes_there_and_back() -> None:
    asked = EpisodeFilter.parse(EVERYTHING, UNRESTRICTED)
    assert tuple(EVERYTHING) == tuple(EpisodeFilter.parameters())
    assert EpisodeFilter.parse(QueryDict(asked.to_query()), UNRESTRICTED) == asked


def test_empty_values_ask_for_nothing() -> None:
    assert EpisodeFilter.parse(
        dict.fromkeys(EpisodeFilter.parameters(), " "), UNRESTRICTED
    ).is_empty


def test_without_an_environment_there_is_no_split() -> None:
    asked = EpisodeFilter.parse({"environment": "math", "split": "train", "run": "a"}, UNRESTRICTED)
    assert asked.without("environment").values() == {"run": "a"}


def test_a_chip_leads_to_the_filter_without_it() -> None:
    chips = EpisodeFilter.parse(
        {"return_from": "0.5", "since": "7d", "ending": "setup_failed"}, UNRESTRICTED
    ).chips()
    assert [(chip.label, chip.value, chip.query) for chip in chips] == [
        ("ending", "setup failed", "return_from=0.5&since=7d"),
        ("return", "≥ 0.5", "ending=setup_failed&since=7d"),
        ("within", "7d", "ending=setup_failed&return_from=0.5"),
    ]


def test_a_chip_leaves_out_what_only_rounding_adds() -> None:
    [chip] = EpisodeFilter.parse({"return_from": "1.8500010000000002"}, UNRESTRICTED).chips()
    assert (chip.value, chip.query) == ("\N{GREATER-THAN OR EQUAL TO} 1.850001", "")


@each(
    ("name", "value", "hint"),
    [
        ("colour", "red", "s are environment, split"),
        ("task", "x", "whole number of at least 0"),
        ("task", "-1", "whole number of at least 0"),
        ("task", "9" * 5000, "whole number"),
        ("step", "1.5", "whole number"),
        ("step", "1..", "whole number, such as 12, or two, such as 7..9"),
        ("step", "9..7", "9 is above 7"),
        ("label", "seed", "a label and a value, several with ; between them: seed=3,4;arm=b"),
        ("ends_to", str(2**63), "whole number"),
        ("ends", "3..1", "swap the two"),
        ("ends", ",".join(map(str, range(101))), "up to 100"),
        ("ending", "won", "running, finished"),
        ("player", "robot", "agent, human, script"),
        ("who", "ada", "start with @"),
        ("return", "median", "sum, last, max, mean"),
        ("return_from", "nan", "a number"),
        ("return_to", "much", "a number"),
        ("error", "maybe", "yes, no"),
        ("since", "yesterday", "24h"),
        ("until", "2026-02-30", "2026-01-31"),
        ("until", "10000-01-01", "2026-01-31"),
        ("until", "2026-01-31\n", "2026-01-31"),
        *(("task", text, "whole number") for text in ("7\n", "+7", "07", "\uff17", "1_0")),
        ("ends", "01..3", "whole number"),
        ("since", "07d", "24h"),
        ("suite", "core/v01", "core/v2"),
        ("ends", "3..5\n", "whole number"),
        ("run", "a\0b", "character"),
        ("split", "train", "environment="),
    ],
)
def test_an_invalid_parameter_is_refused_with_what_is_allowed(
    name: str, value: str, hint: str
) -> None:
    with pytest.raises(BadFilter, match=hint) as refused:
        EpisodeFilter.parse({name: value}, UNRESTRICTED)
    assert refused.value.field == name


def test_a_range_that_holds_nothing_is_refused() -> None:
    with pytest.raises(BadFilter, match="above steps_to=2"):
        EpisodeFilter.parse({"steps_from": "3", "steps_to": "2"}, UNRESTRICTED)


def test_a_repeated_parameter_is_refused() -> None:
    with pytest.raises(BadFilter, match="more than once"):
        EpisodeFilter.parse(QueryDict("model=a&model=b"), UNRESTRICTED)


def test_a_page_may_have_parameters_of_its_own() -> None:
    assert EpisodeFilter.parse(
        {"smooth": "3", "after": "x"}, UNRESTRICTED, also=("smooth", "after")
    ).is_empty


def test_a_name_that_no_filter_has_is_refused_with_the_nearest() -> None:
    with pytest.raises(
        BadFilter,
        match=r"Did you mean 'environment'\? The filters are "
        r"environment, split",
    ):
        EpisodeFilter.parse({"enviroment": "math"}, UNRESTRICTED)
    with pytest.raises(
        BadFilter,
        match=r"no filter has that name\. The filters are environment, "
        r"split",
    ):
        EpisodeFilter.parse({"colour": "red"}, UNRESTRICTED)


@each(
    ("text", "moment"),
    [
        ("2026-01-31", datetime(2026, 2, 1, tzinfo=UTC)),
        ("2026-01-31T10:00", datetime(2026, 1, 31, 10, tzinfo=UTC)),
        ("2026-01-31T10:00:00 02:00", datetime(2026, 1, 31, 8, tzinfo=UTC)),
        ("2d", datetime(2026, 1, 29, tzinfo=UTC)),
        ("9999-12-31", datetime.max.replace(tzinfo=UTC)),
        ("9999-12-31T23:59:59-05:00", datetime.max.replace(tzinfo=UTC)),
        ("0001-01-01", datetime(1, 1, 2, tzinfo=UTC)),
        ("0001-01-01T00:00+05:00", datetime.min.replace(tzinfo=UTC)),
    ],
)
def test_until_is_a_day_a_moment_or_a_span(text: str, moment: datetime) -> None:
    filters = EpisodeFilter.parse({"until": text}, UNRESTRICTED)
    assert moment_of(str(filters.until), datetime(2026, 1, 31, tzinfo=UTC), is_end=True) == moment


@pytest.mark.django_db
def test_every_date_that_has_a_year_of_four_digits_is_compared() -> None:
    episode = make_episode(created=NOW)
    for query in ("until=9999-12-31", "since=0001-01-01", "since=0001-01-01T00:00%2B14:00"):
        assert found(query) == {episode.pk}
    for query in ("since=9999-12-31", "until=0001-01-01", "since=9999-12-31T23:59-14:00"):
        assert found(query) == set()


@pytest.mark.django_db
def test_a_line_break_after_a_name_belongs_to_the_name() -> None:
    make_episode(run=make_run("grpo"), model="qwen", labels='{"arm":"a"}')
    for query in ("run=grpo", "model=qwen", "label=arm=a"):
        assert found(f"{query}+") and not found(f"{query}%0A")


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("query", "values"),
    [
        ("model=qwen", {"model": "qwen"}),
        ("player=human", {"player": "human"}),
        ("label=seed=3,4;arm=a, b", {"labels": '{"arm":"a, b","seed":"4"}'}),
        ("label=caf\u00e9=\u00fc", {"labels": '{"caf\\u00e9":"\\u00fc"}'}),
        ("step=4", {"run_step": 4}),
        ("step=3..5", {"run_step": 4}),
        ("step=-7..-3", {"run_step": -5}),
        ("return_from=0.5&return_to=2", {"return_sum": 1.0}),
        ("return=last&return_from=0.5", {"return_last": 1.0}),
        ("steps_from=3&steps_to=5", {"steps_count": 4}),
        ("ends_from=10&ends_to=12", {"end_number": 11}),
        ("ends=2..3,11", {"end_number": 11}),
        ("error=yes", {"failed_count": 1}),
        ("error=yes", {"refused_count": 1}),
        ("since=2w", {"created": timezone.now()}),
        ("until=2020-01-01", {"created": datetime(2020, 1, 1, 23, tzinfo=UTC)}),
        ("ending=running", {"status": "running", "cause": ""}),
        ("ending=abandoned", {"cause": "abandoned"}),
        ("ending=probe", {"cause": "expired", "is_probe": True}),
        ("ending=env_error", {"cause": "env_error"}),
    ],
)
def test_each_condition_finds_what_meets_it_alone(query: str, values: dict[str, Any]) -> None:
    make_episode()
    wanted = make_episode(**values)
    assert found(query) == {wanted.pk}


@pytest.mark.django_db
def test_a_person_is_found_by_name_among_people_alone() -> None:
    one = make_episode(player="human", key_label="@ada")
    make_episode(player="human", key_label="@bob")
    make_episode(key_label="@ada")
    queries = (
        "who=@ada",
        "who=@ada&player=human",
        "who=@ada&environment=math&since=2020-01-01&until=2030-01-01",
    )
    assert [found(query) for query in queries] == [{one.pk}] * 3


def test_a_person_is_no_agent() -> None:
    with pytest.raises(BadFilter, match="remove player=agent"):
        EpisodeFilter.parse({"who": "@ada", "player": "agent"}, UNRESTRICTED)


@pytest.mark.django_db
def test_attempts_are_what_statistics_count() -> None:
    attempts = {make_episode(cause=cause).pk for cause in ("finished", "abandoned", "expired")}
    make_episode(cause="abandoned", is_probe=True)
    make_episode(cause="interrupted")
    make_episode(status="running", cause="")
    assert found("ending=attempt") == attempts


@pytest.mark.django_db
def test_names_and_numbers_find_their_episodes() -> None:
    task, run = make_task(), make_run("grpo")
    split = make_split(task)
    one = make_episode(task=task, run=run, split=split)
    make_episode()
    queries = (
        "run=grpo",
        f"task={task.pk}",
        "environment=math&split=train",
        f"environment=math&run=grpo&task={task.pk}",
    )
    assert [found(query) for query in queries] == [{one.pk}] * 4


@pytest.mark.django_db
def test_a_split_that_people_made_finds_the_episodes_of_its_current_tasks() -> None:
    inside, outside = make_episode(), make_episode()
    split = make_split(inside.task, name="hard")
    Episode.objects.filter(pk=outside.pk).update(split=split)
    type(split).objects.update(is_curated=True)
    assert found("environment=math&split=hard") == {inside.pk}


@pytest.mark.django_db
def test_text_finds_the_episodes_in_which_it_was_said() -> None:
    said, silent = make_episode(steps_count=1), make_episode(steps_count=1)
    make_step(said, "the walrus and the carpenter")
    make_step(silent, "the oysters")
    index([said.pk, silent.pk])
    assert TranscriptText.objects.count() == 2
    assert (found("text=walrus"), found("text=walrus&model=m")) == ({said.pk}, set())


@pytest.mark.django_db
def test_text_is_looked_for_in_the_newest_transcripts_or_in_all() -> None:
    episodes = [make_episode(steps_count=1) for _ in range(3)]
    for episode in episodes:
        make_step(episode, "the walrus and the carpenter")
    index([episode.pk for episode in episodes])
    asked = EpisodeFilter.parse(QueryDict('text="the walrus"'), UNRESTRICTED)
    assert {one.pk for one in NamedRows.of(asked).episodes(most_texts=2)} == {
        one.pk for one in episodes[1:]
    }
    assert NamedRows.of(asked).episodes(most_texts=None).count() == 3


@pytest.mark.django_db
def test_the_environment_says_which_return_is_meant() -> None:
    environment = make_environment("last-counts", default_return="last")
    one = make_episode(environment=environment, return_sum=0.0, return_last=1.0)
    assert found("environment=last-counts&return_from=0.5") == {one.pk}
    assert found("environment=last-counts&return_from=0.5&return=sum") == set()


@pytest.mark.django_db
def test_a_span_of_time_ends_before_its_end() -> None:
    start = datetime(2026, 3, 1, tzinfo=UTC)
    inside = make_episode(created=start)
    make_episode(created=start + timedelta(hours=1))
    assert found("since=2026-03-01T00:00&until=2026-03-01T01:00") == {inside.pk}
