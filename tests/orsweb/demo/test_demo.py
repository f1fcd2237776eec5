"""`manage.py demo`: what it records."""

from __future__ import annotations

import io

import pytest
from django.core.management import CommandError, call_command

from environments.models import Environment
from episodes.models import Episode, Step
from orsweb.server import database_lock
from tests.episodes.api.asking import get

pytestmark = pytest.mark.django_db(transaction=True)


def demo(episodes: int = 6, seed: int = 0) -> str:
    said = io.StringIO()
    call_command("demo", episodes=episodes, seed=seed, stdout=said)
    return said.getvalue()


def test_it_records_sound_episodes_of_every_kind_in_order_over_days() -> None:
    assert "Recorded 100 episodes in" in demo(100)
    causes = set(Episode.objects.values_list("cause", flat=True))
    assert causes == {"finished", "abandoned", "env_error", "setup_failed", "interrupted"}
    assert set(Episode.objects.values_list("player", flat=True)) == {"script"}
    assert Episode.objects.filter(is_probe=True).exists()
    assert set(Step.objects.values_list("status", flat=True)) == {"ok", "refused", "failed"}
    ends = [
        ended
        for ended in Episode.objects.order_by("end_number").values_list("ended", flat=True)
        if ended
    ]
    assert len(ends) == 100
    assert ends == sorted(ends)
    assert (ends[-1] - ends[0]).days >= 2
    the_reward_doctor_finds_no_problem()


def the_reward_doctor_finds_no_problem() -> None:
    found = [
        (name, one["check"], one["result"], one["sentence"])
        for name in Environment.objects.values_list("name", flat=True)
        for one in get(f"environments/{name}/doctor?attempts=10&calls=20")["findings"]
    ]
    assert not [one for one in found if one[2] == "problem"]
    assert len([one for one in found if one[2] == "fine"]) >= 20


def test_the_same_seed_records_the_same_once_more() -> None:
    demo()
    demo()
    found = list(
        Episode.objects.order_by("id").values_list(
            "task_id", "return_sum", "steps_count", "cause", "model"
        )
    )
    assert len(found) == 12
    assert found[:6] == found[6:]


def test_it_refuses_while_a_server_runs() -> None:
    with (
        database_lock.acquire(),
        pytest.raises(CommandError, match="This database already has a server"),
    ):
        demo()
