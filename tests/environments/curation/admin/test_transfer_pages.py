"""Importing and exporting tasks through the pages."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from threading import Event

import pytest
from asgiref.sync import async_to_sync
from django.conf import settings as django_settings
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.http import HttpResponseBase
from django.test import AsyncClient, Client
from django.utils import timezone
from pytest_django.fixtures import Settings

from environments.curation.admin import imports
from environments.curation.edit import Edit
from environments.curation.transfer.importing import dry_run
from environments.curation.transfer.report import TaskImportReport
from environments.curation.transfer.source import FileSource
from environments.curation.transfer.target import ImportTarget
from environments.database import background_jobs
from environments.database.background_jobs import Progress
from environments.models import Split, SplitEntry, Task
from tests.conformance.agent import eventually
from tests.stored import make_environment, make_split, make_task

pytestmark = pytest.mark.django_db(transaction=True)

IMPORT = "/admin/environments/task/import/"
EXPORT = "/admin/environments/task/export/"


@pytest.fixture(autouse=True)
def uploads(settings: Settings, tmp_path: Path) -> Path:
    """Return the directory of this test's uploads."""
    settings.FILE_UPLOAD_TEMP_DIR = tmp_path
    return tmp_path


def upload(
    client: Client, text: str, name: str = "tasks.jsonl", split: str = "new", type: str = "train"
) -> HttpResponseBase:
    """Return the answer to an upload: the form with an error, or a redirect to the report."""
    values = {"environment": make_environment().pk, "split": split, "type": type}
    return client.post(IMPORT, {**values, "file": SimpleUploadedFile(name, text.encode())})


def report(
    client: Client, text: str, name: str = "tasks.jsonl", split: str = "new", type: str = "train"
) -> tuple[str, str]:
    """Return the address and content of the page that says what an import would do."""
    address = upload(client, text, name, split, type).headers["Location"]
    return address, client.get(address).content.decode()


def waiting() -> list[Path]:
    return list(Path(django_settings.FILE_UPLOAD_TEMP_DIR).glob("*/*"))


def tally(page: str) -> list[str]:
    """Return the numbers of rows added, changed, skipped and refused."""
    return re.findall(r"</dt><dd>([\d,]+)</dd>", page)


def entered(page: str) -> list[str]:
    """Return the values of the form: name of the environment, name of the split, type of the
    split."""
    values = re.findall(
        r'<option value="[^"]+" selected>([^<]+)|name="split" value="([^"]*)"', page
    )
    return [unescape(choice or text) for choice, text in values]


LINES = "".join(json.dumps({"question": f"number {n}"}) + "\n" for n in range(3))


def test_it_says_what_an_import_would_do_and_does_nothing(client: Client) -> None:
    _, page = report(client, LINES + "no json\n" + LINES[: LINES.index("\n") + 1])
    assert tally(page) == ["3", "0", "1", "1"]
    assert (
        "number 2" in page
        and "new train split" in page
        and '<td class="right number">4</td>' in page
    )
    assert not Task.objects.exists() and not Split.objects.exists()


def test_it_imports_after_the_preview(client: Client) -> None:
    address, _ = report(client, LINES)
    page = client.post(address, follow=True).content.decode()
    split = Split.objects.get(name="new")
    assert (
        split.size == 3
        and "3 added" in page
        and f"/admin/environments/split/{split.pk}/change/" in page
    )
    assert [entry.task.source for entry in SplitEntry.objects.select_related("task")] == [
        "import"
    ] * 3


def test_the_file_is_private_and_deleted_after_the_import(client: Client) -> None:
    address, _ = report(client, LINES)
    [file] = waiting()
    assert file.parent.stat().st_mode & 0o777 == 0o700
    client.post(address)
    assert not waiting()
    assert (
        "is gone: files are stored for an hour" in client.get(address, follow=True).content.decode()
    )


