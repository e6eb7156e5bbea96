"""Keys in slots, however many want the same one."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest

from hbconv.runtime.text import term_table
from hbconv.runtime.text.term_table import Slots


def last_but_one(slots: Slots, keys: np.ndarray) -> np.ndarray:
    """Send each key to the last slot but one: those after it begin anew."""
    return np.full(len(keys), len(slots.keys) - 2, np.int64)


@pytest.mark.parametrize("few", [0, 3, 100])
def test_keys_far_from_their_slot(few: int) -> None:
    """One after another, or several slots at once, around the end of the table."""
    keys = np.array([9, 5, 0, 7, 2**63, 11, 1, *range(100, 120)], np.uint64)
    with mock.patch.object(Slots, "_home", last_but_one), mock.patch.object(term_table, "FEW", few):
        slots = Slots(keys)
        asked = np.array([1, 5, 6, 2**63, 7, 12, 9, 11, 5, 119], np.uint64)
        assert slots.find(asked).tolist() == [6, 1, -1, 4, 3, -1, 0, 5, 1, 26]
        assert slots.find(asked[:0]).tolist() == []
        assert Slots(keys[:0]).find(asked).tolist() == [-1] * len(asked)
