"""Category sets: every set once, over classes of codes."""

from __future__ import annotations

import numpy as np
import pytest
from forests import categorical

from hbconv.trees.category_sets import MAX_CLASSES, find_sets


@pytest.mark.parametrize("n_codes", [3, 40, 2000])
def test_sets_say_what_tables_do(n_codes):
    forest = categorical(n_codes)
    sets, code = find_sets(forest), np.arange(n_codes + 2)
    tests = np.flatnonzero(forest.on_category)
    assert sets.count < len(tests)
    assert max(len(group.goes_left) for group in sets.groups) <= MAX_CLASSES
    start = sets.start
    for test in tests:
        at = int(np.searchsorted(start, sets.of_test[test], "right")) - 1
        group = sets.groups[at]
        assert group.feature == forest.feature.data[test]
        said = group.goes_left[
            group.class_of[np.minimum(code, len(group.class_of) - 1)],
            sets.of_test[test] - start[at],
        ]
        np.testing.assert_array_equal(
            said, forest.tables.decide(forest.tables.of_test.data[test], code)
        )
    assert (sets.of_test[~forest.on_category] == -1).all()


def test_sets_that_tell_many_codes_apart_are_in_several_groups():
    assert len(find_sets(categorical(2000)).groups) > 2
    assert len(find_sets(categorical(40)).groups) == 2
