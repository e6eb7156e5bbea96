"""A compiled program as files: the kernel as a shared library, its tables as data. Reading it back needs tvm_ffi alone, not TVM."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hbconv.backends.tvm.artifact import Few, Signature, TvmArtifact
from hbconv.backends.tvm.loop import Loop
from hbconv.backends.tvm.machine import LEVELS, Machine
from hbconv.errors import StoreError

__all__ = ["pack", "unpack"]

FORMAT = 4
"""Number of the calling convention and the tables' layout; libraries of another are compiled again."""
SIGNATURE = "kernel.json"


def pack(artifact: TvmArtifact) -> dict[str, bytes]:
    """Write the files of an artifact, none where no library can be made; equal artifacts give equal bytes."""
    from safetensors.numpy import save

    loops = {"batch": artifact.batch} | ({"few": artifact.for_few.loop} if artifact.for_few.rows else {})
    libraries = {name: loop.library() for name, loop in loops.items()}
    if None in libraries.values():
        return {}
    machine = Machine.host()
    facts = {"format": FORMAT, "system": sys.platform, "level": machine.level, "extras": sorted(machine.extras), **asdict(artifact.signature)}
    facts |= {"few_rows": artifact.for_few.rows, "scratch": {name: loop.scratch for name, loop in loops.items()}}
    tables = {f"{name}.safetensors": save({f"{i}": table for i, table in enumerate(loop.tables)}) for name, loop in loops.items()}
    return {f"{name}.so": library for name, library in libraries.items() if library} | tables | {SIGNATURE: json.dumps(facts).encode()}


def unpack(files: Mapping[str, bytes], threads: int) -> TvmArtifact | None:
    """Read an artifact back; None where this machine or this version of hbconv cannot run it."""
    try:
        facts = json.loads(files[SIGNATURE])
        if facts["format"] != FORMAT or facts["system"] != sys.platform or not _runs(facts["level"], facts["extras"]):
            return None
        loops = {name: _loop(files[f"{name}.so"], files[f"{name}.safetensors"], scratch) for name, scratch in facts["scratch"].items()}
        signature = Signature(_matrices(facts["inputs"]), _matrices(facts["outputs"]))
        return TvmArtifact(loops["batch"], signature, threads, Few(facts["few_rows"], lambda: loops["few"]))
    except Exception as error:
        raise StoreError(f"The model's compiled kernel cannot be read: {error}") from error


def _loop(library: bytes, tables: bytes, scratch: dict[str, int]) -> Loop:
    import tvm_ffi
    from safetensors.numpy import load

    with TemporaryDirectory() as folder:
        path = Path(folder, "kernel.so")
        path.write_bytes(library)
        function = tvm_ffi.load_module(str(path))["main"]
    data = load(tables)
    return Loop(function, [data[f"{i}"] for i in range(len(data))], scratch, lambda: library)


def _matrices(facts: dict[str, Any]) -> dict[str, tuple[str, tuple[int, ...]]]:
    return {name: (dtype, tuple(shape)) for name, (dtype, shape) in facts.items()}


def _runs(level: str, extras: list[str]) -> bool:
    return level in LEVELS and Machine.host().runs(Machine(level, frozenset(extras)))
