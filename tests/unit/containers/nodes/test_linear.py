"""Products in ints wrap around on every backend."""

from __future__ import annotations

import numpy as np
import pytest

from hbconv.array import Array
from hbconv.backends import find_backend
from hbconv.containers import Columns, Graph, Output, Schema, WrappedLinear, verify_graph
from hbconv.errors import VerificationError
from hbconv.lower import lower
from hbconv.target import Target

RNG = np.random.default_rng(0)


def graph_of(weights: np.ndarray, dtype: str = "int64") -> Graph:
    schema = Schema.matrix(len(weights), dtype)
    return Graph(schema, {"transform": Output(WrappedLinear(Columns.of(schema), Array(weights)))})


@pytest.mark.parametrize("backend", ["reference", "torch", "torchscript", "onnx", "tvm"])
@pytest.mark.parametrize("dtype", ["int64", "int32"])
def test_sums_wrap_around(dtype, backend):
    limits = np.iinfo(dtype)
    weights = RNG.integers(limits.min, limits.max, (5, 9), dtype)
    weights[RNG.random(weights.shape) < 0.5] = 0
    weights[:, 3] = 0
    weights[:, 4] = weights[0, 5] = 1
    x = RNG.integers(-(2**63), 2**63, (300, 5))
    program = lower(graph_of(weights)).program
    (got,) = find_backend(backend).compile(program, Target(backend)).run({"x": x}).values()
    np.testing.assert_array_equal(got, x.astype(dtype) @ weights)


@pytest.mark.parametrize("weights", [np.zeros((2, 3)), np.zeros((3, 1), np.int64)])
def test_weights_for_other_columns_are_refused(weights):
    schema = Schema.matrix(2, "int64")
    node = WrappedLinear(Columns.of(schema), Array(weights))
    with pytest.raises(VerificationError, match="has weights of"):
        verify_graph(Graph(schema, {"transform": Output(node)}))
