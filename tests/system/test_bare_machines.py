"""Machines that have nothing: no linker, no folder for temporary files, no home, no cache.

A model is converted and saved there, and a server without TVM runs its kernels.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

CONVERT = """
import os, pwd, sys, tempfile
import numpy as np
from lightgbm import LGBMRegressor
from sklearn.preprocessing import StandardScaler

def no_user(uid):
    raise KeyError(uid)

def no_folder():
    raise FileNotFoundError(2, "No usable temporary directory found")

pwd.getpwuid = no_user
tempfile.gettempdir = no_folder
import hbconv

rows = np.random.default_rng(0).normal(size=(200, 3))
trees = LGBMRegressor(n_estimators=3, verbose=-1).fit(rows, rows[:, 0])
scaler = StandardScaler().fit(rows)
model = hbconv.convert(trees, backend="tvm", sample=rows)
model.save("trees.hbc")
np.save("rows.npy", rows)
np.save("answers.npy", trees.predict(rows))
# A path below a file takes no cache, whoever asks.
os.environ["HBCONV_CACHE"] = os.devnull + "/cache"
scaled = hbconv.convert(scaler, backend="tvm").transform(rows)
print(np.array_equal(model.predict(rows), trees.predict(rows)), np.array_equal(scaled, scaler.transform(rows)))
"""
SERVE = """
import sys
sys.modules["tvm"] = sys.modules["tvm_ffi"] = None
import numpy as np
import hbconv
answers = hbconv.load("trees.hbc", trusted=True).predict(np.load("rows.npy"))
print(np.array_equal(answers, np.load("answers.npy")))
"""
HIDDEN = {"HOME", "HBCONV_CACHE", "XDG_CACHE_HOME", "TMPDIR", "TEMP", "TMP"}


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="only Linux has files in memory")
def test_a_machine_that_has_nothing_converts_saves_and_serves(tmp_path):
    environment = {name: value for name, value in os.environ.items() if name not in HIDDEN}

    def run(code):
        done = subprocess.run(
            [sys.executable, "-W", "error::UserWarning:hbconv", "-c", code],
            cwd=tmp_path,
            env=environment | {"PATH": ""},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert run(CONVERT) == "True True\n"
    assert run(SERVE) == "True\n"
    files = {path.name for path in tmp_path.iterdir()}
    assert files == {"trees.hbc", "rows.npy", "answers.npy"}