def test_an_upload_is_deleted_after_an_hour(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    report(client, LINES)
    monkeypatch.setattr("environments.curation.admin.uploads.MAX_AGE_SECONDS", -10.0)
    [old] = waiting()
    report(client, LINES)
    assert old not in waiting()


def test_refused_rows_are_left_out_only_when_asked_to(client: Client) -> None:
    address, page = report(client, LINES + "no json\n")
    assert "Skip the 1 refused" in page
    assert (
        "cannot be imported, so nothing was" in client.post(address, follow=True).content.decode()
    )
    assert "3 added" in client.post(address, {"skip_refused": "on"}, follow=True).content.decode()


def test_it_imports_into_an_existing_split(client: Client) -> None:
    split = make_split(make_task({"question": "number 1"}), name="train")
    address, page = report(client, LINES, split="train")
    assert tally(page) == ["2", "0", "1", "0"]
    client.post(address)
    split.refresh_from_db()
    assert split.size == 3


def test_a_preview_that_is_stopped_imports_nothing(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = Event()

    def slow(source: FileSource, target: ImportTarget, progress: Progress) -> TaskImportReport:
        go_on.wait(10)
        return dry_run(source, target, progress)

    monkeypatch.setattr(imports, "MAX_WAIT_SECONDS", 0)
    monkeypatch.setattr(imports, "dry_run", slow)
    address, page = report(client, LINES)
    stop = re.search(r'<button type="submit"([^>]*)>Stop', page)
    assert stop is not None
    client.post(address, dict(re.findall(r'name="([^"]+)"()', stop[1])))
    go_on.set()
    [job] = (background_jobs.get(job) for job in re.findall("job=([^&]+)", address))
    assert job is not None and job.wait(10) and job.state == "cancelled"
    assert (
        not Task.objects.exists()
        and "Nothing was imported." in client.get(address).content.decode()
    )


@pytest.mark.parametrize("is_stopped", [True, False])
def test_its_address_leads_to_no_other_job(client: Client, is_stopped: bool) -> None:
    going_on = Event()
    job = background_jobs.start(
        "a bulk action", lambda progress: [going_on.wait(), progress(1, 1)], owner="bob"
    )
    address, _ = report(client, LINES)
    other = re.sub(r"job=\w+", f"job={job.id}", address)
    client.post(other, {"stop": ""}) if is_stopped else client.get(other)
    going_on.set()
    assert job.wait(20)
    assert job.state == "done"
    assert "new train split" in client.get(other, follow=True).content.decode()


def test_a_preview_is_shown_only_for_the_target_in_its_address(client: Client) -> None:
    address, page = report(client, LINES)
    assert "new train split" in page
    assert (
        "new test split"
        in client.get(address.replace("type=train", "type=test"), follow=True).content.decode()
    )


def test_an_import_is_written_into_the_log(client: Client) -> None:
    address, _ = report(client, LINES)
    client.post(address)
    assert "3 added" in LogEntry.objects.get().change_message


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        ("a,b\n1,2\n", "tasks.txt", "does not end in .jsonl, .json, .csv or .parquet"),
        ("", "tasks.jsonl", "The submitted file is empty."),
    ],
)
def test_it_says_what_is_wrong_with_a_file(
    client: Client, text: str, name: str, words: str
) -> None:
    assert words in upload(client, text, name).content.decode()  # type: ignore[attr-defined]
    assert not waiting()


def test_it_says_what_is_wrong_inside_a_file(client: Client) -> None:
    address, _ = report(client, "PAR1 and no more", "tasks.parquet")
    # on a busy machine the page may still show the preview at work
    eventually(lambda: 'data-state="running"' not in client.get(address).content.decode())
    page = client.get(address).content.decode()
    assert (
        "tasks.parquet" in page
        and "Nothing was imported." in page
        and 'data-state="failed"' in page
    )


@pytest.mark.parametrize("text", [LINES, "no json\n", "\n"], ids=["fine", "refused", "unreadable"])
def test_another_file_is_imported_into_the_chosen_split(client: Client, text: str) -> None:
    make_environment("guess")
    _, page = report(client, text, split="2024 & more", type="test")
    again = re.search(r'href="([^"]+)">Choose another file', page)
    assert again is not None
    assert entered(client.get(unescape(again[1])).content.decode()) == [
        "math",
        "2024 & more",
        "test",
    ]


def test_the_target_of_an_import_is_kept_when_the_file_is_gone(client: Client) -> None:
    make_environment("guess")
    address, _ = report(client, LINES, split="2024", type="test")
    [file] = waiting()
    file.unlink()
    assert entered(client.get(address, follow=True).content.decode()) == ["math", "2024", "test"]


