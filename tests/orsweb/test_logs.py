"""What lines of the log look like in a terminal."""

from __future__ import annotations

import subprocess
import sys

from tests.programs import ROOT

LOG = """
import logging, structlog
from orsweb import logs
logs.configure({"level": "INFO", "format": "console"})
structlog.get_logger().warning("tool call failed", trace="Traceback:\\n  line 1\\nKeyError: 'x'")
logging.getLogger("httpx").info("GET")
"""


def test_tracebacks_have_lines_of_their_own_and_libraries_are_named() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOG], cwd=ROOT, capture_output=True, text=True, check=True
    )
    lines = [line.rstrip() for line in done.stderr.splitlines()]
    assert lines[1:4] == ["Traceback:", "  line 1", "KeyError: 'x'"]
    assert "tool call failed" in lines[0] and "[httpx]" in lines[4]
