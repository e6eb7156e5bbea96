"""One word, one meaning: no two classes of hbconv share a name, private ones aside."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import hbconv

ROOT = Path(hbconv.__file__).parent

ALLOWED = {
    "Bins": "a container, which saved models name, and tables of the tvm backend",
    "Block": "columns of a table side by side, and rows of a tile",
    "CategorySets": "sets of LightGBM, and tables of the tvm backend",
    "Codes": "a container, which saved models name, and codes of LightGBM",
}
"""Names that two classes still share, and why; an entry goes when one of them is renamed."""


def test_no_two_classes_share_a_name():
    files = defaultdict(set)
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                files[node.name].add(path.relative_to(ROOT).as_posix())
    shared = {name: sorted(found) for name, found in files.items() if len(found) > 1}
    assert {name: found for name, found in shared.items() if name not in ALLOWED} == {}
