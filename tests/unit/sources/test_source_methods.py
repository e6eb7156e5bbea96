"""Type checkers know the methods of models, and refuse misspelt ones."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

from hbconv.names import ARGUMENT_METHODS, INVERSE, METHODS
from hbconv.sources import sklearn_estimator

ROOT = Path(__file__).parents[3]
SNIPPET = """
import hbconv

model = hbconv.load("model.hbc")
model.predict([[1.0]])
reveal_type(model.score([[1.0]], [1]))
model.set_output(transform="pandas").transform([[1.0]])
model.predct([[1.0]])
"""


def declared():
    tree = ast.parse(Path(sklearn_estimator.__file__).read_text(encoding="utf-8"))
    classes = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    (methods,) = (node for node in classes if node.name == "SourceMethods")
    return {node.name for node in ast.walk(methods) if isinstance(node, ast.FunctionDef)}


def test_every_method_of_any_model_is_declared():
    others = {*ARGUMENT_METHODS, INVERSE, "score", "get_feature_names_out", "set_output"}
    assert declared() == {*METHODS, *others}


def test_nothing_is_declared_at_run_time():
    assert not declared() & set(dir(sklearn_estimator.SourceMethods))


def test_mypy_refuses_a_misspelt_method(tmp_path):
    (tmp_path / "snippet.py").write_text(SNIPPET)
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml")]
    kept = os.environ.get("MYPY_CACHE_DIR", str(ROOT / ".mypy_cache"))
    command += ["--cache-dir", kept, str(tmp_path / "snippet.py")]
    done = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)
    errors = [line for line in done.stdout.splitlines() if ": error: " in line]
    assert len(errors) == 1, done.stdout + done.stderr
    assert '"Model" has no attribute "predct"' in errors[0]
    assert 'Revealed type is "float"' in done.stdout.replace("builtins.", "")
