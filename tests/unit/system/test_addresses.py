"""Addresses of arrays are those that numpy tells."""

from __future__ import annotations

import numpy as np
import pytest

from hbconv.system.addresses import address_of

ARRAYS = {
    "matrix": np.zeros((3, 4)),
    "part": np.zeros((3, 4))[1:, 1:],
    "turned": np.arange(5.0)[::-1],
    "no entries": np.zeros((0, 4)),
    "no dimensions": np.array(1.0),
    "objects": np.array([None, "a"], object),
    "not writable": np.frombuffer(b"12345678", np.int64),
    "records": np.zeros(2, [("a", "i1"), ("b", "f8")])["b"],
    "subclass": np.ma.masked_array([1.0, 2.0], mask=[True, False]),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_it_is_where_numpy_says(name):
    assert address_of(ARRAYS[name]) == ARRAYS[name].ctypes.data
