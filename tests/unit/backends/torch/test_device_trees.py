"""Forests for CUDA devices in torch: the operator, the module around it, its plain operators."""

from __future__ import annotations

import io
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from emulated_device import DEVICE, EmulatedLauncher, emulate_launches, launched
from forests import hostile_rows, random_forest
from torch.fx.experimental.proxy_tensor import make_fx

from hbconv.backends import find_backend
from hbconv.backends.cuda.compile import Compiled
from hbconv.backends.torch import TensorModule, device_trees, export_module, launches
from hbconv.backends.torch.device_trees import DeviceTrees, find_kernels
from hbconv.backends.torch.jit import without_deprecation
from hbconv.target import Target
from hbconv.tensor import Builder
from hbconv.tensor.program import evaluate
from hbconv.trees.strategy import strategies

FOREST = random_forest(np.random.default_rng(1), n_trees=30, max_depth=5, n_outputs=3)
VECTORS = random_forest(np.random.default_rng(2), 9, max_depth=5, n_outputs=3, vector=True)
ON_CUDA = Target("torch", device="cuda")


@pytest.fixture(autouse=True)
def _emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    emulate_launches(monkeypatch)


def module(forest: Any = FOREST) -> TensorModule:
    b = Builder()
    x = b.input("x", "float32", forest.n_features)
    outputs = {
        name: b.op(f"tree_{name}", x, forest=forest, strategy="tree_traversal")
        for name in ("leaves", "scores")
    }
    return TensorModule(b.program(outputs), "cuda")


def device_modules(forest: Any = FOREST) -> list[DeviceTrees]:
    return [m for m in module(forest).modules() if isinstance(m, DeviceTrees)]


def rows(n: int) -> Any:
    return hostile_rows(np.random.default_rng(n), FOREST, "float32", n)


def want(trees: DeviceTrees, x: Any) -> Any:
    return trees.forest.scores(x) if trees.scores else trees.forest.leaves(x)


@pytest.mark.parametrize("forest", [FOREST, VECTORS])
@pytest.mark.parametrize("n", [0, 1, 5, 600])
def test_the_form_that_is_chosen_for_so_many_rows(monkeypatch, forest, n):
    x = rows(n)
    for trees in device_modules(forest):
        kernels = find_kernels(forest, "float32", trees.scores, DEVICE)
        for form in kernels.candidates():
            monkeypatch.setattr(kernels, "choose", {n: form}.get)
            launched.clear()
            got = trees.compute(torch.tensor(x), DEVICE)
            np.testing.assert_array_equal(got, want(trees, x))
            assert got.shape == want(trees, x).shape
            assert {form.main.name} == launched & {"few", "bits", "walk", "deep"} or not n


def test_forms_share_tables_on_a_device():
    for trees in device_modules():
        kernels = find_kernels(FOREST, "float32", trees.scores, DEVICE)
        of_slices: dict[Any, list[set[int]]] = {}
        for form in kernels.candidates():
            tables = trees._tables.of(form.kernel, torch.device("cpu")).values()
            addresses = {table.data_ptr() for table in tables if table.nbytes > 1000}
            of_slices.setdefault((form.main.name, form.shared_bytes), []).append(addresses)
        assert max(map(len, of_slices.values())) > 1
        for first, *others in of_slices.values():
            assert all(first == other for other in others)


def test_rows_beyond_the_memory_between_kernels_come_in_chunks(monkeypatch):
    monkeypatch.setattr("hbconv.backends.cuda.plan.BUFFER_BYTES", 1)
    (leaves, scores) = device_modules(VECTORS)
    for trees in (leaves, scores):
        np.testing.assert_array_equal(
            trees.compute(torch.tensor(rows(100)), DEVICE), want(trees, rows(100))
        )


def test_rows_that_are_not_what_their_memory_holds():
    x = rows(40)
    wide = torch.tensor(np.repeat(x, 2, axis=1))[:, ::2]
    negated = torch._neg_view(torch.tensor(-x))
    for trees in device_modules():
        for given in (wide, negated):
            np.testing.assert_array_equal(trees.compute(given, DEVICE), want(trees, x))


def test_other_devices_tracers_and_exports_take_plain_operators():
    launched.clear()
    plain = module()
    x = rows(7)
    traced = without_deprecation(torch.jit.trace, plain, torch.tensor(rows(4)))
    for call in (plain, traced, export_module(plain).module()):
        leaves, scores = call(torch.tensor(x))
        np.testing.assert_array_equal(leaves, FOREST.leaves(x))
        np.testing.assert_array_equal(scores, FOREST.scores(x))
    assert not launched


