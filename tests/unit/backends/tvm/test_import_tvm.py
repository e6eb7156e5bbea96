"""A process that compiles by TVM, and has torch installed."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("torch")

COMPILE = """
import numpy as np, sys
from sklearn.linear_model import LogisticRegression
import hbconv
x = np.eye(4)
source = LogisticRegression().fit(x, [0, 1, 0, 1])
model = hbconv.convert(source, backend="tvm", sample=x)
assert np.allclose(model.predict_proba(x), source.predict_proba(x))
"""


def run(code):
    return subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        capture_output=True,
        text=True,
        env=os.environ | {"HBCONV_CACHE": "0"},
    )


def test_a_process_compiles_without_torch_and_may_import_it_afterwards():
    found = run(
        COMPILE + "assert 'tvm' in sys.modules and 'torch' not in sys.modules\n"
        "import torch\n"
        "other = hbconv.convert(source, backend='torchscript', sample=x)\n"
        "assert np.allclose(other.predict_proba(x), source.predict_proba(x))\n"
        "model.compile(x.astype(np.float32))\n"
    )
    assert found.returncode == 0, found.stderr


def test_tvm_finds_torch_where_the_process_has_it():
    found = run("import torch\n" + COMPILE + "import tvm_ffi; tvm_ffi.use_torch_stream()\n")
    assert found.returncode == 0, found.stderr


def test_other_threads_import_torch_meanwhile():
    code = """
import sys, threading
from hbconv.backends.tvm.import_tvm import _WithoutTorch
sys.meta_path.insert(0, _WithoutTorch())
try:
    import torch
    raise SystemExit("torch is not hidden")
except ModuleNotFoundError:
    pass
def work():
    import torch
thread = threading.Thread(target=work)
thread.start()
thread.join()
assert "torch" in sys.modules
"""
    found = run(code)
    assert found.returncode == 0, found.stderr
