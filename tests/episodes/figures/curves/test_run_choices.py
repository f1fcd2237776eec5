"""Tests of the runs that the menu of a chart offers."""

from __future__ import annotations

import re
from urllib.parse import urlencode

import pytest
from django.test import Client

from episodes.figures.curves import pages as curves
from episodes.figures.curves.pages import MAX_CHOICES
from episodes.models import Run
from tests.stored import NOW, make_run

pytestmark = pytest.mark.django_db
CHOICES = "/runs/choices/"


def offered(client: Client, query: str = "") -> list[tuple[str, bool]]:
    """Return the runs that are offered, and whether each is checked."""
    page = client.get(f"{CHOICES}?{query}").content.decode()
    found = re.findall(r'<input type="checkbox" value="\d+"( checked)?>.*?<span>(.*?)</span>', page)
    return [(name, bool(checked)) for checked, name in found]


def test_the_chosen_runs_come_first_then_the_newest(client: Client) -> None:
    first, _, _ = (make_run(name) for name in ("first", "second", "third"))
    assert offered(client) == [("third", False), ("second", False), ("first", False)]
    assert offered(client, f"runs={first.pk}") == [
        ("first", True),
        ("third", False),
        ("second", False),
    ]


def test_quotation_marks_name_a_run_whose_name_is_a_number_or_holds_a_comma(client: Client) -> None:
    first = make_run("first")
    names = [str(first.pk), "lr=1e-5, seed=2", 'a "b"']
    for name in names:
        make_run(name)
    written = ",".join('"{}"'.format(name.replace('"', '""')) for name in names)
    chosen = [
        name for name, is_chosen in offered(client, urlencode({"runs": written})) if is_chosen
    ]
    assert chosen == ["&quot;".join(name.split('"')) for name in names]
    assert offered(client, f"runs={first.pk}")[0] == ("first", True)
    for refused in ('"first', '"first"s', '""', '"first" "first"'):
        page = client.get(CHOICES, {"runs": refused})
        assert page.status_code == 400 and "quotation marks around it" in page.content.decode()


def test_runs_are_found_by_name_and_by_model(client: Client) -> None:
    for name, model in (("grpo-1", "small"), ("sft-1", "GRPO-tuned"), ("sft-2", "small")):
        Run.objects.create(name=name, model=model, created=NOW)
    assert [name for name, _ in offered(client, "search=grpo")] == ["sft-1", "grpo-1"]
    assert "No run has “dpo”" in client.get(f"{CHOICES}?search=dpo").content.decode()


def test_case_and_accents_do_not_matter_in_any_script(client: Client) -> None:
    Run.objects.create(name="sft", model="\u041c\u041e\u0421\u041a\u0412\u0410", created=NOW)
    for name in ("\u00c4PFEL-1", "apfel-2", "\u0131"):
        make_run(name)
    for search, names in (
        ("\u00e4pfel", ["apfel-2", "\u00c4PFEL-1"]),
        ("\u043c\u043e\u0441\u043a", ["sft"]),
        ("i", []),
    ):
        assert [name for name, _ in offered(client, urlencode({"search": search}))] == names, search


def test_more_runs_than_fit_are_counted(client: Client) -> None:
    Run.objects.bulk_create(Run(name=str(number), created=NOW) for number in range(MAX_CHOICES + 2))
    assert "The newest 50 of 52 runs" in client.get(CHOICES).content.decode()


def test_only_the_newest_runs_are_searched(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curves, "MAX_SEARCHED", 2)
    for name in ("grpo-1", "grpo-2"):
        make_run(name)
    assert "were searched" not in client.get(CHOICES).content.decode()
    make_run("grpo-3")
    page = client.get(f"{CHOICES}?search=grpo").content.decode()
    assert (
        "grpo-1" not in page
        and "2 runs with" in page
        and "Only the newest 2 runs were searched." in page
    )


@pytest.mark.parametrize("query", ["runs=a", "name=grpo"])
def test_an_invalid_parameter_is_refused(client: Client, query: str) -> None:
    assert client.get(f"{CHOICES}?{query}").status_code == 400


def test_other_runs_of_a_chosen_name_come_before_the_newest(client: Client) -> None:
    first, second = (Run.objects.begin("tiny", created=NOW)[0] for _ in range(2))
    make_run("newer")
    assert offered(client, f"runs={first.pk}") == [
        ("tiny", True),
        ("tiny (2)", False),
        ("newer", False),
    ]
    assert offered(client, f"runs={second.pk}&search=x") == [("tiny (2)", True), ("tiny", False)]
