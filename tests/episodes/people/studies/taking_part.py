"""Studies in tests: making one, and taking part as a browser does."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import httpx

from environments.models import Split
from episodes.models import Invite, Study
from episodes.people.invites.rule import save_invite
from episodes.people.studies.making import TaskSelection, make_study
from tests.episodes.people.playing import open_tab


def study_of(split: Split, name: str = "pilot", *, numbers: str = "", **values: Any) -> Study:
    """Return a new study of the tasks of a split."""
    study = Study(name=name, author="ada", **values)
    make_study(study, TaskSelection(split, numbers=numbers))
    return study


def link_of(study: Study, name: str = "link for everybody", *, is_personal: bool = False) -> str:
    """Return the path of a new link."""
    invite = Invite(
        name=name, environment=study.environment, study=study, is_personal=is_personal, author="ada"
    )
    return f"/play/invite/{save_invite(invite, timedelta(days=1))}/"


async def send(browser: httpx.AsyncClient, page: str, address: str, **form: str) -> httpx.Response:
    """Send a form of `page` to `address`."""
    text = (await browser.get(page)).text
    token = re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', text)[0]
    return await browser.post(address, data={"csrfmiddlewaretoken": token, **form})


async def enter(browser: httpx.AsyncClient, link: str, name: str = "Zoë") -> None:
    answer = await send(browser, link, link, name=name)
    assert (answer.status_code, answer.headers["Location"]) == (302, "/play/study/")


async def start(browser: httpx.AsyncClient, address: str = "/play/study/next/", **form: str) -> int:
    """Start a task; return the id of its episode."""
    answer = await send(browser, "/play/study/", address, **form)
    assert answer.status_code == 302, answer.text
    return int(answer.headers["Location"].split("/")[2])


async def finish(browser: httpx.AsyncClient, pk: int) -> str:
    """End a play of `Echo` with its first call; return the HTML of its outcome."""
    async with open_tab(browser, pk) as tab:
        await tab.call("finish")
        return str((await tab.receive("ended"))["html"])
