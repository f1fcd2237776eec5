"""Edit: new content is another task, which takes the old one's places; the second of two editors is
refused."""

from __future__ import annotations

import threading

import pytest
from django.db import connection

from environments.curation.action import ActionRefused, InvalidSpec, OrsError, Replaced, SplitShare
from environments.curation.actions.quarantine import Quarantine, Release
from environments.curation.actions.tags import AddTags
from environments.curation.edit import Edit, last_revision
from environments.curation.splits import freeze
from environments.models import Environment, Task, TaskFlag, TaskRevision, TaskTag
from environments.tasks.flags import flag
from environments.tasks.split_change import SplitChange
from environments.tasks.split_errors import SplitBusy
from tests.environments.curation.tasks import AUTHOR, make_tasks, served, split_of
from tests.filters import select

pytestmark = pytest.mark.django_db(transaction=True)

NEW = '{"n": "new"}'


def edit(task: int, spec: str = NEW, seen: int = 0) -> int:
    outcome = Edit(task, spec, seen, "typo").apply(AUTHOR)
    assert outcome.task is not None
    return outcome.task


def test_an_edited_task_in_any_script_is_found() -> None:
    new = edit(make_tasks(1)[0], '{"n": "\u00c4pfel"}')
    assert Task.objects.get(select(search="\u00e4PFEL").condition()).pk == new


def test_the_new_content_takes_the_old_ones_places() -> None:
    one, two, three = make_tasks(3)
    train, test = split_of(one, two, three, two), split_of(two, name="test")
    new = edit(two)
    assert (served(train), served(test)) == ([one, new, three, new], [new])
    row = Task.objects.get(pk=new)
    assert (row.spec, row.source, row.state) == ('{"n":"new"}', "edit", "active")


def test_the_history_shows_who_when_why_before_and_after() -> None:
    [old] = make_tasks(1)
    new = edit(old)
    revision = TaskRevision.objects.get()
    assert (revision.task_id, revision.successor_id, revision.kind) == (old, new, "edit")
    assert (revision.author, revision.reason) == (AUTHOR, "typo")
    assert (revision.before, revision.after) == ('{"n": 0}', '{"n":"new"}')


def test_a_frozen_split_keeps_the_old_content() -> None:
    [old] = make_tasks(1)
    frozen, train = split_of(old, name="held-out"), split_of(old)
    freeze(frozen)
    new = edit(old)
    assert (served(frozen), served(train)) == ([old], [new])


def test_a_split_that_has_the_new_content_already_lists_it_once() -> None:
    old, known = make_tasks(2)
    both, other = split_of(old, known), split_of(old, name="other")
    assert edit(old, '{"n": 1}') == known
    assert (served(both), served(other)) == ([known], [known])
    assert Task.objects.count() == 2


def test_an_edited_task_keeps_its_tags_and_stays_quarantined() -> None:
    [old] = make_tasks(1)
    train = split_of(old)
    AddTags(select(), ("hard",)).apply(AUTHOR)
    Quarantine(select(), "typo").apply(AUTHOR)
    new = edit(old, seen=last_revision(Task.objects.get()))
    assert served(train) == []
    assert list(TaskTag.objects.filter(task=new).values_list("name", flat=True)) == ["hard"]
    Release(select(ids=(new,))).apply(AUTHOR)
    assert served(train) == [new]


def test_it_serves_known_content_that_is_active_in_place_of_a_quarantined_task() -> None:
    old, known = make_tasks(2)
    train = split_of(old)
    Quarantine(select(ids=(old,)), "typo").apply(AUTHOR)
    edit(old, '{"n": 1}', last_revision(Task.objects.get(pk=old)))
    assert served(train) == [known]


def test_the_second_of_two_editors_gets_the_revision_of_the_first() -> None:
    [old] = make_tasks(1)
    split = split_of(old)
    first = edit(old, '{"n": "first"}')
    with pytest.raises(Replaced, match="ada changed this task at") as refused:
        edit(old, '{"n": "second"}')
    assert refused.value.revision.after == '{"n":"first"}'
    assert served(split) == [first]
    assert not Task.objects.filter(spec__contains="second").exists()


