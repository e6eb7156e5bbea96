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
SECONDS = 85
COMPILED_SECONDS = 90
"""AOTInductor compiles C++ and device code."""
TESTS = {
    **{
        f"{FILE}::test_cuda_answers_as_the_cpu[{name}-torchscript]": SECONDS
        for name in ("lightgbm", "xgboost")
    },
    **{
        f"{FILE}::test_a_compiled_program_answers_as_the_source[{name}]": COMPILED_SECONDS
        for name in ("linear", "lightgbm")
    },
    f"{FILE}::test_tensors_that_come_again_are_answered_alike": SECONDS,
    f"{FILE}::test_threads_and_streams_answer_alike": SECONDS,
    f"{FILE}::test_a_call_of_trees_is_captured_by_its_caller": SECONDS,
    f"{FILE}::test_a_capture_that_fails_leaves_the_stream_and_later_captures_alone": SECONDS,
    f"{FILE}::test_gradients_and_wrapped_tensors_take_plain_operators": SECONDS,
}
"""Seconds that each may take."""


def run(place: Place, models: Path) -> Iterator[Row]:  # noqa: ARG001
    """Yield what became of each test."""
    return run_tests(TESTS, place)
