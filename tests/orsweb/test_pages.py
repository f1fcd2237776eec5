"""What holds for every page outside the admin: it loads nothing from elsewhere and runs nothing that stands in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.test import Client

ROOT = Path(__file__).resolve().parent.parent.parent

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("path", ["/", "/admin/", "/admin/login/", "/admin/episodes/episode/"])
def test_pages_ask_no_other_host_for_anything(client: Client, path: str) -> None:
    page = client.get(path, follow=True).content.decode()
    loaded = re.findall(r"<(?:script|link|img|iframe)\b[^>]*?(?:src|href)=\"([^\"]*)\"", page)
    assert loaded and all(url.startswith("/static/") or url.startswith("/admin/") for url in loaded)


@pytest.mark.parametrize("name", [file.name for file in sorted((ROOT / "static/orsweb").iterdir()) if file.is_file()])
def test_its_files_name_no_other_host(client: Client, name: str) -> None:
    response = client.get(f"/static/orsweb/{name}")
    text = b"".join(response).decode()
    assert response.status_code == 200
    assert re.findall(r"(?:https?:)?//[\w.]+", text.replace("http://www.w3.org/2000/svg", "")) == []
