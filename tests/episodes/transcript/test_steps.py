"""Increment: steps after one that is known are the same as any other way of reading them gives."""

from __future__ import annotations

import pytest
from pytest_django import DjangoAssertNumQueries

from episodes.models import Step
from episodes.transcript.steps import steps_after
from tests.stored import make_blob, make_episode, make_step

pytestmark = pytest.mark.django_db


def test_they_are_those_after_it_in_order_and_no_others() -> None:
    episode, other = make_episode(), make_episode()
    for _ in range(4):
        make_step(episode)
        make_step(other)
    assert [step.index for step in steps_after(episode.pk, 0, 2)] == [1, 2]
    assert [step.index for step in steps_after(episode.pk, -1, 9)] == [0, 1, 2, 3]
    assert not steps_after(episode.pk, 3, 9)


def test_every_member_is_as_django_reads_it() -> None:
    made = make_step(make_episode(), reward=0.5, finished=True, error="no", input='{"é": 1e20}')
    [found], known = steps_after(made.episode_id, -1, 9), Step.objects.get(pk=made.pk)
    for field in Step._meta.concrete_fields:
        assert getattr(found, field.attname) == getattr(known, field.attname), field.name
    assert found.started.utcoffset() is not None


def test_large_texts_are_there_as_blobs(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    episode = make_episode()
    make_step(episode, input="", input_blob=make_blob('{"long": 1}'), output="", output_blob=make_blob("{}"))
    with django_assert_num_queries(2):
        [step] = steps_after(episode.pk, -1, 9)
        assert (step.input_blob.size_bytes, step.output_blob.size_bytes) == (11, 2)  # type: ignore[union-attr]
    assert step.input_json == '{"long": 1}'


def test_without_blobs_it_takes_one_query(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    episode = make_episode()
    make_step(episode)
    with django_assert_num_queries(1):
        steps_after(episode.pk, -1, 9)
