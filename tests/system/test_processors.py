"""Answers are what is promised whatever instructions numpy, the BLAS and the C library take,
and with any number of threads.
"""

import os
import subprocess
import sys

import numpy as np
import pytest
from processors import write

VECTORS = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
"""Sets of instructions beyond the plainest that numpy would use here: only these may be
switched off without a warning.
"""

X86 = bool({"X86_V3", "AVX2", "FMA3"} & set(VECTORS))
WIDE = bool({"X86_V4", "AVX512F", "AVX512_SKX"} & set(VECTORS))

ONE, TWO = (
    {f"{library}_NUM_THREADS": count for library in ("OMP", "OPENBLAS", "MKL")} for count in "12"
)

PROCESSORS = {
    "plain": ONE | {"NPY_DISABLE_CPU_FEATURES": " ".join(VECTORS)},
    "old": ONE
    | {
        "OPENBLAS_CORETYPE": "Prescott",
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX512F",
        "NPY_DISABLE_CPU_FEATURES": " ".join(VECTORS),
    },
    "usual": TWO
    | {
        "OPENBLAS_CORETYPE": "Haswell",
        "NPY_DISABLE_CPU_FEATURES": " ".join(
            name for name in VECTORS if name not in ("X86_V3", "AVX2", "FMA3")
        ),
    },
    "wide": TWO | {"OPENBLAS_CORETYPE": "SkylakeX"},
}
RUN_HERE = [*["old", "usual"] * X86, *["wide"] * WIDE] or ["plain"]
"""Instructions that this processor has too; of one that is no x86, those that numpy can do
without.
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("processors")
    write(path)
    return path


@pytest.mark.share("light")
@pytest.mark.parametrize("processor", RUN_HERE)
def test_answers_on_another_processor(processor, folder):
    code = f"from pathlib import Path; from processors import answer; answer(Path({str(folder)!r}))"
    environment = os.environ | PROCESSORS[processor] | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
