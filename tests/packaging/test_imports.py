"""Importing hbconv is quick and brings no library along; the layers import downwards only."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from import_graph import AT_ONCE, imports

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
        "files",
        "markup",
        "model_formats",
        "names",
        "system",
    },
    {"tensor"},
    {"cost_model"},
    {"trees"},
    {"containers"},
    {"lower", "parse"},
    {"backends"},
    {"optimize"},
    {"pipeline", "picture"},
    {"runtime"},
    {"sources", "model", "compiler"},
    {"testing", "serve", "triton"},
    {"engines", "mlflow"},
    {"score"},
    {"cli"},
    {"__main__"},
)
"""Parts of hbconv, lowest first: a part imports its own layer and those before."""

TVM_LAYERS = (
    {"machine", "import_tvm"},
    {"passes", "tir", "binary"},
    {"ops"},
    {"trees"},
    {"emit", "texts"},
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


def test_every_public_name_is_there():
    """Names are looked up in their homes when they are asked for."""
    assert [name for name in hbconv.__all__ if getattr(hbconv, name, None) is None] == []
    assert set(hbconv.__all__) <= set(dir(hbconv))


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="module 'hbconv' has no attribute 'covnert'"):
        _ = hbconv.covnert


def test_submodules_do_not_hide_public_names():
    script = "import hbconv, hbconv.compiler, hbconv.sources.verification, hbconv.model; print(callable(hbconv.convert), callable(hbconv.verify))"
    assert (
        subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True
        ).stdout
        == "True True\n"
    )


def sources(root=ROOT):
    return [path for path in sorted(root.rglob("*.py")) if path != ROOT / "__init__.py"]


def imported(path):
    """Modules imported when the file is, with those for types and in functions left out."""
    at_once = [found for found in imports(path) if found.when == AT_ONCE]
    ours = {f"hbconv.{name}" for f in at_once if f.module == "hbconv" for name in f.names}
    return ours | {found.module for found in at_once}


def layer(part, layers=LAYERS):
    return next(i for i, parts in enumerate(layers) if part in parts)


def above(part, modules, prefix, layers):
    """Return the parts of higher layers that a part imports."""
    inner = {m.removeprefix(prefix).split(".")[0] for m in modules if m.startswith(prefix)}
    lowest = layer(part, layers)
    return {other for other in inner - {"__version__"} if layer(other, layers) > lowest}


def pointing_up(root, prefix, layers):
    """Return the files whose imports point up, and what they import there."""
    paths = {path.relative_to(root).as_posix(): path for path in sources(root)}
    found = {
        name: above(name.removesuffix(".py").split("/")[0], imported(path), prefix, layers)
        for name, path in paths.items()
    }
    return {name: parts for name, parts in found.items() if parts}


def test_imports_point_one_way():
    assert pointing_up(ROOT, "hbconv.", LAYERS) == {}


def test_imports_of_the_tile_compiler_point_one_way():
    assert pointing_up(TVM, "hbconv.backends.tvm.", TVM_LAYERS) == {}


def test_an_import_that_points_up_is_found(tmp_path):
    (tmp_path / "tensor.py").write_text("from hbconv import errors\nimport hbconv.model\n")
    (tmp_path / "array.py").write_text(
        "if TYPE_CHECKING:\n    import hbconv.model\nelse:\n    from hbconv import cli\n"
        "def late():\n    from hbconv.model import Model\n"
    )
    found = pointing_up(tmp_path, "hbconv.", LAYERS)
    assert found == {"array.py": {"cli"}, "tensor.py": {"model"}}


def heavy(name, path):
    """Return the heavy libraries that a file imports, and those that it may import."""
    found = {module.partition(".")[0] for module in imported(path)} & HEAVY
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
    return found, allowed


def too_heavy(root):
    """Return the files that import a heavy library that is not theirs, and which."""
    judged = {
        name: heavy(name, path)
        for path in sources(root)
        for name in [path.relative_to(root).as_posix()]
    }
    return {name: found - allowed for name, (found, allowed) in judged.items() if found - allowed}


def test_heavy_libraries_are_imported_where_they_are_used():
    assert too_heavy(ROOT) == {}


def test_a_heavy_library_is_found(tmp_path):
    (tmp_path / "backends" / "torch").mkdir(parents=True)
    (tmp_path / "backends" / "torch" / "emit.py").write_text("import torch\nimport tvm.ir\n")
    (tmp_path / "model.py").write_text("class Model:\n    from pandas import DataFrame\n")
    assert too_heavy(tmp_path) == {"backends/torch/emit.py": {"tvm"}, "model.py": {"pandas"}}


def test_strategies_stand_on_the_tensor_layer_alone():
    import hbconv_strategies

    for path in Path(hbconv_strategies.__file__).parent.glob("*.py"):
        inner = {m.split(".")[1] for m in imported(path) if m.startswith("hbconv.")}
        assert inner <= {
            "errors",
            "target",
            "array",
            "trees",
            "tensor",
            "cost_model",
            "names",
        }, path.name
