"""A person curates in the browser: imports, searches, quarantines, saves a split; then the real
clients read it."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

from playwright.sync_api import Page, Route, expect

from tests.conformance.clients import Client, OpenRewardClient, OrsClient
from tests.server import LiveServer

TASKS = "/admin/environments/task/"


def write_tasks(path: Path, name: str, count: int) -> Path:
    """Return a file of tasks for `math` whose questions are about `name`."""
    tasks = [
        {"question": f"How many {name} are {n} {name}?", "answer": n, "seed": f"{name}/{n}"}
        for n in range(count)
    ]
    file = path / f"{name}.jsonl"
    file.write_text("".join(json.dumps(task) + "\n" for task in tasks))
    return file


def import_file(page: Page, file: Path, split: str) -> None:
    """Import a file through the pages, from the task list to the message that it is done."""
    page.goto(TASKS)
    page.get_by_role("link", name="Import", exact=True).click()
    page.get_by_label("File").set_input_files(file)
    page.get_by_label("Environment", exact=True).select_option("math")
    page.get_by_label("Split").fill(split)
    page.get_by_role("button", name="Preview import").click()
    page.get_by_role("button", name="Import").click()
    expect(page.get_by_role("status")).to_contain_text(f"was imported into math/{split}")


def choose(page: Page, chip: str, choice: str) -> None:
    page.locator(".chips .menu > summary", has_text=chip).click()
    page.locator(".chips .menu[open] a", has_text=choice).click()
    expect(page.locator(".chips .menu.chosen > summary", has_text=choice)).to_be_visible()


def quarantine(page: Page, words: str, reason: str) -> None:
    """Quarantine the one task that has the words in it."""
    page.goto(f"{TASKS}?search={words}")
    page.locator("[data-row] input").check()
    page.get_by_role("button", name="Quarantine").click()
    page.get_by_label("Reason").fill(reason)
    expect(page.locator(".plan")).to_contain_text("Quarantine 1 task")
    page.get_by_role("button", name="Quarantine").click()
    expect(page.locator(".state")).to_contain_text(reason)


def save_as_split(page: Page, words: str, name: str) -> None:
    """Save the served tasks of `math` that have the words in them as a split; there are three."""
    page.goto(f"{TASKS}?search={words}")
    choose(page, "environment", "math")
    choose(page, "state", "served")
    page.get_by_label("all matching tasks").check()
    page.get_by_role("button", name="Save as new split").click()
    page.get_by_label("Name").fill(name)
    page.get_by_role("button", name="Preview changes").click()
    expect(page.locator(".plan")).to_contain_text("Save 3 tasks")
    page.get_by_role("button", name="Save as new split").click()
    page.get_by_role("link", name="Open the split").click()
    expect(page.locator("dl").first).to_contain_text("3")


def read(client: type[Client], live: LiveServer, split: str) -> list[str]:
    """Return the questions that a client is served, in order. On a thread: playwright has this
    one's event loop."""

    def ask() -> list[str]:
        with client(live) as reader:
            math = reader.environment("math")
            return [
                math.get_task(split, index).task_spec["question"]
                for index in range(math.num_tasks(split))
            ]

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(ask).result(60)


def test_a_file_is_looked_at_before_it_is_imported_and_a_refused_form_can_be_mended_and_sent_again(
    page: Page, complaints: list[str], tmp_path: Path
) -> None:
    page.goto("/admin/environments/task/import/")
    page.get_by_label("File").set_input_files(write_tasks(tmp_path, "quinces", 2))
    # the name of a file is not taken for that of a split
    expect(page.get_by_label("Split")).to_have_value("")
    page.get_by_role("button", name="Preview import").click()
    expect(page.locator("input:invalid")).to_be_focused()
    large = tmp_path / "large.jsonl"
    with large.open("wb") as written:
        written.truncate(600 * 1024 * 1024)  # a hole: it takes no room
    page.get_by_label("File").set_input_files(large)
    expect(page.get_by_role("alert")).to_contain_text(
        "large.jsonl has 600.0 MB; the limit is 512.0"
    )  # before it is sent
    page.get_by_label("File").set_input_files(
        write_tasks(tmp_path, "figs", 2).rename(tmp_path / "figs.txt")
    )
    page.get_by_label("Split").fill("figs")
    page.get_by_role("button", name="Preview import").click()
    expect(page.get_by_role("alert")).to_contain_text("figs.txt")
    file = write_tasks(tmp_path, "apples", 2)
    file.write_text(file.read_text() + "no json\n")
    page.get_by_label("File").set_input_files(file)
    page.get_by_role("button", name="Preview import").click()
    expect(page.locator(".tally")).to_contain_text("Refused")
    expect(page.locator(".tally")).to_contain_text("2")
    expect(page.get_by_role("row", name="3 is not JSON")).to_be_visible()
    expect(page.get_by_text("How many apples are 1 apples?")).to_be_visible()


