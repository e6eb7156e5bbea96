"""Columns that the names of folders tell, as hive writes them."""

from __future__ import annotations

from typing import Any

__all__ = ["folder_keys"]


def folder_keys(folder: str) -> dict[str, Any]:
    """Return what the names of the folders in a path tell (``year=2024``), as pyarrow scalars.

    They are int32 or text, as pyarrow finds for a data set of a file alone. Hive's name for a
    missing value is null.

    >>> folder_keys("in/year=2024/city=S%C3%A3o%20Tom%C3%A9")
    {'year': <pyarrow.Int32Scalar: 2024>, 'city': <pyarrow.StringScalar: 'São Tomé'>}
    """
    names = [part.partition("=")[0] for part in folder.split("/") if "=" in part]
    if not names:
        return {}
    import pyarrow as pa
    import pyarrow.dataset as datasets

    schema = pa.schema([(name, pa.string()) for name in dict.fromkeys(names)])
    told = datasets.HivePartitioning(schema).parse(f"/{folder}/")
    texts = datasets.get_partition_keys(told)
    return {name: _scalar(texts[name]) for name in schema.names}


def _scalar(text: str | None) -> Any:
    import pyarrow as pa

    if text is None:
        return pa.scalar(None)
    try:
        return pa.scalar(text).cast(pa.int32())
    except pa.ArrowInvalid:
        return pa.scalar(text)
