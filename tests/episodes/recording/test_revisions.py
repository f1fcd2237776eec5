"""Tests of the revision that the recorder gives to each episode."""

from __future__ import annotations

import pytest

from environments.authoring.hosted_environment import ClassRevision
from episodes.models import EnvironmentRevision, Episode
from tests.episodes.recorded import record
from tests.factories import episode_started

pytestmark = pytest.mark.django_db(transaction=True)


def revision(code: str, commit: str = "c1") -> ClassRevision:
    return ClassRevision("0" * 64, commit, False, (("orsweb", "0.1"),), code, f"{code}-{commit}")


def test_episodes_refer_to_the_revision_that_played_them() -> None:
    record(
        (episode_started(1, revision=revision("a")), episode_started(2, revision=revision("a"))),
        (episode_started(3, revision=revision("b")), episode_started(4)),
    )
    rows = Episode.objects.order_by("pk").values_list("revision__code", flat=True)
    assert list(rows) == ["a", "a", "b", None]
    first = EnvironmentRevision.objects.get(code="a")
    assert (first.first_episode, first.git_commit, first.version_of) == (1, "c1", {"orsweb": "0.1"})


def test_a_restart_with_the_same_code_makes_no_new_row() -> None:
    record((episode_started(1, revision=revision("a")),))
    record((episode_started(2, revision=revision("a")),))
    assert EnvironmentRevision.objects.count() == 1


def test_code_that_comes_back_and_another_commit_make_new_rows() -> None:
    for number, one in enumerate(
        [revision("a"), revision("b"), revision("a"), revision("a", "c2")], 1
    ):
        record((episode_started(number, revision=one),))
    assert list(EnvironmentRevision.objects.values_list("code", flat=True)) == ["a", "b", "a", "a"]


def test_environments_have_their_own_revisions() -> None:
    record(
        (
            episode_started(1, revision=revision("a")),
            episode_started(2, environment="math", revision=revision("a")),
        )
    )
    assert EnvironmentRevision.objects.count() == 2
