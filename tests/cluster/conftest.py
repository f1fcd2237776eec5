"""Tests of several machines, which `make cluster` runs where Ray is installed: Ray nodes, and
network namespaces."""

from __future__ import annotations

import os
from importlib.util import find_spec

# or a token that the user has would be asked for on some nodes only
os.environ["RAY_AUTH_MODE"] = "disabled"
collect_ignore_glob = [] if find_spec("ray") else ["test_*.py"]
