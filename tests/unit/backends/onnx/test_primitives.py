"""What ONNX Runtime makes of the graphs: valid ones, equally right when a session optimizes all
it can, in the same order of sums.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from primitive_cases import CASES, ROWS, Case
from sklearn.impute import KNNImputer

import hbconv
from hbconv.backends import find_backend
from hbconv.backends.onnx.distances import MAX_UNROLLED_FEATURES
from hbconv.backends.onnx.emit import emit_model
from hbconv.backends.reference import evaluate
from hbconv.errors import BackendError, StoreError
from hbconv.target import Target
from hbconv.tensor import Builder, TensorProgram
from hbconv.tensor.primitives.products import PAIRWISE

BACKEND = find_backend("onnx")
TARGET = Target("onnx")


def optimizing_session(program: TensorProgram) -> onnxruntime.InferenceSession:
    """A session as users open it: default options."""
    (model,) = BACKEND.compile(program, TARGET).files().values()
    return onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])


@pytest.mark.share("light")
@pytest.mark.parametrize(
    "case", [case for case in CASES if case.primitive not in BACKEND.refuses], ids=str
)
def test_graph_is_valid_and_survives_optimization(case: Case) -> None:
    """Every dtype; the default session answers as ours, to the last bits. With several threads
    it adds up blocks of trees apart.
    """
    for dtype in case.dtypes:
        program = case.program(dtype)
        artifact = BACKEND.compile(program, TARGET)
        model = onnx.load_from_string(artifact.files()["model.onnx"])
        onnx.checker.check_model(model, full_check=True)
        session = optimizing_session(program)
        for n in ROWS:
            inputs = case.rows(n, dtype)
            for name, values in artifact.run(inputs).items():
                (got,) = session.run([name], inputs)
                assert (got.dtype, got.shape) == (values.dtype, values.shape)
                unit = 16 * np.finfo(values.dtype).eps if values.dtype.kind == "f" else 0
                np.testing.assert_allclose(
                    got, values, rtol=unit, atol=unit if case.primitive == "tree_scores" else 0
                )


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("number", [1 - 2**-53, 1 + 1e-9, 1e-50, -5e-324])
@pytest.mark.parametrize("primitive", ["add", "sub", "mul", "div"])
def test_numbers_that_float32_takes_for_neutral_are_kept(
    primitive: str, number: float, width: int
) -> None:
    """A session drops an operator inside a graph if its constant is neutral as float32."""
    b = Builder()
    x, constant = b.op("neg", b.input("x", "float64", width)), b.constant(np.array([number]))
    operands = {"right": (x, constant), "left": (constant, x)}
    outputs = {name: b.op("neg", b.op(primitive, *pair)) for name, pair in operands.items()}
    program = b.program(outputs)
    rows = np.array([0.0, -0.0, 3.0, -1e-50, 1e300, np.inf, np.nan])[:, None] + np.zeros(width)
    with np.errstate(all="ignore"):
        wanted = evaluate(program, {"x": rows})
    session = optimizing_session(program)
    artifact = BACKEND.compile(program, TARGET)
    for answers in (
        artifact.run({"x": rows}),
        dict(zip(wanted, session.run([*wanted], {"x": rows}), strict=True)),
    ):
        for name, want in wanted.items():
            np.testing.assert_array_equal(answers[name], want)


def test_sums_keep_their_order() -> None:
    """Running sums add one after another, whatever the size and the strides."""
    b = Builder()
    program = b.program(
        {"y": b.reduce("ordered_sum", b.reshape(b.input("x", "float32", 3000), 1000, 3))}
    )
    x = (np.random.default_rng(0).standard_normal((50, 3000)) * 1e3).astype("float32")
    np.testing.assert_array_equal(
        optimizing_session(program).run(None, {"x": x})[0], evaluate(program, {"x": x})["y"]
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_scaling_keeps_its_roundings(dtype: str) -> None:
    """No optimizer of the session turns a division into a product, or swaps operations."""
    b = Builder()
    x, scale = b.input("x", dtype, 8), b.constant(np.random.default_rng(1).random(8), dtype)
    program = b.program({"y": ((x - scale) / scale * scale + scale) / scale})
    rows = np.random.default_rng(0).standard_normal((500, 8)).astype(dtype)
    np.testing.assert_array_equal(
        optimizing_session(program).run(None, {"x": rows})[0], evaluate(program, {"x": rows})["y"]
    )


def test_outputs_may_be_inputs_and_equal() -> None:
    b = Builder()
    x = b.input("x", "float64", 2)
    got = BACKEND.compile(b.program({"a": x, "b": x, "c": x + x}), TARGET).run(
        {"x": np.ones((3, 2))}
    )
    assert [(name, y.sum()) for name, y in got.items()] == [("a", 6), ("b", 6), ("c", 12)]


def test_threads_share_the_rows() -> None:
    b = Builder()
    program = b.program({"y": b.op("exp", b.input("x", "float64", 3))})
    x = np.random.default_rng(0).standard_normal((5000, 3))
    x.setflags(write=False)
    one, three = (
        BACKEND.compile(program, TARGET.replace(threads=t)).run({"x": x})["y"] for t in (1, 3)
    )
    np.testing.assert_array_equal(one, three)


def test_equal_nodes_are_written_once() -> None:
    b = Builder()
    x = b.input("x", "float64", 2)
    program = b.program({"a": b.reduce("reduce_max", x), "b": b.reduce("argmax", x)})
    assert [n.op_type for n in onnx.load_from_string(emit_model(program)).graph.node].count(
        "IsNaN"
    ) == 1


def count_nodes(graph: onnx.GraphProto) -> int:
    """All nodes, those of inner graphs among them."""
    inner = [a.g for node in graph.node for a in node.attribute if a.HasField("g")]
    return len(graph.node) + sum(count_nodes(each) for each in inner)


@pytest.mark.parametrize("kind", sorted(PAIRWISE))
def test_more_features_take_no_more_nodes(kind: str) -> None:
    """ONNX Runtime took a minute to plan 10,000 nodes: some for each of 1,115 columns."""
    counts = []
    for width in (MAX_UNROLLED_FEATURES + 1, 500):
        b = Builder()
        x, points = b.input("x", "float64", width), b.constant(np.ones((3, width)))
        program = b.program({"y": b.op("pairwise", x, points, kind=kind, p=2.0)})
        counts.append(count_nodes(onnx.load_from_string(emit_model(program)).graph))
    assert counts[0] == counts[1] < 30


def test_a_wide_imputer_takes_no_more_nodes(tmp_path: Path) -> None:
    counts = []
    for width in (MAX_UNROLLED_FEATURES + 1, 300):
        rng = np.random.default_rng(width)
        rows = np.where(rng.random((30, width)) < 0.3, np.nan, rng.standard_normal((30, width)))
        path = tmp_path / f"{width}.onnx"
        hbconv.convert(KNNImputer(n_neighbors=2).fit(rows), "onnx").export(path)
        counts.append(count_nodes(onnx.load(path).graph))
    assert counts[0] == counts[1]


def test_stored_model_is_loaded() -> None:
    b = Builder()
    x = b.input("x", "float64", 3)
    program = b.program({"y": x + x})
    files = BACKEND.compile(program, TARGET).files()
    loaded = BACKEND.load(files, program.types, TARGET)
    assert loaded is not None
    np.testing.assert_array_equal(loaded.run({"x": np.ones((2, 3))})["y"], np.full((2, 3), 2.0))
    assert BACKEND.load({}, program.types, TARGET) is None
    for damaged in (b"", b"no model", files["model.onnx"][:-9]):
        with pytest.raises(StoreError, match="ONNX Runtime cannot read"):
            BACKEND.load({"model.onnx": damaged}, program.types, TARGET)


def test_more_than_one_file_can_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hbconv.backends.onnx.writer.MAX_BYTES", 1000)
    b = Builder()
    program = b.program({"y": b.input("x", "float64", 300) + b.constant(np.arange(300.0))})
    with pytest.raises(BackendError, match="2 GB"):
        BACKEND.compile(program, TARGET)
