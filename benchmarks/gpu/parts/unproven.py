"""Tests of backend ``torch`` that have not ended on a device, side by side."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.gpu.place import Place
from benchmarks.gpu.record import Row
from benchmarks.gpu.tests_apart import run_tests

__all__ = ["TESTS", "run"]

FILE = "tests/gpu/test_cuda.py"
NAMES = ("linear", "forest", "lightgbm", "xgboost")
SECONDS = 60
COMPILED_SECONDS = 95
"""AOTInductor compiles C++ and device code."""
TESTS = {
    **{f"{FILE}::test_cuda_answers_as_the_cpu[{name}-torchscript]": SECONDS for name in NAMES},
    **{f"{FILE}::test_tensors_are_answered_on_the_device[{name}]": SECONDS for name in NAMES},
    f"{FILE}::test_a_moved_torchscript_file_adds_in_order": SECONDS,
    f"{FILE}::test_a_program_written_for_devices_runs_after_a_move": SECONDS,
    **{
        f"{FILE}::test_a_compiled_program_answers_as_the_source[{name}]": COMPILED_SECONDS
        for name in ("linear", "lightgbm")
    },
}
"""Seconds that each may take: which of the tests of tensors did not end is not known."""


def run(place: Place, models: Path) -> Iterator[Row]:  # noqa: ARG001
    """Yield what became of each test."""
    return run_tests(TESTS, place)
