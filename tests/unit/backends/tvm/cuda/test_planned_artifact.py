"""A plan in memory of torch: tensors stay, arrays come in chunks and graphs, on a recorder."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from emulated_rows import EmulatedDevice
from fake_streams import FakeDevice
from forests import hostile_rows, random_forest

from hbconv.backends.cuda.clocks import H100
from hbconv.backends.cuda.plan import GROUP
from hbconv.backends.reference import evaluate
from hbconv.backends.torch import device_calls, launches
from hbconv.backends.torch.launches import PlannedArtifact
from hbconv.backends.tvm import BACKEND
from hbconv.backends.tvm.cuda.plan import plan_program
from hbconv.target import Target
from hbconv.tensor import Builder, TensorProgram

CPU = torch.device("cpu")
FOREST = random_forest(np.random.default_rng(0), 20, 3, n_outputs=2)


def program() -> TensorProgram:
    """Trees between operators, an output that holds truths, and two inputs."""
    b = Builder()
    x = b.input("x", "float64", FOREST.n_features)
    y = b.input("codes", "int64", 1)
    scores = b.op("tree_scores", x, forest=FOREST, strategy="select")
    return b.program({"scores": b.op("neg", scores), "flags": b.op("isnan", x), "codes": y + y})


def given(n: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(n)
    return {"codes": rng.integers(0, 9, (n, 1)), "x": hostile_rows(rng, FOREST, "float64", n)}


@pytest.fixture
def emulated(monkeypatch):
    """Let kernels run on the CPU, on its tensors."""
    device = EmulatedDevice()

    monkeypatch.setattr(launches, "find_launcher", lambda _: device.launcher)
    return device


def make(streams: FakeDevice | None = None) -> PlannedArtifact:
    prepared = BACKEND.prepare(program(), Target("tvm", device="cuda"))
    return PlannedArtifact(plan_program(prepared, H100), CPU, streams or FakeDevice())


def check(found: dict[str, np.ndarray], want: dict[str, np.ndarray]) -> None:
    assert list(found) == list(want)
    for name, expected in want.items():
        assert (found[name].dtype, found[name].shape) == (expected.dtype, expected.shape)
        assert found[name].tobytes() == expected.tobytes(), name


@pytest.mark.parametrize("n", [0, 1, 50])
def test_tensors_are_answered_by_tensors(n, emulated):
    inputs = given(n)
    found = make().compute({name: torch.tensor(rows) for name, rows in inputs.items()})
    check({name: tensor.numpy() for name, tensor in found.items()}, evaluate(program(), inputs))
    assert bool(emulated.launcher.launched) == bool(n)


def test_tensors_of_other_dtypes_and_strides_are_read_alike(emulated):
    inputs = given(40)
    tensors = {
        "codes": torch.tensor(inputs["codes"], dtype=torch.int32),
        "x": torch.tensor(np.asfortranarray(inputs["x"])),
    }
    negated = {**tensors, "x": torch._neg_view(-tensors["x"])}
    for given_as in (tensors, negated):
        found = make().compute(given_as)
        check({name: tensor.numpy() for name, tensor in found.items()}, evaluate(program(), inputs))


@pytest.mark.parametrize("n", [0, 1, 300])
def test_rows_beyond_the_memory_come_in_parts(n, emulated, monkeypatch):
    monkeypatch.setattr("hbconv.backends.cuda.plan.BUFFER_BYTES", 1)
    check(make().run(given(n)), evaluate(program(), given(n)))
    assert emulated.launcher.launched.count("rows0") in (0, 1, -(-n // GROUP))


def test_arrays_come_in_chunks_on_two_streams(emulated, monkeypatch):
    monkeypatch.setattr(device_calls, "CHUNK_BYTES", 1)
    monkeypatch.setattr(device_calls, "PAGEABLE_BYTES", 1)
    monkeypatch.setattr(device_calls, "LEAST_ROWS", 100)
    streams = FakeDevice()
    check(make(streams).run(given(350)), evaluate(program(), given(350)))
    assert len(streams.streams) == 2


@pytest.mark.parametrize("as_given", [lambda rows: rows, torch.tensor])
def test_small_batches_of_many_kernels_become_graphs(emulated, monkeypatch, as_given):
    monkeypatch.setattr(device_calls, "DIRECT_OPERATORS", 1)
    streams = FakeDevice()
    own = make(streams)
    answer = own.run if as_given is not torch.tensor else own.compute
    for n in (30, 25, 32, 17):
        found = answer({name: as_given(rows) for name, rows in given(n).items()})
        check(
            {name: np.asarray(rows) for name, rows in found.items()}, evaluate(program(), given(n))
        )
    assert streams.told == ["capture", "replay", "replay"]


def test_few_kernels_are_launched_directly(emulated):
    streams = FakeDevice()
    own = make(streams)
    for _ in range(4):
        check(own.run(given(30)), evaluate(program(), given(30)))
    assert not streams.told


def test_threads_compute_at_the_same_time(emulated):
    own = make()
    sizes = [30, 1, 7, 32, 300] * 4

    def answer(n: int) -> None:
        found = own.compute({name: torch.tensor(rows) for name, rows in given(n).items()})
        check({name: rows.numpy() for name, rows in found.items()}, evaluate(program(), given(n)))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(answer, sizes))


def test_torch_without_cuda_has_no_device():
    assert launches.device_of_torch("cuda:99") is None
