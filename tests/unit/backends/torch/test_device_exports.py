"""Exported files for CUDA devices: sums in a form that devices take in order."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch
from forests import hostile_rows, random_forest
from sklearn.ensemble import RandomForestRegressor
from torch.utils._python_dispatch import TorchDispatchMode

import hbconv
from hbconv.backends.torch import TensorModule, export_module
from hbconv.backends.torch.jit import load, trace
from hbconv.backends.torch.nearest import forms_for, ordered_sum
from hbconv.backends.torch.tracing import script_children
from hbconv.errors import OptionError
from hbconv.tensor import Builder

ANY_ORDER = {"index_add", "index_add_", "scatter_add"}
RNG = np.random.default_rng(0)
X = RNG.standard_normal((80, 4))


class Seen(TorchDispatchMode):
    """Names of the operators that run."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.add(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


def module(accumulate: str, strategy: str = "select") -> tuple[TensorModule, object]:
    forest = random_forest(
        np.random.default_rng(1), 20, max_depth=4, n_outputs=2, accumulate=accumulate
    )
    b = Builder()
    x = b.input("x", "float32", forest.n_features)
    y = b.op("tree_scores", x, forest=forest, strategy=strategy)
    device = "cpu" if strategy == "select" else "cuda"
    return TensorModule(b.program({"y": y}), device), forest


@pytest.mark.parametrize("accumulate", ["float32", "float64"])
@pytest.mark.parametrize("strategy", ["select", "gemm"])
def test_a_traced_module_adds_by_the_device_that_it_was_moved_to(accumulate, strategy):
    plain, forest = module(accumulate, strategy)
    script_children(plain)
    traced = trace(plain, plain.example())
    for n in (1, 2, 300):
        rows = hostile_rows(np.random.default_rng(n), forest, "float32", n)
        assert traced(torch.tensor(rows)).numpy().tobytes() == forest.scores(rows).tobytes()
    moved = traced.to("meta")
    seen = Seen()
    with seen:
        found = moved(torch.empty(5, forest.n_features, device="meta"))
    assert found.shape == (5, 2)
    assert "cumsum" in seen.names
    assert not seen.names & ANY_ORDER


@pytest.mark.parametrize("n", [1, 7])
def test_the_form_of_devices_is_exact_for_doubles_on_the_cpu_too(n):
    x = torch.tensor(RNG.standard_normal((n, 50, 1)) * 10.0 ** RNG.integers(-9, 9, (n, 50, 1)))
    want = ordered_sum(x, 1)
    with forms_for("cuda"):
        assert torch.equal(ordered_sum(x, 1), want)
    np.testing.assert_array_equal(want, np.add.accumulate(x.numpy(), 1)[:, -1])


def test_programs_for_devices_hold_no_sums_in_any_order():
    source = RandomForestRegressor(5, max_depth=4, random_state=0).fit(X, X[:, 0])
    model = hbconv.convert(source, backend="torch")
    program = torch.export.load(io.BytesIO(model.to_bytes(".pt2", device="cuda")))
    called = {
        str(node.target).split(".")[1]
        for node in program.graph.nodes
        if node.op == "call_function" and "aten" in str(node.target)
    }
    assert "cumsum" in called
    assert not called & ANY_ORDER
    found = program.module()(torch.tensor(X))
    answers = dict(zip(model.parsed.exported, found, strict=True))
    np.testing.assert_array_equal(answers["predict"].numpy(), source.predict(X))


def test_an_export_is_for_the_device_that_is_named(tmp_path):
    source = RandomForestRegressor(3, max_depth=3, random_state=0).fit(X, X[:, 0])
    model = hbconv.convert(source, backend="torch")
    model.export(tmp_path / "model.pt", device="cuda")
    answers = load(tmp_path / "model.pt")(torch.tensor(X))
    np.testing.assert_array_equal(answers[0].numpy(), source.predict(X))
    with pytest.raises(OptionError, match="device"):
        model.export(tmp_path / "model.pt", device="tpu")


def test_forms_end_with_their_block():
    plain, forest = module("float32")
    rows = hostile_rows(np.random.default_rng(3), forest, "float32", 9)
    with forms_for("cuda"):
        export_module(plain)
    assert plain(torch.tensor(rows)).numpy().tobytes() == forest.scores(rows).tobytes()
