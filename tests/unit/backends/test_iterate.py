"""The primitive ``iterate`` in what each backend makes besides answers."""

from __future__ import annotations

import copy
import io
from typing import Any

import numpy as np
import pytest
import torch
from primitive_cases import CASES

from hbconv.backends import find_backend
from hbconv.backends.torch import count_operators, export_module
from hbconv.backends.torch.module import TensorModule
from hbconv.runtime.batching import bytes_per_row
from hbconv.target import Target
from hbconv.tensor import Builder, TensorProgram, Value
from hbconv.tensor.program import evaluate

CASE = next(case for case in CASES if str(case) == "iterate-until done")


def grows(b: Builder, state: Value, given: Value) -> Value:
    """Add what is given."""
    return state + given


def program(steps: int) -> TensorProgram:
    """Add y to x, so many times."""
    b = Builder()
    return b.program(
        {"z": b.iterate(steps, b.input("x", "float64", 2), b.input("y", "float64", 2), grows)}
    )


def test_module_is_copied_pickled_and_exported() -> None:
    """A loop goes where its module goes; an export holds every step."""
    module = TensorModule(CASE.program("float64"))
    rows = CASE.rows(7, "float64")
    tensors = [torch.from_numpy(x) for x in rows.values()]
    want = evaluate(CASE.program("float64"), rows)["y"]
    buffer = io.BytesIO()
    torch.save(module, buffer)
    buffer.seek(0)
    for other in (
        module,
        copy.deepcopy(module),
        torch.load(buffer, weights_only=False),
        export_module(module).module(),
    ):
        np.testing.assert_array_equal(other(*tensors).numpy(), want)


@pytest.mark.parametrize("backend", ["torchscript", "tvm", "onnx"])
def test_code_does_not_grow_with_the_steps(backend: str) -> None:
    """A thousand steps are one loop, also in the stored files."""
    artifact = find_backend(backend).compile(program(1000), Target(backend))
    x = np.ones((3, 2))
    np.testing.assert_array_equal(artifact.run({"x": x, "y": x})["z"], 1001 * x)
    assert sum(map(len, artifact.files().values())) < 100_000


def test_is_shown_counted_and_told_apart() -> None:
    """A body prints as its size, and its primitives and memory count."""
    once, twice = program(1), program(2)
    assert "iterate %0 %1 body=<3 instructions> steps=2" in str(twice)
    assert once.primitives == {"iterate", "add"}
    assert bytes_per_row(once) == 6 * 16
    b = Builder()
    x = b.input("x", "float64", 2)
    assert b.iterate(1, x, x, grows).index != b.iterate(2, x, x, grows).index


def test_a_traced_loop_is_not_captured_as_a_graph() -> None:
    """It asks the host whether to stop."""
    backend = find_backend("torchscript")
    b = Builder()
    plain = b.program({"y": -b.input("x", "float64", 2)})
    for traced, captured in ((program(1000), False), (plain, True)):
        artifact: Any = backend.compile(traced, Target("torchscript"))
        assert bool(count_operators(artifact.module)) == captured
