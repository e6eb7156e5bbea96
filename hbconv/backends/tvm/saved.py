"""A compiled program as files: the kernel as a shared library, its tables as data. Reading it back needs tvm_ffi alone, not TVM."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hbconv.backends.tvm.artifact import Signature, TvmArtifact
from hbconv.backends.tvm.machine import LEVELS, Machine
from hbconv.errors import StoreError

__all__ = ["pack", "unpack"]

FORMAT = 3
"""Number of the calling convention and the tables' layout; libraries of another are compiled again."""
LIBRARY, TABLES, SIGNATURE = "kernel.so", "tables.safetensors", "kernel.json"


def pack(library: bytes, artifact: TvmArtifact) -> dict[str, bytes]:
    """Write the files of an artifact; equal artifacts give equal bytes."""
    from safetensors.numpy import save

    machine = Machine.host()
    facts = {"format": FORMAT, "system": sys.platform, "level": machine.level, "extras": sorted(machine.extras), **asdict(artifact.signature)}
    tables = {f"{position}": table for position, table in enumerate(artifact.tables)}
    return {LIBRARY: library, TABLES: save(tables), SIGNATURE: json.dumps(facts).encode()}


def unpack(files: Mapping[str, bytes], threads: int) -> TvmArtifact | None:
    """Read an artifact back; None where this machine or this version of hbconv cannot run it."""
    import tvm_ffi
    from safetensors.numpy import load

    try:
        facts = json.loads(files[SIGNATURE])
        if facts["format"] != FORMAT or facts["system"] != sys.platform or not _runs(facts["level"], facts["extras"]):
            return None
        tables = load(files[TABLES])
        with TemporaryDirectory() as folder:
            path = Path(folder, LIBRARY)
            path.write_bytes(files[LIBRARY])
            function = tvm_ffi.load_module(str(path))["main"]
        signature = Signature(_matrices(facts["inputs"]), _matrices(facts["outputs"]), facts["scratch"])
    except Exception as error:
        raise StoreError(f"The model's compiled kernel cannot be read: {error}") from error
    return TvmArtifact(function, tuple(tables[str(position)] for position in range(len(tables))), signature, threads, lambda: files[LIBRARY])


def _matrices(facts: dict[str, Any]) -> dict[str, tuple[str, tuple[int, ...]]]:
    return {name: (dtype, tuple(shape)) for name, (dtype, shape) in facts.items()}


def _runs(level: str, extras: list[str]) -> bool:
    return level in LEVELS and Machine.host().runs(Machine(level, frozenset(extras)))
