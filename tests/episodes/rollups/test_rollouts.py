"""Rollouts are summarised some time after they were uploaded: episode, figures, tokens, text
index."""

from __future__ import annotations

from datetime import timedelta
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest
from django.apps import apps
from django.db import connection, transaction
from django.utils import timezone

from environments.runtime.records import RunInfo
from episodes.models import Rollout, RolloutMessage, RolloutScan
from episodes.rollups.follower import catch_up, start_over
from episodes.rollups.rollouts import RolloutFollowing, _summaries, _write
from episodes.search.index import matching
from episodes.uploads.matching import find_match, rollout_of
from tests.episodes.reported import played, reported
from tests.filters import rollout_filter

pytestmark = pytest.mark.django_db(transaction=True)

HI = ("tool_call", '{"text":"hi"}', {"name": "echo"})
NAMED = '{"run_info": {"model_name": "m-1"}}'


def add(rollout: Rollout, text: str, **fields: Any) -> RolloutMessage:
    index = rollout.messages.count()
    values = {"kind": "assistant_message", "received": timezone.now(), **fields}
    return RolloutMessage.objects.create(
        rollout=rollout, index=index, event_id=f"new-{index}", content=text, **values
    )


def summarised(rollout: Rollout) -> Rollout:
    catch_up()
    rollout.refresh_from_db()
    assert rollout.is_summarised
    return rollout


def texts(query: str) -> list[str]:
    return [one.event_id for one in rollout_filter(text=query).rollouts()]


def test_it_stores_the_episode_and_the_figures() -> None:
    episode = played()
    rollout = summarised(reported())
    assert (rollout.episode_id, rollout.joined_by) == (episode.pk, "calls")
    assert (rollout.messages_count, rollout.reward, rollout.is_finished) == (6, 0.5, False)
    found = rollout_of(episode)
    assert found is not None
    assert (found[0], found[1].by) == (rollout, "calls")


def test_a_rollout_that_still_grows_waits() -> None:
    rollout = reported()
    following = RolloutFollowing(quiet_seconds=60)
    while following.advance():
        pass
    rollout.refresh_from_db()
    assert not rollout.is_summarised
    rollout.messages.update(received=timezone.now() - timedelta(minutes=2))
    assert following.advance()
    rollout.refresh_from_db()
    assert rollout.is_summarised


def test_it_is_summarised_again_after_a_message() -> None:
    rollout = summarised(reported(messages=[HI]))
    add(rollout, "a late zebra", reward=1.0, is_finished=True)
    rollout = summarised(rollout)
    assert (rollout.messages_count, rollout.reward, rollout.is_finished) == (2, 1.0, True)
    assert texts("zebra") == ["r-1"]
    assert RolloutScan.objects.get().message == rollout.messages.order_by("-pk")[0].pk


def test_what_changes_meanwhile_is_not_lost() -> None:
    rollout = reported(messages=[])
    stale = Rollout.objects.get(pk=rollout.pk)
    summaries = _summaries([stale])
    Rollout.objects.filter(pk=rollout.pk).update(info='{"task_index": [1, 3]}')
    with transaction.atomic():
        _write(summaries)
    rollout.refresh_from_db()
    assert not rollout.is_summarised


def test_an_episode_that_another_rollout_names_is_left_to_it() -> None:
    first, second = played(1), played(2)
    named = reported("named", messages=[HI], event='{"metadata": {"session_id": "s-1"}}')
    unnamed = reported("unnamed", messages=[HI])
    assert summarised(named).episode_id == first.pk
    unnamed.refresh_from_db()
    assert (unnamed.episode_id, unnamed.joined_by) == (second.pk, "calls")


def test_equal_rollouts_of_equal_episodes_get_one_each() -> None:
    episodes = {played(number).pk for number in (1, 2, 3)}
    rollouts = [reported(f"r-{number}", messages=[HI]) for number in (1, 2, 3)]
    catch_up()
    joined = Rollout.objects.filter(pk__in=[one.pk for one in rollouts])
    assert set(joined.values_list("joined_by", flat=True)) == {"guess"}
    assert set(joined.values_list("episode", flat=True)) == episodes
    start_over()
    catch_up()
    assert set(joined.values_list("episode", flat=True)) == episodes


def test_the_session_may_be_in_the_metadata_of_a_message() -> None:
    played(1)
    second = played(2)
    extra = '{"metadata": {"session_id": "s-2"}}'
    rollout = summarised(reported(messages=[("reasoning", "Hm", {"extra": extra}), HI]))
    assert (rollout.episode_id, rollout.joined_by) == (second.pk, "session")
    Rollout.objects.update(is_summarised=False)
    match = find_match(rollout)
    assert match is not None
    assert (match.episode, match.by) == (second, "session")


def test_the_same_calls_again_are_another_episode() -> None:
    first = played(1)
    assert summarised(reported("r-1", messages=[HI])).episode_id == first.pk
    second = played(2)
    again = summarised(reported("r-2", messages=[HI]))
    assert (again.episode_id, again.joined_by) == (second.pk, "calls")


# --- search ---------------------------------------------------------------------------------------


def test_an_episode_is_found_by_what_its_model_thought() -> None:
    episode = played()
    assert list(matching("four")) == []
    summarised(reported())
    assert list(matching("must four")) == [episode.pk]
    assert list(matching("thinking")) == [episode.pk]  # the summary of the reasoning
    assert texts("four") == ["r-1"]


def test_a_rollout_without_an_episode_is_found_in_the_list() -> None:
    summarised(reported(environment_name="elsewhere"))
    assert texts('"let me check"') == ["r-1"]
    assert texts("ech*") == ["r-1"]
    assert texts('"check let"') == []
    assert list(matching("check")) == []