def test_what_records_operators_sees_plain_ones(monkeypatch):
    """A launch would leave a trace whose result nothing computes."""
    (_, scores) = device_modules()
    monkeypatch.setattr(torch.Tensor, "is_cuda", True)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    seen = make_fx(scores)(torch.tensor(rows(7)))
    np.testing.assert_array_equal(seen(torch.tensor(rows(9)[:7])), FOREST.scores(rows(9)[:7]))
    assert not launched


def test_kernels_are_loaded_while_their_device_is_the_current_one(monkeypatch):
    """A module that is loaded into another device's context cannot be launched."""
    opened: list[bool] = []

    class Launcher(EmulatedLauncher):
        @contextmanager
        def opened(self) -> Iterator[None]:
            opened.append(True)
            yield
            opened.pop()

        def load(self, launch: Any) -> Any:
            assert opened
            return super().load(launch)

    monkeypatch.setattr(launches, "find_launcher", lambda device: Launcher())
    (_, scores) = device_modules()
    got = scores.compute(torch.tensor(rows(7)), DEVICE)
    np.testing.assert_array_equal(got, FOREST.scores(rows(7)))


def test_wrapped_tensors_take_plain_operators(monkeypatch):
    """Those of ``vmap`` have no memory that a kernel could read."""
    (_, scores) = device_modules()
    monkeypatch.setattr(torch.Tensor, "is_cuda", True)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    got = torch.vmap(scores)(torch.tensor(rows(8)).reshape(2, 4, -1))
    np.testing.assert_array_equal(got.flatten(0, 1), FOREST.scores(rows(8)))
    assert not launched


def test_threads_launch_at_the_same_time():
    (_, scores) = device_modules()
    given = [rows(n) for n in (1, 40, 7, 33)] * 8
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda x: scores.compute(torch.tensor(x), DEVICE), given))
    for x, got in zip(given, found, strict=True):
        np.testing.assert_array_equal(got, FOREST.scores(x))


def test_copies_and_files_leave_the_tables_out():
    plain = module()
    for trees in plain.modules():
        if isinstance(trees, DeviceTrees):
            trees.compute(torch.tensor(rows(3)), DEVICE)
            assert trees._placed
            assert not deepcopy(trees)._placed
    stored = io.BytesIO()
    torch.save(plain, stored)
    stored.seek(0)
    loaded = torch.load(stored, weights_only=False)
    np.testing.assert_array_equal(loaded(torch.tensor(rows(9)))[1], FOREST.scores(rows(9)))


def test_a_named_strategy_is_written_as_plain_operators():
    backend = find_backend("torch")
    assert backend.native_trees(ON_CUDA) == strategies().keys()
    assert not backend.native_trees(ON_CUDA.replace(strategy="gemm"))
    assert not find_backend("torchscript").native_trees(ON_CUDA)


def test_a_plan_names_the_kernels_and_what_they_should_take(monkeypatch):
    monkeypatch.setattr(device_trees, "describe_device", lambda device: DEVICE)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(
        device_trees,
        "compile_kernel",
        lambda kernel, name: Compiled(b"", f"Used {name[3:]} registers"),
    )
    remarks = device_trees.remark_kernels(FOREST, torch.device("cuda"))
    kernels = find_kernels(FOREST, "float32", True, DEVICE)
    assert remarks[: len(kernels.forms)] == tuple(str(kernels).splitlines())
    assert remarks[0].startswith("up to ")
    assert str(kernels.forms[-1].main) in remarks[len(kernels.limits)]
    registers = remarks[len(kernels.forms) :]
    assert {line.rpartition(": ")[2] for line in registers} == {"90 registers a thread"}
    assert len(registers) == len({form.main for form in kernels.forms})
    alone = random_forest(np.random.default_rng(0), 3, max_depth=0)
    assert device_trees.remark_kernels(alone, torch.device("cuda")) == (
        "plain operators: a forest without splits needs no kernel",
    )


def test_forests_that_are_repeated_are_written_for_the_device():
    def follow(b: Builder, state: Any, _: Any) -> Any:
        scores = b.op("tree_scores", state, forest=narrow, strategy="tree_traversal")
        return b.concat([scores, b.take(state, [1])])

    narrow = random_forest(np.random.default_rng(3), 5, max_depth=3, n_features=2)
    b = Builder()
    x = b.input("x", "float64", 2)
    program = b.program({"y": b.iterate(3, x, x, follow)})
    made = TensorModule(program, "cuda")
    assert any(isinstance(m, DeviceTrees) for m in made.modules())
    start = np.random.default_rng(4).standard_normal((9, 2))
    want = evaluate(program, {"x": start})["y"]
    np.testing.assert_array_equal(made(torch.tensor(start)).numpy(), want)