def test_the_plan_refuses_the_second_editor_too() -> None:
    [old] = make_tasks(1)
    edit(old, '{"n": "first"}')
    with pytest.raises(Replaced):
        Edit(old, '{"n": "second"}', 0).plan()


def test_the_second_of_two_editors_is_refused() -> None:
    [old] = make_tasks(1)
    split, outcomes = split_of(old), list[int | OrsError]()
    start = threading.Barrier(2)

    def save(spec: str) -> None:
        start.wait()
        try:
            outcomes.append(edit(old, spec))
        except OrsError as refused:
            outcomes.append(refused)
        connection.close()

    editors = [threading.Thread(target=save, args=[f'{{"n": "{name}"}}']) for name in "ab"]
    [editor.start() for editor in editors]
    [editor.join() for editor in editors]
    [saved] = [outcome for outcome in outcomes if isinstance(outcome, int)]
    assert served(split) == [saved]
    assert TaskRevision.objects.count() == 1


def test_an_editor_who_has_seen_the_others_edit_may_edit_again() -> None:
    [old] = make_tasks(1)
    edit(old, '{"n": "first"}')
    assert edit(old, '{"n": "second"}', last_revision(Task.objects.get(pk=old)))


def test_it_refuses_content_that_is_the_same() -> None:
    [old] = make_tasks(1)
    with pytest.raises(ActionRefused, match="hasn't changed"):
        edit(old, ' {"n":0} ')


def test_it_refuses_what_the_schema_refuses_and_changes_nothing() -> None:
    [old] = make_tasks(1)
    Environment.objects.update(task_schema='{"properties": {"n": {"type": "integer"}}}')
    with pytest.raises(InvalidSpec, match="n: 'new' is not of type 'integer'"):
        edit(old)
    assert Task.objects.count() == 1


def test_it_refuses_a_task_that_does_not_exist() -> None:
    with pytest.raises(ActionRefused, match="does not exist"):
        edit(999)


def test_it_changes_nothing_while_a_split_is_being_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("environments.curation.work.MAX_WAIT_SECONDS", 0.0)
    [old] = make_tasks(1)
    split = split_of(old)
    with SplitChange(split), pytest.raises(SplitBusy):
        edit(old)
    assert served(split) == [old]
    assert not TaskRevision.objects.exists()


def test_it_plans_what_will_be_touched() -> None:
    old, known = make_tasks(2)
    frozen, train = split_of(old, name="held-out"), split_of(old, known)
    freeze(frozen)
    Quarantine(select(ids=(known,)), "odd").apply(AUTHOR)
    plan, name = Edit(old, '{"n": 1}', 0).plan(), Task.objects.get(pk=known)
    assert plan.splits == (SplitShare(train.pk, "train", 1),)
    assert plan.frozen == (SplitShare(frozen.pk, "held-out", 1),)
    assert plan.sentences == (
        "1 task is in split 'train'.",
        "Split 'held-out' is frozen and continues to serve 1 task of them.",
        f"There is a task with this content already, {name}: that task, with its results, takes "
        "the place.",
        "It is quarantined (odd), so agents won't get it until you release it.",
        "Split 'train' has it already and will have it once.",
    )


def test_it_says_when_no_agent_will_get_the_new_content() -> None:
    [old] = make_tasks(1)
    assert "agents won't get" in Edit(old, NEW, 0).plan().sentences[0]


def test_open_flags_follow_the_edit_and_ask_to_be_resolved() -> None:
    [one] = make_tasks(1)
    flag(Task.objects.get(pk=one), "bob", "wrong unit")
    outcome = Edit(one, '{"n": "new"}', 0).apply(AUTHOR)
    assert outcome.sentence.endswith("1 open flag: resolve what the edit mends.")
    assert TaskFlag.objects.get().task_id == outcome.task
