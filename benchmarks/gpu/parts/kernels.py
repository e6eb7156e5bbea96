"""Every kernel of trees: its bits first, then its time, beside its prediction and its peers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch

from benchmarks.gpu.device_kernels import PlacedForest
from benchmarks.gpu.figures import figure, named, on_device
from benchmarks.gpu.fitted import DEEP, KERNELS, Fitted, find
from benchmarks.gpu.parts.unproven import NAMES
from benchmarks.gpu.peers import peers
from benchmarks.gpu.place import Place
from benchmarks.gpu.record import Row
from benchmarks.gpu.tests_apart import run_tests

__all__ = ["TESTS", "run"]

ROWS = (1, 256, 1024, 4096, 16_384, 65_536, 100_000, 1_000_000)
PEER_ROWS = (1, 4096, 100_000, 1_000_000)
CHECKED_ROWS = (1, 33, 1025, 3000)
CHECKED_SLICES = 2
"""Slices that are checked: more of them take the same kernels."""
PLAIN_ROWS = 100_000
"""Rows up to which plain operators of torch are: more take a quarter of a second a call."""
SECONDS = 45
TESTS = {
    f"tests/gpu/{test}": SECONDS
    for test in (
        "test_trees.py::test_every_kernel",
        "test_trees.py::test_plain_operators_on_the_device",
        "test_trees.py::test_modules_made_for_the_cpu_add_in_order_after_a_move",
        "test_trees.py::test_models_answer_as_on_the_cpu",
        "test_trees.py::test_a_call_is_captured_in_a_graph",
        "test_trees.py::test_another_stream_is_the_one_that_is_used",
        "test_tvm.py::test_trees_are_those_of_the_reference",
        "test_tvm.py::test_tensors_chunks_and_graphs_answer_alike",
        "test_tvm.py::test_the_driver_alone_answers_alike",
        "test_tvm.py::test_neighbours_are_those_of_the_reference",
        "test_tvm.py::test_products_are_near_the_reference",
        "test_cuda.py::test_every_strategy_reaches_the_same_leaves_on_cuda",
        "test_cuda.py::test_a_model_moves_between_devices",
        "test_cuda.py::test_arrays_of_cupy_are_answered_by_cupy",
        "test_cuda.py::test_chunks_and_graphs_answer_as_one_call",
        "test_cuda.py::test_a_moved_torchscript_file_adds_in_order",
        "test_cuda.py::test_a_program_written_for_devices_runs_after_a_move",
        "test_cuda.py::test_tensors_are_answered_on_the_device",
        *(f"test_cuda.py::test_cuda_answers_as_the_cpu[{name}-torch]" for name in NAMES),
        *(
            f"test_cuda.py::test_cuda_answers_as_the_cpu[{name}-torchscript]"
            for name in ("linear", "forest")
        ),
    )
}
"""Those that passed on a device before: kernels change."""


def run(place: Place, models: Path) -> Iterator[Row]:
    """Yield times of a model after another, then what became of the tests."""
    for name in place.some((KERNELS[0], DEEP, *KERNELS[1:])):
        yield from named(
            place, name, lambda name=name: model_rows(find(name, models, place), place)
        )
    yield from run_tests(TESTS, place)


def model_rows(model: Fitted, place: Place) -> Iterator[Row]:
    """Check the forms of a model, and time those that are right."""
    forest = model.forest()
    placed = PlacedForest(forest, place)
    wrong = set()
    for way, form in placed.forms.items():
        if form.slices > CHECKED_SLICES:
            continue
        differing = placed.differing(form, CHECKED_ROWS[: place.rows(4)], place)
        yield {"what": model.name, "way": f"{way}, bits", "differing": differing}
        if differing:
            wrong.add(form.main)
    for count in dict.fromkeys(map(place.rows, ROWS)):
        x = torch.randn(count, forest.n_features, device=place.name)
        call = lambda x=x: placed.call(x)  # noqa: E731
        yield on_device(place, figure(place, model.name, count, "chosen", call), call)
        for way, form in placed.worth_timing(count).items():
            if form.main in wrong:
                continue
            predicted = {"predicted": round(form.seconds(count, placed.sizes) * 1e6, 1)}
            call = lambda x=x, form=form: placed.run(x, form)  # noqa: E731
            found = figure(place, model.name, count, way, call, **predicted)
            yield on_device(place, found, call)
    yield from peer_rows(model, forest, place)


def peer_rows(model: Fitted, forest: object, place: Place) -> Iterator[Row]:
    """Time what else computes the model; what fails is named, and the others go on."""
    for name, make in peers(model, forest, place):
        most = PLAIN_ROWS if name.startswith("torch") else max(PEER_ROWS)
        asked = (model, name, make, most, place)
        yield from named(place, model.name, lambda asked=asked: one_peer(*asked))


def one_peer(model: Fitted, name: str, make: object, most: int, place: Place) -> Iterator[Row]:
    """Time one peer."""
    call = make()
    width = model.rows(1).shape[1]
    for count in dict.fromkeys(place.rows(n) for n in PEER_ROWS if n <= most):
        x = torch.randn(count, width, device=place.name)
        yield figure(place, model.name, count, name, lambda x=x: call(x), peer=True)
