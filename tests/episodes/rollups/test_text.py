"""Episodes can be searched soon after they end, and are found once."""

from __future__ import annotations

import pytest

from episodes.models import Progress, TranscriptText
from episodes.rollups.part_runner import EMPTYING, Following
from episodes.rollups.text import TextPart
from episodes.search.index import matching
from tests.stored import make_episode, make_step

pytestmark = pytest.mark.django_db


def ended(number: int, text: str) -> int:
    episode = make_episode(end_number=number, steps_count=1)
    make_step(episode, text)
    return episode.pk


def follow() -> None:
    following = Following(TextPart())
    while following.advance():
        pass


def test_what_has_ended_is_found() -> None:
    fox, _ = ended(1, "fox"), ended(2, "dog")
    follow()
    assert list(matching("fox")) == [fox]


def test_a_restart_neither_repeats_nor_forgets() -> None:
    ended(1, "fox")
    follow()
    ended(2, "fox")
    follow()
    assert TranscriptText.objects.count() == 2


def test_it_can_start_over() -> None:
    fox = ended(1, "fox")
    follow()
    Progress.objects.update(end_number=EMPTYING)
    follow()
    assert list(matching("fox")) == [fox]


def test_more_than_one_transaction_bears_is_followed_in_parts() -> None:
    for number in range(1, 2 * TextPart.most_endings):
        ended(number, "fox")
    follow()
    assert matching("fox").count() == 2 * TextPart.most_endings - 1
