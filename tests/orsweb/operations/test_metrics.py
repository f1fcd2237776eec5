"""Metrics of several servers in one text."""

from __future__ import annotations

from orsweb.operations.metrics import merged

ONE = (
    "# HELP a Sessions\n# TYPE a gauge\na 1.0\n# HELP b_total Calls\n# TYPE b_total "
    'counter\nb_total{of="x y"} 2.0\n'
)
TWO = "# HELP a Sessions\n# TYPE a gauge\na 3.0\n"


def test_each_family_is_described_once_and_each_sample_names_its_server() -> None:
    assert merged({"0": ONE, "1": TWO}).splitlines() == [
        "# HELP a Sessions",
        "# TYPE a gauge",
        'a{server="0"} 1.0',
        'a{server="1"} 3.0',
        "# HELP b_total Calls",
        "# TYPE b_total counter",
        'b_total{server="0",of="x y"} 2.0',
    ]
