"""No statement of an export goes through a table that can grow, unless all of it is asked for.

A file is read in batches in the order of ids, along the index of its filter.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from django.core.management import call_command
from django.test import Client

from environments.curation.transfer.source import FORMATS as TASK_FORMATS
from environments.models import Split, Task
from episodes.models import Episode
from episodes.search.index import index
from episodes.transfer.formats import EXPORT_FORMATS
from tests.episodes.dashboard.test_page_plans import EXCEPTIONS as OF_PAGES
from tests.episodes.ended import end_episode
from tests.episodes.suites.test_pages import form
from tests.episodes.transfer.record import make_rich_episodes
from tests.people import client_of
from tests.private import NUMBER, make_private
from tests.statement_plans import caught, judge
from tests.stored import make_step

pytestmark = pytest.mark.django_db(transaction=True)

FILTERS = (
    f"ids={NUMBER},{NUMBER - 1}",
    "environment=canaryenv",
    "environment=canaryenv&split=canarysplit",
    f"task={NUMBER}",
    "run=canaryrun",
    "run=canaryrun&step=1",
    "model=canarymodel",
    "revision=canarycode",
    "player=human",
    "who=@canaryperson",
    "study=canarystudy",
    "suite=canarysuite/v1",
    "text=canaryoutput",
    "ending=interrupted",
    "ending=running",
    "ending=attempt&environment=canaryenv",
    "environment=canaryenv&min_return=0.2",
    "environment=canaryenv&success=yes",
    "environment=canaryenv&return_from=0.2&return_to=1",
    "environment=canaryenv&error=no",
    "environment=canaryenv&since=2026-01-01",
    "environment=canaryenv&ends=1..9",
    "label=seed=1&environment=canaryenv",
)
OF_ROLLOUTS = (
    "rollout=canaryrollout",
    "environment=canaryenv",
    "run=canaryrun",
    "model=canarymodel",
    f"episode={NUMBER}",
    "text=canarymessage",
    "joined=yes",
    "joined=guess",
    "joined=no",
)
FIGURES = (
    "runs/curves/?by=run&format=csv",
    f"runs/curves/?runs={NUMBER}&x=step&y=return,components&format=csv",
    "environments/canaryenv/leaderboard/?format=csv",
    "environments/canaryenv/leaderboard/?by=run&tasks=shared&format=csv",
    "suites/canarysuite/?format=csv",
    "play/studies/canarystudy/results.csv",
)
EXCEPTIONS = {
    **OF_PAGES,
    """"environment_id" = "environments_environment"."id") WHERE "episodes_episode"."status" = 0 GROUP BY""": (
        "a file of all episodes says how many of all episodes count"
    ),
    'SELECT COUNT(*) AS "__count" FROM "episodes_episode";': "the command shows how far a file of "
    "all episodes is",
}
"""Parts of statements that may read a whole table, with the reason."""


@pytest.fixture(autouse=True)
def rows() -> None:
    """What is recorded: episodes with everything and with nothing, a pair, and an uploaded
    conversation."""
    make_private()
    make_rich_episodes()
    for pk, reward in ((NUMBER - 1, 0.5), (NUMBER - 3, 0.0)):
        episode = Episode.objects.filter(pk=pk).first()
        make_step(
            episode or end_episode(reward, pk=pk, task=Task.objects.get(pk=NUMBER)), reward=reward
        )
    index([NUMBER, NUMBER - 1])


def visit(client: Client, path: str) -> None:
    response = client.get(path)
    assert response.status_code in (200, 404), (path, response.content)
    if response.streaming:
        b"".join(response)  # type: ignore[arg-type]


def test_no_statement_of_a_file_of_what_a_filter_finds_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = client_of("operator")
    with caught(monkeypatch) as statements:
        for query in FILTERS:
            visit(client, f"/episodes/export?format=jsonl&{query}")
            if not query.startswith("ids"):
                visit(client, f"/api/episodes/export?format=csv&{query}")
        for format in EXPORT_FORMATS:
            visit(client, f"/episodes/export?format={format}&environment=canaryenv")
        for query in OF_ROLLOUTS:
            visit(client, f"/conversations/export?{query}")
        for path in FIGURES:
            visit(client, f"/{path}")
        for format in TASK_FORMATS:
            for query in (
                f"environment={NUMBER}",
                f"split={NUMBER}",
                f"ids={NUMBER}",
                "tag=canarytag",
            ):
                visit(client, f"/admin/environments/task/export/?{query}&format={format}")
    judge(statements, EXCEPTIONS, least=100)


def test_no_statement_of_a_file_of_everything_does(monkeypatch: pytest.MonkeyPatch) -> None:
    client = client_of("operator")
    with caught(monkeypatch) as statements:
        for format in EXPORT_FORMATS:
            visit(client, f"/episodes/export?format={format}")
            visit(client, f"/api/episodes/export?format={format}")
        visit(client, "/conversations/export")
        visit(client, "/admin/environments/task/export/?format=jsonl")
        visit(client, "/runs/curves/?format=csv")
    judge(statements, EXCEPTIONS, least=50)


def test_no_statement_of_the_commands_does(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with caught(monkeypatch) as statements:
        for format in EXPORT_FORMATS:
            export(
                "export_episodes",
                tmp_path,
                "--format",
                format,
                "--environment",
                "canaryenv",
                "--arguments",
                "string",
            )
        export(
            "export_episodes",
            tmp_path,
            "--format",
            "jsonl",
            "--run",
            "canaryrun",
            "--min-return",
            "0.1",
        )
        export("export_episodes", tmp_path, "--format", "jsonl")
        export("export_rollouts", tmp_path, "--run", "canaryrun")
        export("export_rollouts", tmp_path)
        export("export_tasks", tmp_path, "--format", "jsonl", "--environment", "canaryenv")
        export(
            "export_tasks",
            tmp_path,
            "--format",
            "csv",
            "--environment",
            "canaryenv",
            "--split",
            "canarysplit",
        )
    judge(statements, EXCEPTIONS, least=50)


def export(command: str, path: Path, *arguments: str) -> None:
    call_command(
        command, "-o" if command != "export_tasks" else "--output", str(path / "file"), *arguments
    )


def test_no_statement_of_publishing_does(monkeypatch: pytest.MonkeyPatch) -> None:
    client, split = client_of("operator"), Split.objects.get(pk=NUMBER)
    with caught(monkeypatch) as statements:
        assert client.post("/suites/new/", form((split, "1"), name="published")).status_code == 302
        visit(client, "/suites/published/edit/")
        assert (
            client.post("/suites/published/edit/", form((split, "2"), name="published")).status_code
            == 302
        )
        visit(client, "/suites/published/?format=csv")
        visit(client, "/suites/published/v1/?by=run")
        call_command("verify_suite", "published/v1")
    judge(statements, EXCEPTIONS, least=20)
