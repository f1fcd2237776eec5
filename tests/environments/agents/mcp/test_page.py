"""The Python code of docs/mcp.md runs as it is printed."""

from __future__ import annotations

import re
import subprocess
import sys

from tests.server import ROOT, LiveServer


def test_the_client_of_the_page_plays_an_episode() -> None:
    page = (ROOT / "docs/mcp.md").read_text(encoding="utf-8")
    code = next(
        code
        for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL)
        if "from mcp import Client" in code
    )
    with LiveServer("environments.builtin.math:Math") as server:
        code = code.replace("http://127.0.0.1:8080", server.url)
        answer = subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, text=True
        )
    assert answer.stdout.endswith("Correct. {'orsweb/finished': True}\n")
