"""Importing hbconv is quick and brings no library along; the layers import downwards only."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import hbconv

ROOT = Path(hbconv.__file__).parent
TVM = ROOT / "backends" / "tvm"
HEAVY = {
    "torch",
    "sklearn",
    "lightgbm",
    "xgboost",
    "onnx",
    "onnxruntime",
    "tvm",
    "pandas",
    "pyarrow",
    "polars",
    "scipy",
}

LAYERS = (
    {
        "errors",
        "target",
        "array",
        "cache",
        "caches",
        "covered_forest",
        "feature_pairs",
        "files",
        "forest",
        "forest_check",
        "forest_parts",
        "log",
        "machine",
        "names",
        "row_buckets",
        "symmetric_forest",
        "tuning_record",
    },
    {"tensor"},
    {"cost_model"},
    {"strategy", "containers"},
    {"lower", "parse"},
    {"interface"},
    {"backends"},
    {"optimize"},
    {"pipeline", "picture"},
    {"runtime"},
    {"skops_files", "source_methods"},
    {"model_files", "sklearn_estimator"},
    {"model", "compiler", "verification"},
    {"answer_columns"},
    {"testing", "scorer", "serve", "triton"},
    {"engines", "mlflow", "model_card"},
    {"cli"},
)
"""Parts of hbconv, lowest first: a part imports its own layer and those before."""

TVM_LAYERS = (
    {"target", "import_tvm"},
    {"passes", "tir", "binary"},
    {"ops"},
    {"trees"},
    {"emit"},
    {"compile", "cuda", "report"},
    {"c_library"},
    {"__init__"},
)
"""Parts of the tile compiler, lowest first. ``passes`` rewrite programs without TVM."""


def test_importing_hbconv_loads_no_library():
    script = f"import sys, hbconv; print(sorted({HEAVY!r} & set(sys.modules)))"
    assert (
        subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True
        ).stdout
        == "[]\n"
    )


def test_importing_hbconv_is_quick():
    """In milliseconds of this process's own time, beside what an empty interpreter takes."""
    script = "import time; start = time.process_time(); import hbconv; print(time.process_time() - start)"
    runs = [
        float(
            subprocess.run(
                [sys.executable, "-c", script], capture_output=True, text=True, check=True
            ).stdout
        )
        for _ in range(3)
    ]
    assert min(runs) < 0.2


@pytest.mark.parametrize("name", hbconv.__all__)
def test_every_public_name_is_there(name):
    assert getattr(hbconv, name) is not None
    assert name in dir(hbconv)


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="module 'hbconv' has no attribute 'covnert'"):
        _ = hbconv.covnert


def test_submodules_do_not_hide_public_names():
    script = "import hbconv, hbconv.compiler, hbconv.verification, hbconv.model; print(callable(hbconv.convert), callable(hbconv.verify))"
    assert (
        subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True
        ).stdout
        == "True True\n"
    )


def sources():
    return sorted(p for p in ROOT.rglob("*.py") if p != ROOT / "__init__.py")


def imports(path):
    """Modules imported when the file is, with those under ``if TYPE_CHECKING`` and in functions
    left out.
    """
    found, pending = set(), list(ast.parse(path.read_text(encoding="utf-8")).body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {node.module or ""} | (
                {f"hbconv.{a.name}" for a in node.names} if node.module == "hbconv" else set()
            )
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            pending += node.orelse
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            pending += list(ast.iter_child_nodes(node))
    return found


def layer(part, layers=LAYERS):
    return next(i for i, parts in enumerate(layers) if part in parts)


@pytest.mark.parametrize("path", sources(), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_one_way(path):
    part = path.relative_to(ROOT).with_suffix("").parts[0]
    inner = {m.split(".")[1] for m in imports(path) if m.startswith("hbconv.")} - {"__version__"}
    assert {other for other in inner if layer(other) > layer(part)} == set()


@pytest.mark.parametrize("path", sorted(TVM.rglob("*.py")), ids=lambda p: str(p.relative_to(TVM)))
def test_imports_of_the_tile_compiler_point_one_way(path):
    part = path.relative_to(TVM).with_suffix("").parts[0]
    prefix = "hbconv.backends.tvm."
    inner = {m.removeprefix(prefix).split(".")[0] for m in imports(path) if m.startswith(prefix)}
    lowest = layer(part, TVM_LAYERS)
    assert {other for other in inner if layer(other, TVM_LAYERS) > lowest} == set()


@pytest.mark.parametrize("path", sources(), ids=lambda p: str(p.relative_to(ROOT)))
def test_heavy_libraries_are_imported_where_they_are_used(path):
    name = path.relative_to(ROOT).as_posix()
    found = {m.partition(".")[0] for m in imports(path)} & HEAVY
    allowed = (
        {"torch"}
        if "/torch/" in name or name == "backends/torchscript.py"
        else {"onnx", "onnxruntime"}
        if "/onnx/" in name
        else {"tvm"}
        if "/tvm/" in name and "/passes/" not in name
        else {path.stem, "pandas", "pyarrow"}
        if name.startswith("engines/")
        else set()
    )
    assert found <= allowed


def test_strategies_stand_on_the_tensor_layer_alone():
    import hbconv_strategies

    for path in Path(hbconv_strategies.__file__).parent.glob("*.py"):
        inner = {m.split(".")[1] for m in imports(path) if m.startswith("hbconv.")}
        assert inner <= {
            "errors",
            "target",
            "array",
            "forest",
            "tensor",
            "cost_model",
            "strategy",
            "names",
        }, path.name
