"""Read documents of older formats: each entry becomes what today's code writes."""

from __future__ import annotations

from typing import Any

__all__ = ["FORMAT", "upgraded"]

FORMAT = 5
"""Number of the format written; files of a larger number are refused.

Format 2 (after 0.1.0) gives an ``Output`` one form in place of eleven fields, and some classes
and fields other names (``_CLASSES``, ``_FIELDS``). A ``FindCode`` has values for each column.
Format 3 holds what the host does around each compiled program; programs of older files are compiled
again.
Format 4 holds the graph of ``inverse_transform``, why methods are refused, contributions of
features, and which outputs exports hold on demand alone.
Format 5 holds the columns of a schema field by field. Graphs have other digests since, so programs
of older files are compiled again.
"""
GRAPHS = 2
"""Format since which graphs are written as today."""

Entry = dict[str, Any]

_CLASSES = {"Container": "FrameFormat", "Step": "AffineStep", "Tables": "CategoryTables"}
"""Classes of format 1 by their names then."""

_FIELDS = {
    "Check": {"sparse": "sparse_only"},
    "Graph": {"sparse": "accepts_sparse"},
    "Traits": {"container": "frame_format"},
}
"""Fields of format 1 by class, and their names today."""


def upgraded(value: Any, written: int) -> Any:
    """Return a document of an older format as one of today's format.

    Parameters
    ----------
    value : JSON value
        The document, or any part of it.
    written : int
        Number of the format in which it was written.
    """
    if written >= GRAPHS:
        return value
    if isinstance(value, list):
        return [upgraded(item, written) for item in value]
    if not isinstance(value, dict):
        return value
    entry = {key: upgraded(item, written) for key, item in value.items()}
    if not isinstance(entry.get("is"), str):
        return entry
    if entry["is"] == "Output":
        return _output(entry)
    return _renamed(entry)


def _renamed(entry: Entry) -> Entry:
    """Give the class and the fields the names of today; the path of a step stood in ``source``.

    A FindCode had the values of its only column.
    """
    fields = _FIELDS.get(entry["is"], {})
    new = {fields.get(name, name): item for name, item in entry.items()}
    if "source" in new:
        new["step"] = new.pop("source")
    if entry["is"] == "FindCode":
        new["values"] = {"tuple": [new["values"]]}
    return {**new, "is": _CLASSES.get(entry["is"], entry["is"])}


def _output(entry: Entry) -> Entry:
    return {
        "is": "Output",
        "node": entry["node"],
        "form": _form(entry),
        "dtype": entry["dtype"],
    }


def _form(entry: Entry) -> Entry:
    parts = entry["parts"]["tuple"]
    dtypes = entry["dtypes"]["tuple"]
    if entry["paths"] is not None:
        return dict(entry["paths"])
    if dtypes:
        pairs = [{"tuple": [*pair]} for pair in zip(parts, dtypes, strict=True)]
        return {"is": "MatrixTuple", "parts": {"tuple": pairs}}
    if entry["staged"]:
        return {"is": "Stages", "count": len(parts), "each": _one_array(entry)}
    if parts:
        return {"is": "MatrixList", "parts": entry["parts"]}
    if entry["shape"] is not None:
        return {"is": "Cube", "shape": entry["shape"]}
    return _matrix(entry)


def _matrix(entry: Entry) -> Entry:
    sparse = {"is": "Sparse", "layout": entry["layout"], "arrays": entry["arrays"]}
    if entry["sparse"]:
        return sparse
    blocks = entry["blocks"]["tuple"]
    pairs = [pair for block in blocks for pair in _blocks(block)]
    dense = {"is": "Blocks", "parts": {"tuple": pairs}} if blocks else _one_array(entry)
    if entry["sparse"] is None:
        return {"is": "AsRows", "sparse": sparse, "dense": dense}
    return dense


def _blocks(output: Entry) -> list[Entry]:
    """Return node and dtype of each block of an output that is upgraded already."""
    form = output["form"].get("dense", output["form"])
    if form["is"] == "Blocks":
        return list(form["parts"]["tuple"])
    return [{"tuple": [output["node"], output["dtype"]]}]


def _one_array(entry: Entry) -> Entry:
    classes = entry["classes"]
    if classes is None:
        return {"is": "Vector" if entry["vector"] else "Matrix"}
    if "tuple" in classes:
        return {"is": "LabelColumns", "tables": classes}
    return {"is": "Labels", "classes": classes, "vector": entry["vector"]}
