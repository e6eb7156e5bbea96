"""The report on a method's kernel: what is counted, against programs small enough to count by
hand.
"""

import numpy as np
import pytest
from lightgbm import LGBMRegressor
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import hbconv
from hbconv.cost_model import count_work
from hbconv.errors import BackendError
from hbconv.tensor import Builder

X = np.random.default_rng(0).standard_normal((300, 6)).astype(np.float32)


def kernel_of(model, **options):
    return hbconv.convert(model, backend="tvm", sample=X, **options).explain().kernels[0]


def test_bytes_of_a_row_and_of_a_tile():
    report = kernel_of(make_pipeline(StandardScaler(), LinearRegression()).fit(X, X[:, 0])).report
    assert (report.kernels, report.bytes_read) == (1, 6 * 4)
    assert report.bytes_written == 4 + 1  # the answer, and the flag of the row guard
    assert 6 * 4 <= report.table_bytes < 1000
    assert report.scratch_bytes >= report.tile * 6 * 4
    assert report.tile % report.block == report.block % report.lanes == 0


def test_trees_read_the_columns_they_test():
    model = LGBMRegressor(n_estimators=3, num_leaves=4, verbose=-1).fit(
        X[:, :2] @ np.eye(2, 6, dtype=np.float32), X[:, 1]
    )
    kernel = kernel_of(model, strategy="select")
    assert kernel.report.bytes_read == 4 * len(
        np.unique(np.flatnonzero(model.feature_importances_))
    )
    assert "columns of bytes" in kernel.report.trees[0]
    assert "tree_scores (select)" in {cost.operator for cost in kernel.costs}
    assert "float32" in kernel_of(model, strategy="tree_traversal").report.trees[0]


def test_predicted_costs_are_sorted_and_cover_every_operator():
    kernel = kernel_of(make_pipeline(StandardScaler(), LinearRegression()).fit(X, X[:, 0]))
    seconds = [cost.seconds for cost in kernel.costs]
    assert seconds == sorted(seconds, reverse=True)
    assert {"matmul", "read rows", "write rows"} <= {cost.operator for cost in kernel.costs}
    assert "others" not in str(kernel)


def test_what_is_repeated_counts_every_time():
    step = Builder()
    body = step.program(
        {"state": -step.input("state", "float32", 3) * step.input("given", "float32", 3)}
    )
    b = Builder()
    x = b.input("x", "float32", 3)
    program = b.program({"y": b.op("iterate", x, x, body=body, steps=10)})
    assert count_work(program, program.instructions[-1]).elementwise == 10 * 2 * 3


def test_backends_without_kernels_say_so():
    with pytest.raises(BackendError, match="operator after operator"):
        hbconv.convert(LinearRegression().fit(X, X[:, 0]), backend="reference").explain().kernels  # noqa: B018
