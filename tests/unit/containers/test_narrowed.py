import numpy as np
import pytest

from hbconv.array import Array
from hbconv.backends.reference import evaluate
from hbconv.containers import (
    Bins,
    Columns,
    Compare,
    Concat,
    FindCode,
    Graph,
    Impute,
    IsMissing,
    OneHot,
    Output,
    Polynomial,
    Recode,
    Schema,
    Select,
)
from hbconv.lower import lower

SCHEMA = Schema.matrix(3)
X = Columns.of(SCHEMA)
ROWS = np.array([[0.0, 1.0, np.nan], [2.0, np.nan, 1.0], [1.0, 0.0, -0.0], [9.0, 2.0, 0.5]])
CODES = Concat(
    tuple(
        FindCode(Columns(SCHEMA, Array(np.array([j], dtype=np.int32))), Array([0.0, 1.0, 2.0]))
        for j in range(3)
    )
)


def value(node):
    lowered = lower(Graph(SCHEMA, {"transform": Output(node)}))
    return evaluate(
        lowered.program, {feed.name: ROWS[:, list(feed.columns)] for feed in lowered.feeds}
    )["transform"]


@pytest.mark.parametrize("columns", [[0], [2], [0, 2], [1, 2], [0, 1, 2]])
@pytest.mark.parametrize("node", [
    Impute(X, Array([7.0, 8.0, 9.0])),
    IsMissing(X),
    Bins(X, Array([[0.5, 1.5], [1.0, np.nan], [np.nan, np.nan]])),
    Compare(X, "gt", Array([0.0, 1.0, 0.5])),
    Polynomial(X, Array(np.array([[-1, -1], [1, 0], [2, 2]], dtype=np.int32))),
    Recode(CODES, (Array([9.0, 0.0, 1.0, 2.0]), Array([8.0, 3.0, 2.0, 1.0]), Array([7.0, 5.0, 5.0, 5.0]))),
    OneHot(CODES, (3, 3, 3)),
], ids=lambda node: node.name)  # fmt: skip
def test_a_narrowed_node_is_the_selection(node, columns):
    narrowed = node.narrowed(Array(np.array(columns, dtype=np.int32)))
    np.testing.assert_array_equal(
        value(narrowed), value(Select(node, Array(np.array(columns, dtype=np.int32))))
    )


@pytest.mark.parametrize("columns", [[1, 0], [0, 0]])
def test_one_hot_is_not_narrowed_out_of_order(columns):
    assert OneHot(CODES, (3, 3, 3)).narrowed(Array(np.array(columns, dtype=np.int32))) is None


def test_one_hot_absorbs_a_selection_across_its_columns():
    columns = Array(np.array([1, 2, 6, 8], dtype=np.int32))
    narrowed = OneHot(CODES, (3, 3, 3)).narrowed(columns)
    assert narrowed.sizes == (2, 2)
    np.testing.assert_array_equal(value(narrowed), value(OneHot(CODES, (3, 3, 3)))[:, columns.data])