def test_the_target_of_an_import_is_kept_when_it_is_refused_meanwhile(client: Client) -> None:
    split = make_split(name="hard")
    address, _ = report(client, LINES, split="hard")
    Split.objects.filter(pk=split.pk).update(frozen=timezone.now())
    page = client.get(address, follow=True).content.decode()
    assert "frozen" in page and entered(page) == ["math", "hard", "train"]


def test_it_says_what_is_wrong_with_a_split(client: Client) -> None:
    assert (
        "has a slash or a control character" in upload(client, LINES, split="a/b").content.decode()
    )  # type: ignore[attr-defined]


def test_another_persons_upload_is_not_found(client: Client, settings: Settings) -> None:
    address, _ = report(client, LINES)
    settings.ORSWEB_API_KEYS = {"one": "0123456789abcdef"}
    client.force_login(User.objects.create_superuser("ada"))
    assert client.get(address).headers["Location"].startswith(f"{IMPORT}?")


def test_someone_without_the_permission_is_refused(client: Client, settings: Settings) -> None:
    settings.ORSWEB_API_KEYS = {"one": "0123456789abcdef"}
    user = User.objects.create_user("ada", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename="view_task"))
    client.force_login(user)
    assert client.get(IMPORT).status_code == 403


def test_the_form_starts_with_the_split_it_was_opened_from(client: Client) -> None:
    split = make_split(name="hard")
    assert 'value="hard"' in client.get(f"{IMPORT}?split={split.pk}").content.decode()


def test_the_form_offers_the_splits_that_tasks_can_be_put_into(client: Client) -> None:
    make_split(name="hard")
    make_split(name="made", environment=make_environment("dice", is_procedural=True))
    page = client.get(IMPORT).content.decode()
    assert '<option value="hard"' in page and '<option value="made"' not in page


def test_it_offers_the_formats(client: Client) -> None:
    split = make_split(make_task(), make_task())
    page = client.get(f"{EXPORT}?split={split.pk}").content.decode()
    assert "2 tasks" in page and "Parquet" in page


async def exported(address: str) -> tuple[str, bytes]:
    """Return the name and content of the exported file, read as the server reads it."""
    answer = await AsyncClient().get(address)
    content = [piece async for piece in answer.streaming_content]  # type: ignore[attr-defined]
    return answer.headers["Content-Disposition"], b"".join(content)


def test_it_exports_a_split_in_its_order() -> None:
    tasks = [make_task({"question": text}) for text in ("a", "b", "c")]
    split = make_split(tasks[2], tasks[0], name="hard")
    name, content = async_to_sync(exported)(f"{EXPORT}?split={split.pk}&format=jsonl&plain=on")
    assert name == 'attachment; filename="math-hard.jsonl"'
    assert content == b'{"question": "c"}\n{"question": "a"}\n'


def test_it_exports_checked_tasks_of_a_split_in_its_order() -> None:
    tasks = [make_task({"question": text}) for text in ("a", "b", "c")]
    split = make_split(*tasks[::-1])
    query = f"split={split.pk}&ids={tasks[0].pk},{tasks[2].pk}&plain=on"
    _, content = async_to_sync(exported)(f"{EXPORT}?{query}&format=jsonl")
    assert content == b'{"question": "c"}\n{"question": "a"}\n'


def test_the_bar_leads_to_the_export_of_what_is_chosen(client: Client) -> None:
    answer = client.post("/admin/environments/task/act/export/", {"tag": "odd", "scope": "all"})
    assert answer["Location"] == f"{EXPORT}?tag=odd"


def test_the_preview_asks_what_to_serve_where_content_was_edited_since(client: Client) -> None:
    old = make_task({"name": "apple"})
    make_split(old)
    Edit(old.pk, '{"name": "cherry"}', 0).apply("ada")
    address, page = report(client, '{"name": "apple"}', split="test", type="test")
    assert "1 line with content that was edited since" in page and 'value="edited" required' in page
    client.post(address, {"superseded": "edited"})
    assert Split.objects.get(name="test").entries.get().task.spec == '{"name":"cherry"}'
    client.post(
        report(client, '{"name": "apple"}', split="old", type="test")[0], {"superseded": "file"}
    )
    assert Split.objects.get(name="old").entries.get().task == old
