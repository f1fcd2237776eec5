"""Every ending is followed exactly once, wherever following is interrupted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.models import F, Sum
from django.test.utils import CaptureQueriesContext

from episodes.attempts.endings import Ending
from episodes.models import Activity, CurveBlock, Episode, Progress, StepSpan, ToolUse
from episodes.rollups import blocks
from episodes.rollups.activity import ActivityPart
from episodes.rollups.blocks import BlocksPart
from episodes.rollups.follower import catch_up, start_over
from episodes.rollups.part_runner import MAX_READ, EndingReader, Following, Overtaken
from episodes.rollups.rollup_part import NO_LIMIT, RollupPart
from episodes.rollups.tools import ToolsPart
from tests.episodes.playing import play
from tests.episodes.recorded import record
from tests.factories import episode_ended, episode_started, step_taken

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("no_follower")]
FOLLOWED = (Activity, CurveBlock, ToolUse)


class Numbers:
    """A part that lists the endings that it was given."""

    name, most_endings, most_steps = "numbers", 3, NO_LIMIT

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.forgot = 0
        self.fails = False

    def gather(self, endings: Sequence[Ending]) -> list[int]:
        return [ending.number for ending in endings]

    def write(self, gathered: list[int]) -> None:
        if self.fails:
            raise RuntimeError("stumbled")
        self.seen += gathered

    def forget(self) -> None:
        self.forgot += 1

    def empty(self) -> bool:
        return bool(self.seen and self.seen.pop())


def rows() -> list[Any]:
    """Return all rollups without ids. Sums are rounded, because they are added in another order."""
    found = []
    for model in FOLLOWED:
        names = [field.name for field in model._meta.fields if field.name != "id"]
        found.append(
            sorted(
                repr([_rounded(value) for value in row])
                for row in model.objects.values_list(*names)
            )
        )
    return found


def _rounded(value: Any) -> Any:
    return round(value, 6) if isinstance(value, float) else value


def place(name: str = "numbers") -> int:
    return Progress.objects.get(name=name).end_number


def test_it_follows_in_order_batch_by_batch() -> None:
    play(7)
    part = Numbers()
    following = Following(part)
    assert [following.advance() for _ in range(4)] == [True, True, True, False]
    assert part.seen == [1, 2, 3, 4, 5, 6, 7]
    assert place() == 7


def test_it_follows_no_episode_that_runs() -> None:
    record((episode_started(1), episode_started(2), episode_ended(2)))
    part = Numbers()
    assert Following(part).advance()
    assert part.seen == [1]


def test_a_new_process_goes_on_where_the_last_one_was() -> None:
    play(5)
    Following(Numbers()).advance()
    part = Numbers()
    Following(part).advance()
    assert part.seen == [4, 5]


def test_a_batch_that_failed_is_followed_again() -> None:
    play(3)
    part = Numbers()
    following, part.fails = Following(part), True
    with pytest.raises(RuntimeError):
        following.advance()
    assert (place(), part.forgot) == (0, 1)
    part.fails = False
    following.advance()
    assert part.seen == [1, 2, 3]


def test_of_two_processes_one_writes_a_batch() -> None:
    play(5)
    first, second = Numbers(), Numbers()
    behind = Following(first)
    behind.advance()
    Following(second).advance()
    with pytest.raises(Overtaken):
        behind.advance()
    assert first.seen + second.seen == [1, 2, 3, 4, 5]
    assert not behind.advance()


def test_episodes_with_many_steps_make_small_batches() -> None:
    play(5, steps=9, refused=1)
    part: RollupPart = Numbers()
    part.most_steps = 20
    Following(part).advance()
    assert place() == 2


def test_one_episode_with_too_many_steps_is_followed_alone() -> None:
    play(2, steps=9)
    part: RollupPart = Numbers()
    part.most_steps = 5
    Following(part).advance()
    assert place() == 1


def test_a_number_is_not_given_twice_when_its_episode_is_deleted() -> None:
    play(3)
    catch_up()
    Episode.objects.all().delete()
    play(1, first=10)
    assert Episode.objects.get().end_number == 4


def test_how_endings_fall_into_batches_makes_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_ENDINGS", 8)
    play(90)
    record(*((step_taken(n),) for n in range(1, 91)))
    catch_up()
    at_once = rows()
    assert all(at_once)
    for size in (1, 7, 100):
        for part in (ActivityPart, BlocksPart, ToolsPart):
            monkeypatch.setattr(part, "most_endings", size)
        start_over()
        catch_up()
        assert rows() == at_once, size


def test_restarts_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_ENDINGS", 8)
    for part in (ActivityPart, BlocksPart, ToolsPart):
        monkeypatch.setattr(part, "most_endings", 11)
    play(90)
    while any([Following(part()).advance() for part in (ActivityPart, BlocksPart, ToolsPart)]):
        pass
    piecemeal = rows()
    start_over()
    catch_up()
    assert rows() == piecemeal


def test_it_remembers_only_some_scopes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_ENDINGS", 8)
    play(90)
    catch_up()
    plenty = rows()
    start_over()
    monkeypatch.setattr(blocks, "MAX_SCOPES", 1)
    monkeypatch.setattr(BlocksPart, "most_endings", 3)
    catch_up()
    assert rows() == plenty


def test_it_reports_its_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BlocksPart, "most_endings", 2)
    play(3)
    heard: list[tuple[str, int]] = []
    assert catch_up(lambda *news: heard.append(news)) == len(heard)
    assert heard[:4] == [("activity", 3), ("blocks", 2), ("blocks", 3), ("steps", 3)]


def test_the_parts_that_catch_up_read_the_endings_once() -> None:
    play(3)
    with CaptureQueriesContext(connection) as queries:
        catch_up()
    assert sum(f"LIMIT {MAX_READ}" in one["sql"] for one in queries) == 1


def test_a_removal_between_two_parts_that_catch_up_is_noticed() -> None:
    play(3)

    def remove(part: str, end_number: int) -> None:
        if part == "activity":
            Progress.objects.update(removals=F("removals") + 1)
            Episode.objects.filter(end_number=2).delete()

    catch_up(remove)
    assert StepSpan.objects.filter(scope="environment").aggregate(all=Sum("episodes"))["all"] == 2


def test_the_command_rebuilds_everything() -> None:
    play(150)
    catch_up()
    before = rows()
    Activity.objects.update(episodes=0)
    CurveBlock.objects.all().delete()
    call_command("rebuild_statistics")
    assert rows() == before


def test_a_start_over_deletes_some_rows_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("episodes.rollups.rollup_part.MAX_DELETED", 2)
    play(20)
    catch_up()
    start_over()
    while place("activity") < 0:
        Following(ActivityPart()).advance()
    assert Activity.objects.count() == 0
    catch_up()
    assert Activity.objects.filter(period=86400).aggregate(all=Sum("episodes"))["all"] == 20


def test_what_is_at_its_end_costs_one_query(django_assert_num_queries: Any) -> None:
    play(3)
    catch_up()
    following = Following(BlocksPart())
    following.advance()
    with django_assert_num_queries(1):
        following.advance()


if connection.vendor == "sqlite":  # its plan does not depend on the content of the tables

    def test_endings_are_found_by_their_number() -> None:
        found = Episode.objects.filter(end_number__gt=5, status="ended").order_by("end_number")
        assert "USING INDEX episode_end (end_number>?)" in found.explain()


def test_a_round_ends_for_all_parts_where_the_record_ended_when_it_began() -> None:
    reader, first, second = EndingReader(has_rounds=True), Numbers(), Numbers()
    second.name = "others"
    followings = [Following(first, reader), Following(second, reader)]
    assert not any(following.advance() for following in followings)
    play(3)
    reader.begin_round()
    with CaptureQueriesContext(connection) as queries:
        for number, following in enumerate(followings, 4):
            assert following.advance()
            play(1, first=number)
            assert not following.advance() and following.place == 3
    # read once for both
    assert sum("julianday" in one["sql"] or "extract(epoch" in one["sql"] for one in queries) == 1
    reader.begin_round()
    for following in followings:
        assert following.advance() and following.place == 5