def test_it_searches_and_moves_by_keys_and_goes_back_to_what_an_action_would_touch(
    page: Page,
) -> None:
    page.goto(TASKS)
    page.keyboard.press("/")
    page.keyboard.type("What is train 30?")
    page.keyboard.press("Enter")
    page.wait_for_url("**search=**")
    expect(page.locator("[data-row]")).to_have_count(1)
    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(page.locator("[data-count]")).to_have_text("1 selected")
    page.get_by_role("button", name="Quarantine").click()
    expect(page.locator(".plan")).to_contain_text("Quarantine 1 task")
    page.get_by_role("link", name="Back to the list").click()
    page.wait_for_url("**search=**")
    page.go_back()
    expect(page.locator(".plan")).to_contain_text("Quarantine 1 task")
    page.get_by_role("link", name="Back to the list").click()
    page.wait_for_url("**search=**")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.get_by_text("What is train 30?").first).to_be_visible()


def test_a_search_goes_on_until_it_has_looked_at_everything(page: Page) -> None:
    def out_of_time(route: Route) -> None:
        """Answer as a server does whose time ran out before it had found anything."""
        body = re.sub(
            '<p class="empty">.*?</p>',
            "<table><tbody data-rows></tbody></table>",
            route.fetch().text(),
        )
        more = f'<a href="{route.request.url}&amp;after=" data-continue>Search more</a>'
        route.fulfill(
            body=re.sub("<nav[^>]* data-pages[^>]*>", rf"\g<0>{more}", body),
            content_type="text/html",
        )

    page.route(lambda url: "search=" in url and "after=" not in url, out_of_time)
    page.goto(f"{TASKS}?search=nothing has these words")
    expect(page.get_by_text("No tasks match these filters.")).to_be_visible()
    expect(page.get_by_role("link", name="Search all tasks")).to_be_visible()
    expect(page.get_by_role("link", name="Search more")).to_have_count(0)


def test_tasks_are_reviewed_in_a_row_by_keys_and_a_curated_split_is_what_clients_are_served(
    page: Page, complaints: list[str], live: LiveServer, tmp_path: Path
) -> None:
    import_file(page, write_tasks(tmp_path, "dates", 5), "dates-all")
    page.get_by_role("link", name="Open the split").click()
    page.get_by_role("link", name="Import tasks").click()
    page.get_by_label("File").set_input_files(write_tasks(tmp_path, "lemons", 2))
    page.get_by_role("button", name="Preview import").click()
    # whose page led there
    expect(page.locator("article")).to_contain_text("lemons.jsonl into math/dates-all")
    review_by_keys(page)
    quarantine(page, "are 2 dates", "Nobody counts these.")
    save_as_split(page, "dates", "dates-good")
    kept = {f"How many dates are {n} dates?" for n in (0, 1, 3)}
    for client, split in product((OrsClient, OpenRewardClient), ("dates-good", "dates-all")):
        assert set(read(client, live, split)) == kept


def review_by_keys(page: Page) -> None:
    """Accept the last of the tasks about dates, go back to it and quarantine it."""
    page.goto(f"{TASKS}?search=dates")
    page.locator("[data-row] .wide a").first.click()
    shows_dates(page, 4)
    page.keyboard.press("a")
    shows_dates(page, 3)
    page.keyboard.press("k")
    shows_dates(page, 4)
    expect(page.locator(".headline")).to_contain_text("accepted")
    page.keyboard.press("q")
    page.keyboard.type("no unit")
    page.keyboard.press("Control+Enter")
    shows_dates(page, 3)
    page.keyboard.press("u")
    expect(page.locator("[data-row]")).to_have_count(4)


def shows_dates(page: Page, number: int) -> None:
    expect(page.locator(".main section").first).to_contain_text(f"How many dates are {number}")
    page.wait_for_load_state()  # keys need the scripts
