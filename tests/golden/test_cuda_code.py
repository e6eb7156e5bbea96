"""What NVRTC makes of the CUDA kernels, and which kernels forests get: no device is needed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from forests import random_forest
from golden.conftest import CODE

from hbconv.backends.cuda.choose import TreeKernels
from hbconv.backends.cuda.clocks import A100, H100
from hbconv.backends.cuda.compile import compile_kernel, find_nvrtc, nvrtc_version
from hbconv.backends.cuda.plan import CudaKernel, plan_pairwise
from hbconv.backends.tvm.cuda.plan import plan_program
from hbconv.errors import BackendError
from hbconv.tensor import Builder, Value

ARCHITECTURES = ("sm_80", "sm_90", "sm_100")
"""An A100, an H100 or H200, and a B200."""
VERSION = (13, 5)
"""Of NVRTC in tests/clients.txt, of which the figures are."""


def kernels() -> Iterator[CudaKernel]:
    for dtype in ("float", "double"):
        yield CudaKernel("bin", (("INPUT", dtype), ("CATEGORIES", 0)))
    yield CudaKernel("bin", (("INPUT", "float"), ("CATEGORIES", 1)))
    doubles = (("SUM", "double"), ("TERMS", 0))
    for bits in (3, 4, 5, 6):
        yield bits_kernel(doubles, bits, 32, 0)
    yield bits_kernel(doubles, 6, 32, 1)
    yield bits_kernel((("SUM", "float"), ("TERMS", 0)), 6, 16, 1)
    yield bits_kernel((("SUM", "int"), ("TERMS", 1)), 6, 32, 1)
    terms = (("SUM", "double"), ("TERMS", 1))
    yield bits_kernel(terms, 5, 32, 0)
    yield bits_kernel(terms, 6, 16, 1)
    for sums in (doubles, terms, (("SUM", "int"), ("TERMS", 1))):
        yield CudaKernel("walk", (*sums, ("THREADS", 256)))
    for dtype, staged in (("float", 1), ("float", 0), ("double", 1)):
        sizes = (("THREADS", 256), ("STAGED", staged))
        yield CudaKernel("deep", (("INPUT", dtype), *doubles, *sizes))
    yield CudaKernel("deep", (("INPUT", "float"), *terms, ("THREADS", 64), ("STAGED", 1)))
    yield CudaKernel("few", (("INPUT", "float"), *doubles))
    yield CudaKernel("vectors", (("SUM", "double"),))
    yield CudaKernel("terms", (("SUM", "double"),))
    for dtype, kind in (("float32", "square"), ("float64", "square"), ("float64", "canberra")):
        yield plan_pairwise(dtype, kind, 2.0, 1, 1).launches[0].kernel


def bits_kernel(sums: tuple[tuple[str, str | int], ...], bits: int, lanes: int, lists: int):
    sizes = (("BITS", bits), ("LANES", lanes), ("THREADS", 512), ("LISTS", lists))
    return CudaKernel("bits", (*sums, *sizes))


@pytest.fixture(scope="module")
def _nvrtc() -> None:
    try:
        find_nvrtc()
    except BackendError:
        pytest.skip("NVRTC of tests/clients.txt is not installed")


@pytest.mark.rooms(*CODE)
@pytest.mark.usefixtures("_nvrtc")
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_cuda_code(architecture: str, golden: Callable[[str], None]) -> None:
    """Registers a thread; nothing is spilled, so no kernel touches memory for want of them.

    Nor does the compiler warn.
    """
    lines = []
    for kernel in kernels():
        compiled = compile_kernel(kernel, architecture)
        log = compiled.log
        assert "warning" not in log, log
        spilled = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+)", log)
        assert spilled is not None, log
        assert set(spilled.groups()) == {"0"}, (str(kernel), log)
        lines.append(f"{kernel}: {compiled.registers} registers, no spills")
    if nvrtc_version() != VERSION:
        pytest.skip(f"the figures are of NVRTC {VERSION}, this is {nvrtc_version()}")
    golden("\n".join(lines))


def impute_and_scale(b: Builder, x: Value) -> dict[str, Value]:
    filled = b.where(b.op("isnan", x), b.constant(np.full(28, 0.1)), x)
    return {"y": (filled - b.constant(np.arange(28.0))) / b.constant(np.full(28, 3.0))}


def linear(b: Builder, x: Value) -> dict[str, Value]:
    return {"y": b.op("sigmoid", b.matmul(x, b.constant(np.ones((28, 3)))))}


def codes(b: Builder, x: Value) -> dict[str, Value]:
    edges = b.constant(np.tile(np.arange(40.0), (28, 1)))
    return {"y": b.op("bucketize", x, edges, right=True), "best": b.op("argmax", x, axis=0)}


def row_kernel(write: Callable[[Builder, Value], dict[str, Value]]) -> CudaKernel:
    b = Builder()
    program = b.program(write(b, b.input("x", "float64", 28)))
    (launch,) = plan_program(program, H100).choose(1).plan.launches
    return launch.kernel


@pytest.mark.rooms(*CODE)
@pytest.mark.usefixtures("_nvrtc")
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_row_code(architecture: str, golden: Callable[[str], None]) -> None:
    """Registers and stack of a thread that takes a row; nothing is spilled."""
    lines = []
    for write in (impute_and_scale, linear, codes):
        compiled = compile_kernel(row_kernel(write), architecture)
        assert "0 bytes spill stores, 0 bytes spill loads" in compiled.log, compiled.log
        lines.append(
            f"{write.__name__}: {compiled.registers} registers, {compiled.stack_bytes} of stack"
        )
    if nvrtc_version() != VERSION:
        pytest.skip(f"the figures are of NVRTC {VERSION}, this is {nvrtc_version()}")
    golden("\n".join(lines))


def test_row_source(golden: Callable[[str], None]) -> None:
    """Constants to the last bit, comparisons as they were written."""
    golden(row_kernel(impute_and_scale).text)


FORESTS = {
    "shallow": random_forest(np.random.default_rng(0), 100, 28, 3, missing="left", awkward=0),
    "deep": random_forest(np.random.default_rng(0), 50, 28, 12, missing="left", awkward=0),
    "mixed directions": random_forest(np.random.default_rng(0), 100, 28, 5, awkward=0),
    "categories": random_forest(np.random.default_rng(0), 100, 28, 4, n_categorical=4),
    "wide": random_forest(np.random.default_rng(0), 300, 60, 5, missing="left", awkward=0),
    "very wide": random_forest(np.random.default_rng(0), 300, 600, 5, missing="left", awkward=0),
    "vectors": random_forest(np.random.default_rng(0), 100, 9, 5, n_outputs=3, vector=True),
}


def test_cuda_choices(golden: Callable[[str], None]) -> None:
    """Predictions, shared memory included: they change only when they are meant to."""
    lines = []
    for name, forest in FORESTS.items():
        for device, label in ((H100, "H100"), (A100, "A100")):
            lines += [f"{name}, {label}", str(TreeKernels(forest, "float32", True, device))]
    golden("\n".join(lines))
