"""Tests that exports and imports include what people added to episodes: notes, and how they were
played."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from environments.scoring.convention import Convention
from episodes.browsing.episode_list import EpisodeListQuery
from episodes.models import Episode, Note, Play
from tests.episodes.transfer.record import forget_everything, import_text, lines_of, text_of
from tests.filters import episode_filter
from tests.stored import make_environment, make_episode

pytestmark = pytest.mark.django_db


@pytest.fixture
def continued() -> str:
    """A file of an episode and of a play that continues it."""
    first = make_episode(id=3, player="human", key_label="@ada", end_number=1)
    second = make_episode(id=5, player="human", key_label="@eve (guest 2)", end_number=2)
    Play.objects.create(episode=first)
    Play.objects.create(episode=second, parent=first, parent_step=4)
    return text_of()


def parents() -> list[tuple[int, int | None, int | None]]:
    return list(Play.objects.order_by("pk").values_list("pk", "parent", "parent_step"))


def test_an_episode_without_them_is_exported_without_their_members() -> None:
    make_episode()
    [line] = lines_of()
    assert "play" not in line and "notes" not in line


def test_a_play_keeps_what_it_continues(tmp_path: Path, continued: str) -> None:
    forget_everything()
    import_text(tmp_path, continued)
    assert parents() == [(3, None, None), (5, 3, 4)]
    assert text_of() == continued


def test_what_it_continues_may_have_another_id_here_or_come_later(
    tmp_path: Path, continued: str
) -> None:
    first, second = continued.splitlines(keepends=True)
    forget_everything()
    make_episode(id=3)
    import_text(tmp_path, second, first)
    assert parents() == [(5, 6, 4), (6, None, None)]


def test_what_it_continues_may_be_missing_and_come_by_another_file(
    tmp_path: Path, continued: str
) -> None:
    second = continued.splitlines(keepends=True)[1]
    forget_everything()
    import_text(tmp_path, second)
    assert parents() == [(5, None, 4)]
    assert import_text(tmp_path, continued).skipped == 1
    assert parents() == [(3, None, None), (5, 3, 4)]


def test_notes_come_back_in_order_and_once(tmp_path: Path) -> None:
    episode = make_episode()
    for step, text in ((2, "why?"), (None, "odd"), (2, "ah")):
        Note.objects.create(episode=episode, step=step, author="ada", text=text)
    before, text = list(Note.objects.values_list("step", "author", "text", "created")), text_of()
    forget_everything()
    for _ in range(2):
        import_text(tmp_path, text)
    assert list(Note.objects.values_list("step", "author", "text", "created")) == before


def test_they_can_be_left_out() -> None:
    Note.objects.create(episode=make_episode(), author="ada", text="odd")
    assert "notes" in lines_of()[0]
    assert "notes" not in lines_of(episodes=Episode.objects.all(), has_additions=False)[0]


def test_a_continuation_keeps_its_return_in_every_format_as_in_lists() -> None:
    expired_as_zero = Convention(expired="zero").code
    environment = make_environment("maths", convention=expired_as_zero)
    values = {"environment": environment, "cause": "expired", "return_sum": 0.7}
    continuation = make_episode(**values, player="human", end_number=1)
    Play.objects.create(episode=continuation, parent_step=0)
    make_episode(**values, end_number=2)
    lines = [json.loads(line) for line in text_of("atif").splitlines()]
    assert [line["final_metrics"]["extra"]["reward"] for line in lines] == [0.7, 0.0]
    rows = EpisodeListQuery(episode_filter()).result().rows
    assert [(row.value, row.is_zero) for row in rows] == [(0.0, True), (0.7, False)]
