"""What was played, counted by environment: bounded causes, and shares of durations."""

from __future__ import annotations

from environments.runtime.bucket_counts import BucketCounts
from environments.runtime.play_counts import MAX_CAUSES, OTHER_CAUSE, EnvironmentCounts


def test_causes_beyond_the_limit_are_counted_together() -> None:
    counts = EnvironmentCounts()
    for number in range(MAX_CAUSES + 5):
        counts.count_call("failed", f"Error{number}", 0.1)
    counts.count_call("failed", "Error0", 0.1)
    errors = counts.snapshot().errors
    assert (len(errors), errors[OTHER_CAUSE], errors["Error0"]) == (MAX_CAUSES + 1, 5, 2)


def test_refusals_have_no_cause() -> None:
    counts = EnvironmentCounts()
    counts.count_call("refused", "not_found", 0.1)
    assert (counts.snapshot().calls["refused"], counts.snapshot().errors) == (1, {})


def test_a_quantile_is_the_bound_that_the_share_does_not_exceed() -> None:
    counts = BucketCounts((1.0, 2.0))
    assert counts.snapshot().quantile(0.5) is None
    for value in (0.5, 1.0, 1.5, 9.0):
        counts.observe(value)
    found = counts.snapshot()
    assert [found.quantile(share) for share in (0.5, 0.75, 1.0)] == [1.0, 2.0, float("inf")]
    assert (found.cumulated(), found.total) == ([2, 3, 4], 12.0)