def test_a_rollout_that_gets_an_episode_is_found_once() -> None:
    rollout = summarised(reported())
    played()
    add(rollout, "more")
    summarised(rollout)
    assert texts("more") == ["r-1"]
    assert texts("four") == ["r-1"]


def test_a_rebuild_finds_the_same() -> None:
    episode = played()
    summarised(reported())
    summarised(reported("alone", environment_name="elsewhere"))
    start_over()
    catch_up()
    assert list(matching("four")) == [episode.pk]
    assert texts("four") == ["alone", "r-1"]


# --- tokens and cost ------------------------------------------------------------------------------


def usage(text: str) -> str:
    return f'{{"metadata": {text}}}'


OPENAI = usage(
    '{"usage": {"prompt_tokens": 10, "completion_tokens": 4, "prompt_tokens_details": '
    '{"cached_tokens": 8}}}'
)
REASONED = usage(
    '{"usage": {"input_tokens": 7, "output_tokens": 3, "output_tokens_details": '
    '{"reasoning_tokens": 2}}}'
)
ANTHROPIC = usage(
    '{"usage": {"input_tokens": 1, "cache_read_input_tokens": 5, "output_tokens": 2}, "cost": 0.25}'
)
GOOGLE = usage(
    '{"usage_metadata": {"prompt_token_count": 3, "candidates_token_count": 2, '
    '"thoughts_token_count": 9}}'
)
NONE = (None, None, None, None, None)


@pytest.mark.parametrize(
    ("extras", "expected"),
    [
        ([""], NONE),
        ([OPENAI], (10, 4, None, 8, None)),
        ([OPENAI, REASONED], (17, 7, 2, 8, None)),
        ([OPENAI, OPENAI], (10, 4, None, 8, None)),  # one response in two messages
        ([OPENAI, "", OPENAI], (20, 8, None, 16, None)),
        ([ANTHROPIC], (6, 2, None, 5, 0.25)),
        ([GOOGLE], (3, 11, 9, None, None)),
        (
            [usage('{"usage": {"prompt_tokens": -1, "completion_tokens": "many", "cost": 1e999}}')],
            NONE,
        ),
        ([usage(f'{{"usage": {{"output_tokens": 1{"0" * 400}}}, "cost": 1{"0" * 400}}}')], NONE),
        ([usage('{"usage": [1]}'), usage('{"tokens": {}}')], NONE),
    ],
)
def test_tokens_and_cost_are_added_up(
    extras: list[str], expected: tuple[float | None, ...]
) -> None:
    rollout = reported(messages=[("assistant_message", "x", {"extra": extra}) for extra in extras])
    rollout = summarised(rollout)
    assert _usage(rollout) == expected


def test_totals_of_the_client_take_precedence() -> None:
    rollout = reported(
        messages=[("assistant_message", "x", {"extra": OPENAI})],
        info='{"cost": [1, 0.5], "output_tokens": [1, 99]}',
    )
    assert _usage(summarised(rollout)) == (10, 99, None, 8, 0.5)


def _usage(one: Rollout) -> tuple[float | None, ...]:
    return one.input_tokens, one.output_tokens, one.reasoning_tokens, one.cached_tokens, one.cost


# --- what the client leaves out -------------------------------------------------------------------


def test_a_model_that_the_client_does_not_name_is_that_of_the_episode() -> None:
    played(run=RunInfo(model="m-7"))
    assert summarised(reported(messages=[HI])).model == "m-7"
    assert [one.event_id for one in rollout_filter(model="m-7").rollouts()] == ["r-1"]


def test_a_model_that_the_client_names_stays() -> None:
    played(run=RunInfo(model="m-7"))
    assert summarised(reported(messages=[HI], model="m-1", event=NAMED)).model == "m-1"


def test_a_guess_names_no_model() -> None:
    for number in (1, 2):
        played(number, run=RunInfo(model="m-7"))
    assert summarised(reported(messages=[HI])).joined_by == "guess"
    assert Rollout.objects.get().model == ""


def test_a_model_that_arrives_meanwhile_is_not_replaced() -> None:
    played(run=RunInfo(model="m-7"))
    stale = Rollout.objects.get(pk=reported(messages=[HI], is_announced=False).pk)
    summaries = _summaries([stale])
    Rollout.objects.update(is_announced=True, model="m-1", event=NAMED)
    with transaction.atomic():
        _write(summaries)
    assert Rollout.objects.get().model == "m-1"


def test_an_upgrade_names_the_models_of_joined_rollouts() -> None:
    episode = played(run=RunInfo(model="m-7"))
    for event_id, by in (("own", "calls"), ("guess", "guess"), ("named", "session")):
        reported(
            event_id,
            episode=episode,
            joined_by=by,
            is_summarised=True,
            model="m-1" if event_id == "named" else "",
        )
    reported("alone")
    migration = import_module("episodes.migrations.0021_models_of_rollouts")
    migration.name_models(apps, SimpleNamespace(connection=connection))
    models = dict(Rollout.objects.values_list("event_id", "model"))
    assert models == {"own": "m-7", "guess": "", "named": "m-1", "alone": ""}


def test_an_upgrade_names_the_environments_of_rollouts() -> None:
    echo = played().environment
    for event_id, name in (("named", "echo"), ("elsewhere", "chess"), ("nameless", "")):
        reported(event_id, environment_name=name, hosted_environment=None)
    migration = import_module("episodes.migrations.0024_environments_of_rollouts")
    migration.name_environments(apps, SimpleNamespace(connection=connection))
    environments = dict(Rollout.objects.values_list("event_id", "hosted_environment"))
    assert environments == {"named": echo.pk, "elsewhere": None, "nameless": None}
