"""Run a script where its own runtime can be imported, and no more."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

__all__ = ["run_alone"]

ALONE = """
import importlib.machinery
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {refused!r}:
            return importlib.machinery.ModuleSpec(name, self)

    def create_module(self, spec):
        raise ImportError(f"{{spec.name}} is not installed here")

    def exec_module(self, module):
        pass

sys.meta_path.insert(0, Refuse())
exec(compile(open({script!r}).read(), {script!r}, "exec"))
"""
"""Torch asks which packages there are, and imports none; so what is refused is found at first."""
REFUSED = {
    *("hbconv", "hbconv_strategies", "sklearn", "scipy", "pandas", "pyarrow", "polars", "tvm"),
    *("tvm_ffi", "onnx", "onnxruntime", "lightgbm", "xgboost", "catboost", "safetensors"),
}


def run_alone(
    script: Path, *arguments: object, refused: Collection[str] = frozenset(REFUSED)
) -> str:
    """Run a script in an isolated interpreter that refuses to import some packages.

    Return what it prints; it is an AssertionError, with its errors, that it fails.
    """
    code = ALONE.format(refused=set(refused), script=str(script))
    command = [sys.executable, "-I", "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
