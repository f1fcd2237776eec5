"""Tests of the content of each format."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import Any

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from environments.scoring.convention import Convention
from environments.scoring.definition import DefinitionOverrides
from episodes.attempts.components import MAX_COMPONENTS
from episodes.models import Episode, EpisodeComponent, RewardComponent
from episodes.rollups.components import MAX_NAMES
from episodes.rollups.follower import catch_up
from episodes.transfer.exporting import EpisodeExport
from episodes.transfer.formats import EXPORT_FORMATS
from episodes.transfer.training_options import TrainingOptions
from tests.episodes.transfer.record import exported, lines_of, make_rich_episodes, text_of
from tests.filters import episode_filter
from tests.people import client_of
from tests.stored import make_environment, make_episode, make_step, make_task

pytestmark = pytest.mark.django_db


def test_csv_has_a_column_for_each_component_of_rewards() -> None:
    first, second = make_episode(id=1), make_episode(id=2)
    component = RewardComponent.objects.create(environment_id=first.environment_id, name="format")
    RewardComponent.objects.create(environment_id=make_environment("other").pk, name="unused")
    figures = {"value_sum": 1.5, "value_last": 0.5, "value_max": 1.0, "value_mean": 0.75}
    EpisodeComponent.objects.create(episode=second, component=component, **figures)
    rows = list(csv.DictReader(io.StringIO(text_of("csv"), newline="")))
    assert [row["component:format"] for row in rows] == ["", "1.5"]
    assert "component:unused" not in rows[0]


def test_csv_has_the_components_of_episodes_that_have_just_ended() -> None:
    followed = make_episode(id=1, steps_count=1, end_number=1)
    make_step(followed, output='{"blocks": [], "metadata": {"rewards": {"format": 1.0}}}')
    catch_up()
    episode = make_episode(id=2, steps_count=2, end_number=2)
    for format in (0.5, 0.25):
        rewards = {"format": format, "length": 2 * format}
        make_step(episode, output=json.dumps({"blocks": [], "metadata": {"rewards": rewards}}))
    rows = list(csv.DictReader(io.StringIO(text_of("csv"), newline="")))
    assert [(row["component:format"], row["component:length"]) for row in rows] == [
        ("1.0", ""),
        ("0.75", "1.5"),
    ]
    catch_up()
    assert list(csv.DictReader(io.StringIO(text_of("csv"), newline=""))) == rows


def test_csv_has_the_same_columns_before_and_after_too_many_components_are_stored() -> None:
    for number in (1, 2, 3):
        episode = make_episode(id=number, steps_count=1, end_number=number)
        rewards = {f"{number}-{n}": 1.0 for n in range(MAX_COMPONENTS)}
        make_step(episode, output=json.dumps({"blocks": [], "metadata": {"rewards": rewards}}))
    before = text_of("csv")
    catch_up()
    assert text_of("csv") == before
    assert before.partition("\n")[0].count("component:") == MAX_NAMES


def test_parquet_has_the_components_of_each_step() -> None:
    episode = make_episode(id=1)
    make_step(episode)
    make_step(episode, output='{"blocks": [], "metadata": {"rewards": {"format": 0.5}}}')
    file = io.BytesIO(b"".join(exported("parquet")))  # type: ignore[arg-type]
    assert pq.read_table(file)["reward_components"].to_pylist() == [None, [("format", 0.5)]]


def test_csv_has_a_row_an_episode_and_no_formulas() -> None:
    make_episode(
        id=1,
        session_id="=HYPERLINK(1)",
        detail="-1+2",
        return_sum=-0.5,
        is_probe=True,
        model='a,b\n"c"',
    )
    [row] = csv.DictReader(io.StringIO(text_of("csv"), newline=""))
    assert (row["episode"], row["environment"], row["return_sum"], row["is_probe"]) == (
        "1",
        "math",
        "-0.5",
        "true",
    )
    assert (row["session_id"], row["detail"], row["model"]) == (
        "'=HYPERLINK(1)",
        "'-1+2",
        'a,b\n"c"',
    )
    assert (row["run"], row["return_last"], row["created"]) == ("", "", "2026-01-02T03:04:05+00:00")


def test_parquet_has_a_row_a_step_with_the_facts_of_its_episode() -> None:
    make_rich_episodes()
    data = b"".join(exported("parquet"))
    rows = pq.read_table(io.BytesIO(data)).to_pylist()
    assert [(row["episode"], row["index"], row["status"], row["tool"]) for row in rows] == [
        (7, 0, "ok", "submit"),
        (7, 1, "failed", "submit"),
        (7, 2, "refused", "nø"),
    ]
    assert (rows[0]["run"], rows[0]["return_mean"], rows[0]["reward"], rows[1]["reward"]) == (
        "grpo-3",
        5e-324,
        -0.1,
        None,
    )
    assert rows[0]["input"] == f'"{"y" * 9000}"'


def successes(**parts: Any) -> set[Episode]:
    return set(EpisodeExport(episode_filter(success=True, **parts), "csv").episodes())


def test_thresholds_go_by_each_environments_own_definition() -> None:
    strict = make_environment("strict", default_return="max", success_threshold=2.0)
    good = make_episode(task=make_task(environment=strict), return_sum=0.0, return_max=3.0)
    make_episode(task=make_task(environment=strict), return_sum=9.0, return_max=1.0)
    plain = make_episode(return_sum=1.0)
    make_episode(return_sum=1.0, cause="interrupted")
    assert successes() == {good, plain}
    assert set(EpisodeExport(episode_filter(), "csv", least_return=2.5).episodes()) == {good}
    by_sum = EpisodeExport(episode_filter(definition="sum"), "csv", least_return=2.5)
    assert by_sum.episodes().count() == 1


def test_successes_follow_the_convention_of_the_environment_and_of_the_address() -> None:
    lenient = make_environment("lenient", convention=Convention(expired="zero").code)
    zero = make_episode(task=make_task(environment=lenient), return_sum=1.0, cause="expired")
    kept = make_episode(return_sum=1.0, cause="expired")
    assert successes() == {kept}
    assert set(EpisodeExport(episode_filter(), "csv", least_return=0.5).episodes()) == {kept}
    assert successes(expired="keep") == {zero, kept}
    assert not successes(expired="out")


def test_a_line_says_success_by_the_definition_of_the_export() -> None:
    make_episode(id=1, return_sum=0.6)
    make_episode(id=2, return_sum=1.0, cause="expired")
    make_episode(id=3, status="running")
    assert [line["success"] for line in lines_of()] == [False, True, None]
    overrides = DefinitionOverrides(threshold=0.5, expired="out")
    options = TrainingOptions(definition=overrides)
    assert [line["success"] for line in lines_of(options=options)] == [True, None, None]


def test_the_page_of_episodes_leads_to_every_format() -> None:
    page = client_of("operator").get("/episodes/").content.decode()
    names = re.findall(r'data-selected-format="(\w+)"', page)
    assert names == list(dict.fromkeys(re.findall(r'data-export-format="(\w+)"', page)))
    assert names == list(EXPORT_FORMATS)
