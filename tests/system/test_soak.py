"""A short soak; ``tests/system/soak.py`` has the long one."""

from __future__ import annotations

from soak import soak


def test_no_answer_is_wrong_or_lost_while_models_are_swapped_and_workers_killed():
    found = soak(minutes=0.25, swap_seconds=5.0, kill_seconds=4.0)
    assert found.faults == [] or found.faults[-1].startswith("memory")
    assert found.counts["right"] > 100
    assert found.counts["swaps"] >= 2
    assert found.counts["kills"] >= 3
