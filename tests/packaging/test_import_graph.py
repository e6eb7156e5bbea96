"""The graph of imports: no circle anywhere, no two folders that import each other, and tables that
need no TVM.
"""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from import_graph import (
    AT_ONCE,
    CALLED,
    TYPED,
    files,
    imported,
    importers,
    imports,
    modules,
    reached,
)

import hbconv

ROOT = Path(hbconv.__file__).parent
TVM = "hbconv.backends.tvm"
NUMPY_ONLY = (
    "ops.edge_search",
    "machine.machine",
    "machine.schedule",
    "trees.bitwise.masks",
    "trees.list_scheduling",
    "trees.tree_order",
    "trees.tree_work",
)
"""Files that compute without TVM, beside each ``tables.py`` and all of ``passes``."""


def ours():
    """Return the names of all modules of hbconv."""
    return {name for name in files() if name.partition(".")[0] == "hbconv"}


def test_no_imports_form_a_circle():
    """The package itself is left out: it imports what it offers when asked, and has the version."""
    names = ours() - {"hbconv"}
    graph = {name: imported(name) & names - {name} for name in names}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"these import each other: {' <- '.join(error.args[1])}")


def folders(path, other):
    """Return the folders in which two files lie, where their paths part; None for a file itself."""
    level = next(i for i, (a, b) in enumerate(zip(path, other, strict=False)) if a != b)
    sides = path[: level + 1], other[: level + 1]
    return None if any(side[-1].endswith(".py") for side in sides) else sides


def mutual(edges):
    """Return the folders that import each other, each pair once; edges are of paths."""
    pairs = {folders(path, other) for path, other in edges if path != other} - {None}
    both = sorted((a, b) for a, b in pairs if a < b and (b, a) in pairs)
    return ["/".join(a) + " <-> " + "/".join(b) for a, b in both]


def test_no_two_folders_import_each_other():
    """Not even for types, or when a function is called."""
    names = ours()
    paths = {name: ("hbconv", *files()[name].relative_to(ROOT).parts) for name in names}
    edges = [(paths[a], paths[b]) for a in names for b in imported(a) & names]
    assert mutual(edges) == []


def test_folders_that_import_each_other_are_found():
    deep = ("a", "b", "deep", "some.py")
    back = ("a", "c", "other.py")
    pair = [(deep, back), (("a", "c", "third.py"), ("a", "b", "__init__.py"))]
    assert mutual(pair) == ["a/b <-> a/c"]
    assert mutual([(deep, back), (back, ("a", "model.py"))]) == []
    assert mutual([(deep, ("a", "b", "some.py")), (("a", "b", "some.py"), deep)]) == []


def needs_no_tvm(name):
    if not name.startswith(f"{TVM}."):
        return False
    inner = name.removeprefix(f"{TVM}.")
    return inner in NUMPY_ONLY or inner.startswith("passes.") or inner.endswith(".tables")


def libraries_of_tvm(name):
    return {other for other in reached(name) if other.partition(".")[0] in {"tvm", "tvm_ffi"}}


def test_what_a_model_becomes_is_computed_without_tvm():
    found = {name: libraries_of_tvm(name) for name in filter(needs_no_tvm, ours())}
    assert len(found) > len(NUMPY_ONLY)
    assert {name: libraries for name, libraries in found.items() if libraries} == {}


def test_what_needs_tvm_is_found():
    assert libraries_of_tvm(f"{TVM}.compile")


def test_files_that_need_no_tvm_are_there():
    assert {f"{TVM}.{name}" for name in NUMPY_ONLY} <= ours()


def test_every_import_of_a_file_is_found(tmp_path):
    path = tmp_path / "package" / "some.py"
    path.parent.mkdir()
    path.write_text(
        "import a.b, c\n"
        "if TYPE_CHECKING:\n    from d import e\n"
        "try:\n    from f import g, h\nexcept ImportError:\n    import i\nfinally:\n    import j\n"
        "class Some:\n    def method(self):\n        with self:\n            import k\n"
        "match c:\n    case 1:\n        import m\n"
    )
    (path.parent / "__init__.py").touch()
    assert modules(path.parent, "package") == {
        "package": path.parent / "__init__.py",
        "package.some": path,
    }
    assert modules(path.parent.parent, "")["package.some"] == path
    assert [(found.module, found.names, found.when) for found in imports(path)] == [
        ("a.b", (), AT_ONCE),
        ("c", (), AT_ONCE),
        ("d", ("e",), TYPED),
        ("f", ("g", "h"), AT_ONCE),
        ("i", (), AT_ONCE),
        ("j", (), AT_ONCE),
        ("k", (), CALLED),
        ("m", (), AT_ONCE),
    ]


def test_helpers_of_the_tests_are_nodes_by_the_names_that_they_are_imported_by():
    assert {"sources", "matrix.case", "fuzz.judge", "docs.pages"} <= files().keys()
    assert imported("matrix.case") >= {"sources", "matrix.data", "typing"}
    assert "fuzz.judge" in imported("tests/system/fuzz/test_models.py")


def test_a_test_file_needs_the_files_of_its_folders_that_pytest_loads():
    assert "tests/golden/conftest.py" in imported("tests/golden/test_golden.py")


def test_importers_are_found_through_others():
    found = importers(["matrix.data"])
    assert {"matrix.case", "tests/conformance/matrix/test_matrix.py"} <= found
    assert "matrix.data" not in found
    assert "sources" not in found
    assert "hbconv_strategies.gemm" in importers(["hbconv.tensor"])
    assert importers(["tests/packaging/test_import_graph.py"]) == set()
