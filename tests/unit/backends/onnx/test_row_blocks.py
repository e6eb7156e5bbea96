"""Wide programs are written in blocks of rows, whose answers are those of all rows at once."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC

import hbconv
from hbconv.backends import find_backend
from hbconv.backends.onnx.emit import emit_model
from hbconv.backends.onnx.row_blocks import MIN_WIDTH, MOST_ROWS, find_block
from hbconv.target import Target
from hbconv.tensor import Builder, TensorProgram

RNG = np.random.default_rng(0)
COUNTS = (0, 1, MOST_ROWS - 1, MOST_ROWS, MOST_ROWS + 1, 2 * MOST_ROWS, 5 * MOST_ROWS + 3)


def program_of(width: int) -> TensorProgram:
    """Outputs of several shapes and dtypes, one of them twice, and one that is an input."""
    b = Builder()
    x, y = b.input("x", "float64", 3), b.input("y", "float32", 2)
    wide = b.matmul(x, b.constant(np.arange(3.0 * width).reshape(3, width)))
    narrow = b.matmul(b.op("relu", wide), b.constant(np.ones((width, 2))))
    sums = b.reduce("reduce_sum", narrow)
    best = b.cast(b.op("argmax", wide, axis=0), "int32")
    return b.program(
        {"wide": wide, "sums": sums, "again": sums, "given": y, "twice": y + y, "best": best}
    )


@pytest.mark.parametrize("rows", COUNTS)
def test_blocks_answer_as_the_whole_does(rows):
    program = program_of(MIN_WIDTH)
    artifact = find_backend("onnx").compile(program, Target("onnx"))
    assert find_block(program) == MOST_ROWS
    inputs = {
        "x": RNG.integers(-9, 9, (rows, 3)).astype(np.float64),
        "y": RNG.standard_normal((rows, 2)).astype(np.float32),
    }
    want = find_backend("reference").compile(program, Target("reference")).run(inputs)
    got = artifact.run(inputs)
    assert got.keys() == want.keys()
    for name, value in want.items():
        assert got[name].dtype == value.dtype
        np.testing.assert_array_equal(got[name], value)


def test_narrow_programs_are_written_once():
    operators = [
        {node.op_type for node in onnx.load_from_string(emit_model(program_of(width))).graph.node}
        for width in (MIN_WIDTH - 1, MIN_WIDTH)
    ]
    assert [operator >= {"If"} for operator in operators] == [False, True]


@pytest.mark.parametrize("estimator", [SVC(), MLPClassifier((100, 70), tol=1.0)], ids=str)
def test_exported_files_hold_each_constant_once(estimator, tmp_path):
    import onnxruntime

    x = RNG.standard_normal((600, 30))
    estimator.fit(x, x[:, 0] > 0)
    hbconv.convert(estimator, backend="onnx").export(tmp_path / "model.onnx")
    size = sum(array.nbytes for array in _arrays(estimator))
    assert (tmp_path / "model.onnx").stat().st_size < 1.1 * size + 30_000
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    for rows in COUNTS:
        asked = RNG.standard_normal((rows, 30))
        outputs = dict(
            zip(
                [o.name for o in session.get_outputs()],
                session.run(None, {"X": asked}),
                strict=True,
            )
        )
        if rows:
            np.testing.assert_array_equal(outputs["predict"], estimator.predict(asked))
        else:
            assert outputs["predict"].shape == (0,)


def _arrays(estimator):
    if isinstance(estimator, SVC):
        return [estimator.support_vectors_, estimator.dual_coef_]
    return [*estimator.coefs_, *estimator.intercepts_]


def test_a_regression_is_written_once(tmp_path):
    x = RNG.standard_normal((50, 3))
    hbconv.convert(LinearRegression().fit(x, x), backend="onnx").export(tmp_path / "model.onnx")
    assert "If" not in {node.op_type for node in onnx.load(tmp_path / "model.onnx").graph.node}
