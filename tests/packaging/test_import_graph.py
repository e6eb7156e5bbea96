"""The graph of imports: no circle anywhere, and tables that need no TVM."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import hbconv

ROOT = Path(hbconv.__file__).parent
TVM = "hbconv.backends.tvm"
NUMPY_ONLY = (
    "ops.edge_search",
    "target.machine",
    "target.schedule",
    "trees.bitwise.leaf_splits",
    "trees.bitwise.masks",
    "trees.bitwise.set_tables",
    "trees.bytewise.macro_nodes",
    "trees.list_scheduling",
    "trees.single_row.row_columns",
    "trees.single_row.row_limit",
    "trees.single_row.top_tables",
    "trees.tree_order",
)
"""Files that compute without TVM, beside each ``tables.py`` and all of ``passes``."""


def name_of(path):
    return ".".join(("hbconv", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(
        ".__init__"
    )


MODULES = {name_of(path): path for path in ROOT.rglob("*.py")}


def imported(name):
    """Modules that a file names in any import: at the top, in functions, and for types."""
    for node in ast.walk(ast.parse(MODULES[name].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            submodules = [f"{node.module}.{alias.name}" for alias in node.names]
            found = [module for module in submodules if module in MODULES]
            yield from found
            if len(found) < len(submodules):
                yield node.module


GRAPH = {name: set(imported(name)) for name in MODULES}


def test_no_imports_form_a_circle():
    """The package itself is left out: it imports what it offers when asked, and has the version."""
    ours = {name: others & MODULES.keys() - {name, "hbconv"} for name, others in GRAPH.items()}
    try:
        TopologicalSorter(ours).prepare()
    except CycleError as error:
        pytest.fail(f"these import each other: {' <- '.join(error.args[1])}")


def reached(name):
    """All that a module imports, and what that imports."""
    found, pending = set(), [name]
    while pending:
        new = GRAPH.get(pending.pop(), set()) - found
        found |= new
        pending += new
    return found


def needs_no_tvm(name):
    if not name.startswith(f"{TVM}."):
        return False
    inner = name.removeprefix(f"{TVM}.")
    return inner in NUMPY_ONLY or inner.startswith("passes.") or inner.endswith(".tables")


@pytest.mark.parametrize("name", sorted(filter(needs_no_tvm, MODULES)))
def test_what_a_model_becomes_is_computed_without_tvm(name):
    assert not {other for other in reached(name) if other.partition(".")[0] in {"tvm", "tvm_ffi"}}


def test_files_that_need_no_tvm_are_there():
    assert {f"{TVM}.{name}" for name in NUMPY_ONLY} <= MODULES.keys()
