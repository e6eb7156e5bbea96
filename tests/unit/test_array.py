"""Arrays are values: read-only, equal by dtype, shape and every bit."""

import copy
import pickle

import numpy as np
import pytest

from hbconv.array import Array


def test_is_a_read_only_copy():
    source = np.array([1.0, 2.0])
    array = Array(source)
    source[0] = 9.0
    assert array.data.tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="read-only"):
        array.data[0] = 5.0


def test_a_read_only_view_is_copied_too():
    """Its base may still be written to."""
    source = np.zeros(3)
    array = Array(np.broadcast_to(source, (2, 3)))
    source[:] = 7.0
    assert not array.data.any()
    assert array.data.flags.c_contiguous


@pytest.mark.parametrize(
    "other",
    [[1.0, 2.0], [[1.0, 2.0, 3.0]], np.array([1, 2, 3]), np.float32([1, 2, 3]), [1.0, 2.0, np.nextafter(3.0, 4.0)], ["1.0", "2.0", "3.0"]],
)  # fmt: skip
def test_other_content_is_another_value(other):
    array = Array([1.0, 2.0, 3.0])
    assert array != Array(other)
    assert array == Array(np.array([1.0, 2.0, 3.0]))
    assert len({array, Array(other), Array([1.0, 2.0, 3.0])}) == 2


def test_every_bit_counts():
    """Zeros of both signs differ, and NaN equals itself: what constants need, unlike numbers."""
    assert Array([0.0]) != Array([-0.0])
    assert Array([np.nan]) == Array([np.nan])


def test_objects_compare_by_value_and_type():
    one = Array(np.array(["a", 1, 2.5, None, True], dtype=object))
    assert one == Array(np.array(["a", 1, 2.5, None, True], dtype=object))
    assert one != Array(np.array(["a", 1, 2.5, None, 1], dtype=object))
    assert one != Array(np.array(["a", "1", 2.5, None, True], dtype=object))


def test_is_not_equal_to_a_numpy_array():
    assert Array([1.0]) != "no array"
    assert not Array([1.0]).__eq__(np.array([1.0]))


def test_converts_like_numpy():
    array = Array([1.5, 2.5])
    assert np.asarray(array) is array.data
    assert np.asarray(array, dtype="float32").dtype == np.float32
    writable = np.array(array, copy=True)
    writable[0] = 0.0
    assert array[0] == 1.5
    assert (list(array), len(array), array.shape, array.dtype) == ([1.5, 2.5], 2, (2,), "float64")


def test_of_keeps_an_array_unless_the_dtype_changes():
    array = Array([1.0])
    assert Array.of(array) is array
    assert Array.of(array, "float32").dtype == "float32"
    assert Array.of([1, 2], "int32") == Array(np.int32([1, 2]))


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda a: pickle.loads(pickle.dumps(a))])
def test_copies_are_equal_and_read_only(duplicate):
    array = duplicate(Array([1.0, 2.0]))
    assert array == Array([1.0, 2.0])
    assert not array.data.flags.writeable


def test_prints_short_arrays_and_describes_long_ones():
    assert repr(Array([1.0, 2.5])) == "[1. , 2.5]"
    assert repr(Array(np.zeros((3, 4), np.float32))) == "float32[3, 4]"
