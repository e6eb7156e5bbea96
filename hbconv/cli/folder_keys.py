"""Columns that the names of folders tell, as hive writes them."""

from __future__ import annotations

from typing import Any

__all__ = ["folder_keys"]


def folder_keys(system: Any, root: str, path: str, kind: str) -> dict[str, Any]:
    """Return what the names of the folders tell (``year=2024``), as pyarrow scalars.

    Their types are those that pyarrow finds for a data set of the file alone.
    """
    import pyarrow as pa
    import pyarrow.dataset as datasets

    found = datasets.dataset(
        [path],
        filesystem=system,
        format=_lenient() if kind == "csv" else kind,
        partitioning="hive",
        partition_base_dir=root,
    )
    (fragment,) = found.get_fragments()
    told = datasets.get_partition_keys(fragment.partition_expression)
    return {key: pa.scalar(value, found.schema.field(key).type) for key, value in told.items()}


def _lenient() -> Any:
    """Return CSV whose rows need not fit the header; only the names of folders are asked for."""
    import pyarrow.dataset as datasets
    from pyarrow import csv

    return datasets.CsvFileFormat(csv.ParseOptions(invalid_row_handler=lambda _: "skip"))
