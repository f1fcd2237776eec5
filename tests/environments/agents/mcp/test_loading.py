"""The types of MCP take 0.4 s to import, so a server that nobody uses over MCP does not load
them."""

from __future__ import annotations

import subprocess
import sys

from tests.server import ROOT

CODE = """
import sys
from orsweb import asgi
asgi.protocol._resolver.resolve("/mcp/math")
print(sorted({"mcp", "mcp_types"} & set(sys.modules)))
"""


def test_the_addresses_are_known_without_them() -> None:
    answer = subprocess.run(
        [sys.executable, "-c", CODE], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert answer.stdout.strip() == "[]"
