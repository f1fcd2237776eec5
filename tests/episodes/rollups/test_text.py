"""Episodes can be searched soon after they end, and are found once."""

from __future__ import annotations

import pytest
from pytest_django import DjangoCaptureOnCommitCallbacks

from episodes.attempts.endings import endings_of
from episodes.models import Episode, Progress, TranscriptText
from episodes.rollups import text
from episodes.rollups.part_runner import EMPTYING, Following, Overtaken
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


def test_what_another_process_has_indexed_meanwhile_stays() -> None:
    fox = ended(1, "fox")
    slow, quick = Following(TextPart()), Following(TextPart())
    assert slow.place == quick.place == 0
    quick.advance()
    with pytest.raises(Overtaken):
        slow.advance()
    assert list(matching("fox")) == [fox]


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


def test_a_batch_is_as_large_as_the_one_before_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(1, 5):
        ended(number, "fox")
    endings = endings_of(Episode.objects.all(), 4)
    part = TextPart()
    part.gather(endings)
    assert part.most_endings == text.MAX_ENDINGS
    monkeypatch.setattr(text, "BATCH_SECONDS", 1e-9)
    part.gather(endings)
    assert part.most_endings == 1


LONG = "".join(f"word{number} " for number in range(30_000))


def test_all_parts_of_a_long_transcript_are_written_once() -> None:
    fox = ended(1, f"{LONG} the fox")
    follow()
    parts = list(TranscriptText.objects.order_by("part").values_list("part", flat=True))
    assert parts == list(range(len(parts))) and len(parts) > 4
    assert list(matching('"the fox"')) == [fox]


def test_nothing_stays_of_what_was_begun_in_vain() -> None:
    ended(1, LONG)
    part = TextPart()
    part.gather(endings_of(Episode.objects.all()))
    assert TranscriptText.objects.exists()
    part.forget()
    assert not TranscriptText.objects.exists()


def test_what_was_written_stays_when_the_next_batch_fails(
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    ended(1, LONG)
    part = TextPart()
    with django_capture_on_commit_callbacks(execute=True):
        part.write(part.gather(endings_of(Episode.objects.all())))
    part.forget()
    assert TranscriptText.objects.filter(part=0).exists()
