"""Tests of `manage.py reexecute`."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from episodes.models import Episode, Step
from tests.stored import make_blob, make_environment, make_episode, make_run, make_step, make_task

pytestmark = pytest.mark.django_db(transaction=True)


def reexecuted(*arguments: str, status: int = 0) -> str:
    """Run the command with the classes of `tests.envs`; return what it prints."""
    output = StringIO()
    try:
        call_command("reexecute", "tests.envs:Echo", *arguments, stdout=output)
    except SystemExit as done:
        assert done.code == status
    else:
        assert status == 0
    return output.getvalue()


def refused(*arguments: str) -> str:
    """Return why the command plays nothing with these arguments, some of which the parser
    refuses."""
    with pytest.raises(CommandError) as raised:
        reexecuted(*arguments)
    assert raised.value.returncode in (1, 2)  # 1: arguments that call_command's parser refuses
    return str(raised.value)


def echoed(text: str = "hi", reward: float | None = 0.1, **values: Any) -> Step:
    episode = values.pop("episode", None) or make_episode(
        task=make_task({"id": 1}, make_environment("echo")), run=make_run()
    )
    output = {"blocks": [{"text": text, "detail": None, "type": "text"}], "metadata": None}
    return make_step(
        episode,
        **{"tool": "echo", "input": json.dumps({"text": "hi"}), "reward": reward, **values},
        output=json.dumps({**output, "reward": reward, "finished": False}),
    )


def test_an_episode_that_plays_as_recorded_does_not_differ() -> None:
    echoed()
    assert "1 episode with 1 call played; 0 differ." in reexecuted("--run", "grpo-3")


def test_what_differs_is_listed_with_its_step() -> None:
    step = echoed("other", 0.5)
    printed = reexecuted("--run", "grpo-3", status=1)
    assert (
        f'episode {step.episode_id} (echo), step 0, echo: output was "other", is "hi"; reward was '
        "0.5, is 0.1" in printed
    )
    assert "1 differ" in printed


def test_long_outputs_are_shown_where_they_differ() -> None:
    text = "word " * 100
    echoed(f"{text}one", input=json.dumps({"text": f"{text}two"}))
    printed = reexecuted("--run", "grpo-3", status=1)
    assert 'word one", is "\N{HORIZONTAL ELLIPSIS}' in printed and 'word two"' in printed


def test_other_components_of_the_reward_differ_and_the_unplayable_are_counted_apart() -> None:
    step = echoed()
    output = json.loads(step.output) | {"metadata": {"reward_components": {"cost": 1}}}
    Step.objects.filter(pk=step.pk).update(output=json.dumps(output))
    echoed(
        episode=make_episode(task=make_task({"id": 1}, make_environment("gone")), run=make_run())
    )
    printed = reexecuted("--run", "grpo-3", status=1)
    assert 'components was {"cost": 1.0}, is {}' in printed
    assert "1 differ. 1 cannot be played." in printed


def test_a_refused_call_is_played_too_and_one_that_was_cut_short_is_not() -> None:
    step = echoed()
    facts = {"output": "", "reward": None}
    make_step(
        step.episode,
        tool="echo",
        status="failed",
        reason="deleted",
        error="Session deleted",
        **facts,
    )
    printed = reexecuted("--run", "grpo-3")
    assert "1 call played" in printed


def test_a_call_that_was_refused_then_and_runs_now_differs() -> None:
    step = echoed()
    Step.objects.filter(pk=step.pk).update(
        status="refused", reason="not_found", error="no tool", output=""
    )
    assert "outcome was refused not_found, is ok" in reexecuted("--run", "grpo-3", status=1)


def test_another_prompt_differs() -> None:
    step = echoed()
    Episode.objects.filter(pk=step.episode_id).update(
        prompt=make_blob('[{"type": "text", "text": "Old"}]')
    )
    assert "the prompt differs" in reexecuted("--run", "grpo-3", status=1)


def test_nothing_is_recorded() -> None:
    echoed()
    reexecuted("--run", "grpo-3")
    assert (Episode.objects.count(), Step.objects.count()) == (1, 1)


def test_only_the_newest_are_played() -> None:
    echoed("other")
    echoed(
        episode=make_episode(task=make_task({"id": 2}, make_environment("echo")), run=make_run())
    )
    assert "1 episode with" in reexecuted("--run", "grpo-3", "--limit", "1")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "--run NAME or --query FILTER"),
        (("--query", "return=sum"), "--run NAME or --query FILTER"),
        (
            ("--query", "steps_from=0"),
            "No ended episode is outside of steps_from=0. Name the episodes to play",
        ),
        (
            ("--query", "since=0001-01-01"),
            "No ended episode is outside of since=0001-01-01. Name the episodes to play",
        ),
        (
            ("--run", "grpo-3", "--limit", "0"),
            "argument --limit: '0' is not a whole number above 0",
        ),
        (
            ("--run", "grpo-3", "--limit", "-1"),
            "argument --limit: '-1' is not a whole number above 0",
        ),
        (
            ("--run", "grpo-3", "--limit", "1_0"),
            "argument --limit: '1_0' is not a whole number above 0",
        ),
        (("--run", " "), "argument --run: ' ' is blank"),
        (("--query", "run=+"), "run=' ' cannot be used: it is blank"),
        (("--query", "run=grpo-3&model="), "model='' cannot be used: it is blank"),
        (("--query", "until=9999-12-31"), "until='9999-12-31' cannot be used: it is after now"),
        (("--run", "nobody"), "No run is named 'nobody'"),
        (("--query", "ending=probe"), "nothing to play"),
        (("--run", "grpo-3", "--secret", "NO_SUCH_VARIABLE"), "NO_SUCH_VARIABLE"),
        (("--query", "run=grpo-3"), "No episode could be played"),
    ],
)
def test_what_cannot_be_played_is_refused_with_the_reason(
    arguments: tuple[str, ...], sentence: str
) -> None:
    echoed(
        episode=make_episode(task=make_task({"id": 1}, make_environment("gone")), run=make_run())
    )
    assert sentence in refused(*arguments)


def test_recorded_texts_cannot_control_the_terminal() -> None:
    echoed("\x1b[2J\x9b1m\u202e", tool="echo\x1b]0;owned\x07")
    printed = reexecuted("--run", "grpo-3", status=1)
    assert "echo␛]0;owned␇" in printed and not {"\x1b", "\x07", "\x9b", "\u202e"} & set(printed)
