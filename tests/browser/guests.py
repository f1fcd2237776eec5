"""Guests: browsers that have accepted an invite, for browser tests of what guests see."""

from __future__ import annotations

import re
from uuid import uuid4

from playwright.sync_api import Page

TOKEN = "t" * 32
"""A value against forged requests, which only has to be the same in form and cookie."""
COOKIE = {"Cookie": f"csrftoken={TOKEN}"}


def enter(page: Page, environment: str) -> None:
    """Accept an invite to an environment, up to the choice of a task; `test_invites` does it by the
    pages."""
    place = re.findall(
        rf'value="([^"]+)"[^>]*>{environment}: every split<',
        page.request.get("/play/invites/").text(),
    )[0]
    invite = {"place": place, "name": f"invite {uuid4().hex[:8]}", "lasts": "7", "unit": "days"}
    made = page.request.post(
        "/play/invites/", form={**invite, "csrfmiddlewaretoken": TOKEN}, headers=COOKIE
    ).text()
    link = re.findall(r"http://\S+/play/invite/[^/\s<]+/", made)[0]
    page.request.post(
        link, form={"name": "Zoë", "csrfmiddlewaretoken": TOKEN}, headers=COOKIE, max_redirects=0
    )
    page.goto(f"/play/?environment={environment}")
