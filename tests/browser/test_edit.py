"""Editing tasks in a browser: tried and saved, refused at the field, met by another editor, taken
back."""

from __future__ import annotations

import json
from typing import Any

import httpx
from playwright.sync_api import Browser, Page, expect

from tests.server import LiveServer


def tasks(live: LiveServer, environment: str, split: str) -> list[dict[str, Any]]:
    """Return the tasks that agents receive."""
    answer = httpx.post(f"{live.url}/{environment}/tasks", json={"split": split}, timeout=60)
    listed: list[dict[str, Any]] = answer.json()["tasks"]
    return listed


def walk_to_editor(page: Page, environment: str, text: str) -> None:
    """Open the editor of the task that a search for `text` finds, by the links that a person would
    follow."""
    page.goto("/admin/")
    page.get_by_role("row").filter(
        has=page.get_by_role("link", name=environment, exact=True)
    ).get_by_role("link", name="tasks").click()
    page.get_by_role("searchbox", name="Search in tasks").fill(f'"{text}"')
    page.get_by_role("searchbox", name="Search in tasks").press("Enter")
    page.locator("td.wide a").first.click()
    page.get_by_role("link", name="Edit", exact=True).click()
    expect(page.locator(".editor .cm-content")).to_be_visible()


def editor_of(live: LiveServer, environment: str, split: str, index: int) -> str:
    """Return the address of the editor of a task."""
    query = {"environment": environment, "split": split}
    listed = httpx.get(f"{live.url}/api/tasks", params=query, timeout=60).json()["results"]
    return f"/admin/environments/task/{listed[index]['id']}/edit/"


def open_editor(page: Page, address: str) -> None:
    page.goto(address)
    expect(page.locator(".editor .cm-content")).to_be_visible()


def write(page: Page, spec: dict[str, Any] | str) -> None:
    page.locator(".editor .cm-content").click()
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.insert_text(spec if isinstance(spec, str) else json.dumps(spec, indent=2))


def press(page: Page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()


def opens_at_the_first_line(page: Page) -> None:
    """Check that the editor of the task whose page is open shows the first line, and go back to the
    page."""
    page.get_by_role("link", name="Edit", exact=True).click()
    expect(page.locator(".editor .cm-content")).to_be_focused()
    page.evaluate(
        "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
    )
    assert page.locator(".editor .cm-scroller").evaluate("it => it.scrollTop") == 0
    page.go_back()


def test_a_task_is_tried_saved_and_served_and_the_change_taken_back(
    page: Page, live: LiveServer
) -> None:
    new = {"question": "What is six times seven?", "answer": 42, "lines": list(range(200))}
    walk_to_editor(page, "quiz", "What is test 3?")
    write(page, new)
    page.evaluate("window.isSamePage = true")
    press(page, "Try")
    expect(page.locator("#verdict")).to_contain_text("What is six times seven?")
    assert page.evaluate("window.isSamePage")
    assert tasks(live, "quiz", "test")[3]["answer"] == 3
    page.get_by_label("Reason").fill("easier to reckon")
    press(page, "Save")
    expect(page.get_by_text("Saved. Agents get the new content from now on.")).to_be_visible()
    assert tasks(live, "quiz", "test")[3] == new
    opens_at_the_first_line(page)
    page.get_by_role("link", name="Undo…").click()
    expect(page.get_by_text("Bring back the earlier content")).to_be_visible()
    page.get_by_label("Reason").fill("the answer was right")
    press(page, "Undo")
    expect(page.get_by_text("Undone.")).to_be_visible()
    assert tasks(live, "quiz", "test")[3] == {"question": "What is test 3?", "answer": 3}


def test_what_fails_to_play_is_quoted_and_the_tree_takes_lines_and_keeps_the_text_of_numbers(
    page: Page, live: LiveServer
) -> None:
    open_editor(page, editor_of(live, "quiz", "train", 20))
    write(page, {"answer": 1})
    press(page, "Try")
    expect(page.locator("#verdict")).to_contain_text("KeyError: 'question'")
    write(
        page,
        '{"question": "Which?\\nOr when?", "whole": 12345678901234567890, "one": 1.0, "big": 1e20}',
    )
    page.get_by_role("button", name="tree").click()
    question = page.locator(".jse-value", has_text="Which?")
    assert question.inner_text().splitlines() == ["Which?", "Or when?"]
    question.dblclick()
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.insert_text("What?")
    page.keyboard.press("Shift+Enter")
    page.keyboard.insert_text("Or where?")
    page.keyboard.press("Enter")
    kept = (
        '{\n  "question": "What?\\nOr where?",\n  "whole": 12345678901234567890,\n  "one": 1.0,\n  '
        '"big": 1e20\n}'
    )
    expect(page.locator("#spec")).to_have_value(kept)


def test_a_wrong_field_is_reported_where_it_is(page: Page, live: LiveServer) -> None:
    open_editor(page, editor_of(live, "strict", "train", 0))
    write(page, {"question": "First?", "level": "high"})
    press(page, "Check")
    expect(page.locator("#verdict [data-path='level']")).to_contain_text(
        "'high' is not of type 'integer'"
    )
    press(page, "Save")
    expect(page.locator("#verdict [data-path='level']")).to_be_visible()
    expect(page.locator("#spec")).to_have_value('{\n  "question": "First?",\n  "level": "high"\n}')


def test_the_second_editor_is_warned_and_loses_nothing(page: Page, live: LiveServer) -> None:
    other = page.context.new_page()
    for one in (page, other):
        open_editor(one, editor_of(live, "quiz", "train", 5))
    write(page, {"question": "Which is theirs?", "answer": 1})
    press(page, "Save")
    expect(page.get_by_text("Saved.")).to_be_visible()
    write(other, {"question": "Which is mine?", "answer": 2})
    press(other, "Save")
    expect(other.locator(".conflict")).to_contain_text("while you were editing it")
    expect(other.locator(".conflict .gone").first).to_contain_text("Which is theirs?")
    expect(other.locator(".editor")).to_contain_text("Which is mine?")
    press(other, "Save and replace theirs")
    expect(other.get_by_text("Saved. Agents get the new content")).to_be_visible()
    served = [task["question"] for task in tasks(live, "quiz", "train")]
    assert "Which is mine?" in served and "Which is theirs?" not in served


def test_it_works_without_scripts(browser: Browser, live: LiveServer) -> None:
    context = browser.new_context(base_url=live.url, java_script_enabled=False)
    page = context.new_page()
    page.goto(editor_of(live, "quiz", "train", 10))
    page.locator("#spec").fill(json.dumps({"question": "How plain?", "answer": 10}))
    press(page, "Try")
    expect(page.locator("#verdict")).to_contain_text("How plain?")
    press(page, "Save")
    expect(page.get_by_text("Saved. Agents get the new content")).to_be_visible()
    context.close()
