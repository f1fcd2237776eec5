"""Steps after a known one: which are read, with which values, in how many queries."""

from __future__ import annotations

import pytest
from pytest_django import DjangoAssertNumQueries

from episodes.models import Step
from episodes.transcript.steps import steps_after
from tests.stored import make_blob, make_episode, make_step

pytestmark = pytest.mark.django_db


def test_it_returns_the_steps_after_an_index_in_order() -> None:
    episode, other = make_episode(), make_episode()
    for _ in range(4):
        make_step(episode)
        make_step(other)
    assert [step.index for step in steps_after(episode.pk, 0, 2)] == [1, 2]
    assert [step.index for step in steps_after(episode.pk, -1, 9)] == [0, 1, 2, 3]
    assert not steps_after(episode.pk, 3, 9)


def test_every_field_has_the_value_that_django_reads() -> None:
    made = make_step(make_episode(), reward=0.5, finished=True, error="no", input='{"é": 1e20}')
    [found], expected = steps_after(made.episode_id, -1, 9), Step.objects.get(pk=made.pk)
    for field in Step._meta.concrete_fields:
        assert getattr(found, field.attname) == getattr(expected, field.attname), field.name
    assert found.started.utcoffset() is not None


def test_blobs_take_a_second_query(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    episode = make_episode()
    make_step(
        episode,
        input="",
        input_blob=make_blob('{"long": 1}'),
        output="",
        output_blob=make_blob("{}"),
    )
    with django_assert_num_queries(2):
        [step] = steps_after(episode.pk, -1, 9)
        assert (step.input_blob.size_bytes, step.output_blob.size_bytes) == (11, 2)  # type: ignore[union-attr]
    assert step.input_json == '{"long": 1}'


def test_without_blobs_it_takes_one_query(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    episode = make_episode()
    make_step(episode)
    with django_assert_num_queries(1):
        steps_after(episode.pk, -1, 9)
