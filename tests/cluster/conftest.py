"""Tests on a Ray cluster of several nodes on this machine, which `make cluster` runs where Ray is installed."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("ray") else ["test_*.py"]
