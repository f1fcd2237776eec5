"""Forms read a number only as it is written elsewhere: in the digits 0 to 9."""

from __future__ import annotations

import pytest
from django import forms
from django.test import Client

from environments.display.number_fields import NumberField, RowField, WholeNumberField
from environments.models import Environment
from episodes.models import Invite, Retention, Study
from tests.environments.curation.tasks import make_tasks, split_of
from tests.rows import each
from tests.stored import make_environment

pytestmark = pytest.mark.django_db

LOOSE = ["1_0", "\uff11\uff12", " 5 ", "\u0665", "5\n", "0x5", "\u00b2", "nan", "five", "--5"]


@each("text", LOOSE)
def test_other_spellings_are_refused_by_their_text(text: str) -> None:
    for field in (WholeNumberField(), NumberField()):
        with pytest.raises(forms.ValidationError, match="Enter digits, such as 12"):
            field.clean(text)
    with pytest.raises(forms.ValidationError, match="Select a valid choice"):
        RowField(Environment.objects.all()).clean(text)


@each(
    ("text", "number"),
    [("5", 5), ("-5", -5), ("+5", 5), ("007", 7), ("", None), ("12" * 20, int("12" * 20))],
)
def test_whole_numbers_are_read(text: str, number: int | None) -> None:
    assert WholeNumberField(required=False).clean(text) == number


@each(("text", "number"), [("0.1", 0.1), ("-.5", -0.5), ("1e3", 1000.0), ("5", 5.0), ("", None)])
def test_numbers_are_read(text: str, number: float | None) -> None:
    assert NumberField(required=False).clean(text) == number


@each("text", ["1e400", "-1e400", "9" * 400])
def test_numbers_beyond_a_double_are_refused(text: str) -> None:
    with pytest.raises(forms.ValidationError):
        NumberField().clean(text)


@pytest.mark.parametrize("text", ["1_0", "\uff11", " 1 "])
def test_no_page_reads_them(client: Client, text: str) -> None:
    environment, split = make_environment(), split_of(*make_tasks(2))
    place = {"place": str(environment.pk), "name": "a", "unit": "days"}
    study = {"name": "s", "tasks": f"split/{split.pk}", "attempts": text}
    member = {
        "member-TOTAL_FORMS": "1",
        "member-INITIAL_FORMS": "0",
        "member-0-split": str(split.pk),
    }
    score = {
        "action": "score",
        "default_return": "sum",
        "reward_low": "0",
        "reward_high": text,
        "success_threshold": "0",
    }
    pages = {
        "/play/invites/": {**place, "lasts": text},
        "/play/studies/new/": study,
        "/suites/new/": {"name": "s", "score": "success", **member, "member-0-weight": text},
        f"/admin/environments/environment/{environment.pk}/do/": score,
        "/admin/episodes/retention/add/": {"environment": str(environment.pk), "days": text},
        "/admin/environments/apikey/add/": {"name": "k", "scopes": "play", "days": text},
    }
    for path, form in pages.items():
        answer = client.post(path, form)
        assert (
            answer.status_code in (200, 400, 422)
            and "Enter digits, such as 12" in answer.content.decode()
        ), path
    assert not (Invite.objects.exists() or Study.objects.exists() or Retention.objects.exists())
