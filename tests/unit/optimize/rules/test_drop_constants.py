"""Models and codes that weigh nothing are a constant, and answer as the source does."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.compose import make_column_transformer
from sklearn.linear_model import Lasso, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import hbconv
from hbconv.array import Array
from hbconv.backends.reference import evaluate
from hbconv.containers import (
    Affine,
    Cast,
    Columns,
    Concat,
    ConstantRows,
    Graph,
    Linear,
    LookupSum,
    Output,
    Schema,
)
from hbconv.lower import lower
from hbconv.optimize import optimize
from hbconv.optimize.rules.drop_constants import drop_constants
from hbconv.parse import parse

RNG = np.random.default_rng(0)
SCHEMA = Schema.matrix(3, "int32")
CODES = Columns.of(SCHEMA)
ROWS = RNG.integers(-1, 3, size=(50, 3)).astype(np.int32)


def table(*rows: float) -> Array:
    return Array([[row, -row] for row in rows])


def names(model: object, method: str) -> list[str]:
    graph = optimize(parse(model).for_rows(sparse=False).only(method)).graph
    return [node.name for node in graph.nodes()]


@pytest.mark.parametrize("backend", ["reference", "torch", "onnx", "tvm"])
def test_a_model_without_weights_is_its_bias(backend: str) -> None:
    rows = RNG.normal(size=(40, 4))
    source = make_pipeline(StandardScaler(), Lasso(alpha=1e6)).fit(rows, rows[:, 0] + 3.0)
    assert not source[-1].coef_.any()
    assert names(source, "predict") == ["columns", "constant_rows"]
    model = hbconv.convert(source, backend=backend)
    np.testing.assert_array_equal(model.predict(rows), source.predict(rows))
    rows[7, 2] = np.nan  # in a column that nothing reads, but that the source looks at
    for answering in (source, model):
        with pytest.raises(ValueError, match="NaN"):
            answering.predict(rows)


def test_categories_without_weights_leave_nothing_behind() -> None:
    rows = np.column_stack([RNG.integers(0, 3, 60), RNG.normal(size=60)])
    encoded = make_column_transformer((OneHotEncoder(), [0]), (StandardScaler(), [1]))
    model = LogisticRegression(C=1e-4, l1_ratio=1.0, solver="liblinear", intercept_scaling=1e4)
    source = make_pipeline(encoded, model).fit(rows, rows[:, 1] > 0.5)
    assert not source[-1].coef_.any()
    assert names(source, "decision_function") == ["columns", "constant_rows"]
    answer = hbconv.convert(source, backend="reference").predict_proba(rows)
    np.testing.assert_allclose(answer, source.predict_proba(rows), rtol=1e-12)


def test_sparse_rows_too() -> None:
    rows = sp.random(40, 9, 0.3, "csr", random_state=0)
    source = Lasso(alpha=1e6).fit(rows, np.arange(40.0))
    model = hbconv.convert(source, backend="reference")
    np.testing.assert_array_equal(model.predict(rows), source.predict(rows))


@pytest.mark.parametrize(
    "tables",
    [
        (table(1.0, 2.0, 3.0, 4.0), table(7.0, 7.0, 7.0, 7.0), table(-0.0, 0.0, -0.0, 5.0)),
        (table(1e8, 1e8, 1e8, 1e8), table(1.0, 2.0, 3.0, 4.0), table(-1e8, -1e8, -1e8, -1e8)),
        (table(0.0, 0.0, -0.0, 0.0), table(0.0, 0.0, 0.0, 0.0), table(2.0, 2.0, 2.0, 2.0)),
    ],
)
def test_the_sum_stays(tables: tuple[Array, ...]) -> None:
    node = LookupSum(CODES, tables)
    after = drop_constants(node)
    assert after is not None
    assert after.type == node.type
    expected = sum(t.data[code + 1] for t, code in zip(tables, ROWS.T, strict=True))
    lowered = lower(Graph(SCHEMA, {"transform": Output(after)}))
    feeds = {feed.name: ROWS[:, list(feed.columns)] for feed in lowered.feeds}
    np.testing.assert_allclose(
        evaluate(lowered.program, feeds)["transform"], expected, rtol=1e-12, atol=1e-12
    )


def test_what_changes_the_sum_stays() -> None:
    infinite = table(np.inf, np.inf, np.inf, np.inf)
    assert drop_constants(LookupSum(CODES, (infinite,) * 3)) is None
    assert drop_constants(LookupSum(CODES, (table(0.0, 1.0, 0.0, 0.0),) * 3)) is None
    assert drop_constants(Linear.of(CODES, [0.0, np.nan, 0.0])) is None
    assert drop_constants(Linear.of(CODES, [0.0, 1e-300, 0.0])) is None


def test_the_bias_keeps_the_dtype_of_the_sum() -> None:
    weightless = Linear.of(Cast(CODES, "float64"), np.zeros((3, 2), np.float32), [1.0, 2.0])
    after = drop_constants(weightless)
    assert isinstance(after, ConstantRows)
    assert after.type == weightless.type


def test_constant_rows_count_the_rows_of_the_input() -> None:
    scaled = Affine.of(Concat((CODES, CODES)), sub=1.0)
    graph = Graph(SCHEMA, {"transform": Output(ConstantRows(scaled, Array([1.0])))})
    assert [node.name for node in optimize(graph).graph.nodes()] == ["columns", "constant_rows"]
