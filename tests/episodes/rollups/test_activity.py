"""Activity by minute, hour and day counts the episodes that ended then."""

from __future__ import annotations

import pytest

from environments.models import Environment
from episodes.attempts.endings import Ending, endings_of
from episodes.models import Activity, Episode
from episodes.rollups.activity import ActivityPart
from episodes.rollups.follower import catch_up
from tests.episodes.playing import THRESHOLD, causes, expired, own, play, played
from tests.episodes.recorded import record
from tests.factories import NOON, episode_ended, episode_started

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("no_follower")]
DAY = 86400


def within(row: Activity, endings: list[Ending]) -> list[Ending]:
    return [one for one in endings if row.start <= one.ended < row.start + row.period]


def test_each_row_counts_what_ended_then() -> None:
    play(200)
    catch_up()
    of_environment = {
        environment.pk: played(environment=environment) for environment in Environment.objects.all()
    }
    assert {row.period for row in Activity.objects.all()} == {60, 3600, DAY}
    for row in Activity.objects.all():
        endings = within(row, of_environment[row.environment_id])
        counted, late = own(endings), expired(endings)
        assert (row.episodes, row.scored, row.expired_scored) == (
            len(endings),
            len(counted),
            len(late),
        )
        assert row.successes == sum(one.return_sum > THRESHOLD for one in counted)
        assert row.return_total == pytest.approx(sum(one.return_sum for one in counted))
        assert row.expired_successes == sum(one.return_sum > THRESHOLD for one in late)
        assert row.expired_total == pytest.approx(sum(one.return_sum for one in late))
        assert row.steps == sum(one.steps for one in endings)
        assert (row.refused, row.failed) == (
            sum(one.refused for one in endings),
            sum(one.failed for one in endings),
        )
        kinds = {"probe": row.probes} | {cause: getattr(row, cause) for cause, _ in Episode.CAUSES}
        assert {kind: count for kind, count in kinds.items() if count} == causes(endings)


def test_no_ending_is_left_out() -> None:
    play(200)
    catch_up()
    for period in (60, 3600, DAY):
        assert sum(row.episodes for row in Activity.objects.filter(period=period)) == 200


def test_it_goes_by_the_definition_in_force() -> None:
    record((episode_started(), episode_ended(return_sum=0.0, return_last=None, return_max=3.0)))
    Environment.objects.update(default_return="max", success_threshold=2.0)
    catch_up()
    day = Activity.objects.get(period=DAY)
    assert (day.scored, day.successes, day.return_total) == (1, 1, 3.0)


def test_an_attempt_without_a_return_is_no_success() -> None:
    record((episode_started(), episode_ended(return_last=None)))
    Environment.objects.update(default_return="last", success_threshold=-1.0)
    catch_up()
    day = Activity.objects.get(period=DAY)
    assert (day.finished, day.scored, day.successes) == (1, 0, 0)


def end_at(*moments: float) -> list[Ending]:
    record(
        *(
            (episode_started(n), episode_ended(n, ended=moment))
            for n, moment in enumerate(moments, 1)
        )
    )
    return endings_of(Episode.objects.all())


def periods(part: ActivityPart, endings: list[Ending]) -> list[int]:
    part.write(part.gather(endings))
    return sorted(Activity.objects.values_list("period", flat=True))


@pytest.mark.parametrize(
    ("age", "kept"), [(2 * DAY, [60, 3600, DAY]), (5 * DAY, [3600, DAY]), (99 * DAY, [DAY])]
)
def test_what_ended_long_ago_is_kept_in_less_detail(age: int, kept: list[int]) -> None:
    assert periods(ActivityPart(lambda: NOON + age), end_at(NOON)) == kept


def test_details_go_as_time_passes() -> None:
    endings, moment = end_at(NOON, NOON + 100 * DAY), NOON
    part = ActivityPart(lambda: moment)
    assert periods(part, endings[:1]) == [60, 3600, DAY]
    moment = NOON + 100 * DAY
    assert periods(part, endings[1:]) == [60, 3600, DAY, DAY]
