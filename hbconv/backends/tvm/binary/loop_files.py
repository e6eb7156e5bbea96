"""A loop as files: its function as a shared library, its tables as data. Reading it back needs tvm_ffi alone, not TVM, nor a C compiler."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hbconv.backends.tvm.binary.guards import make_loop
from hbconv.backends.tvm.binary.loop import Loop

__all__ = ["load_library", "pack_loop", "unpack_loop"]

LIBRARY, TABLES, SCRATCH = "kernel.so", "tables.safetensors", "scratch.json"


def pack_loop(loop: Loop) -> dict[str, bytes]:
    """Return the files of a loop, none where no library could be made; equal loops give equal bytes."""
    from safetensors.numpy import save

    library = loop.library()
    if library is None:
        return {}
    return {
        LIBRARY: library,
        TABLES: save({f"{i}": table for i, table in enumerate(loop.tables)}),
        SCRATCH: json.dumps(loop.scratch).encode(),
    }


def unpack_loop(files: Mapping[str, bytes]) -> Loop:
    """Read a loop back."""
    from safetensors.numpy import load

    library, tables = files[LIBRARY], load(files[TABLES])
    return make_loop(
        load_library(library),
        [tables[f"{i}"] for i in range(len(tables))],
        json.loads(files[SCRATCH]),
        lambda: library,
    )


def load_library(library: bytes) -> Any:
    """Return the function ``main`` of a shared library. The file it needs on its way is private, and gone at once."""
    import tvm_ffi

    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        path = Path(folder, LIBRARY)
        path.write_bytes(library)
        return tvm_ffi.load_module(str(path))["main"]
