"""Tests of several machines, which `make cluster` runs where Ray is installed: Ray nodes, and network namespaces."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("ray") else ["test_*.py"]
