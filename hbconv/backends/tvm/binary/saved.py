"""A compiled program as files: those of its loops, and what they are called with. Reading them back needs tvm_ffi alone, not TVM."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from hbconv.backends.tvm.binary.artifact import Few, Signature, TvmArtifact
from hbconv.backends.tvm.binary.loop_files import pack_loop, unpack_loop
from hbconv.backends.tvm.target.machine import LEVELS, Machine
from hbconv.errors import StoreError

__all__ = ["pack", "unpack"]

FORMAT = 7
"""Number of the calling convention, the tables' layout and what kernels are trusted to do; libraries of another are compiled again."""
SIGNATURE = "kernel.json"
NO_LINKER = (
    "No linker here makes a library of the compiled kernel, so the model is stored without it, and is compiled again when it is loaded, which needs TVM there. "
    "To store the kernel, install ld or a C compiler (gcc, clang) and convert the model again in a new process."
)


def pack(artifact: TvmArtifact) -> dict[str, bytes]:
    """Write the files of an artifact, none where no library can be made, which is told; equal artifacts give equal bytes."""
    loops = {"batch": artifact.batch} | (
        {"few": artifact.for_few.loop} if artifact.for_few.rows else {}
    )
    packed = {name: pack_loop(loop) for name, loop in loops.items()}
    if not all(packed.values()):
        warnings.warn(NO_LINKER, UserWarning, stacklevel=2)
        return {}
    machine = Machine.host()
    facts = {
        "format": FORMAT,
        "system": sys.platform,
        "level": machine.level,
        "extras": sorted(machine.extras),
        "vector": machine.vector,
    }
    facts |= {**asdict(artifact.signature), "few_rows": artifact.for_few.rows, "loops": list(loops)}
    return {
        f"{name}.{part}": data for name, parts in packed.items() for part, data in parts.items()
    } | {SIGNATURE: json.dumps(facts).encode()}


def unpack(files: Mapping[str, bytes], threads: int) -> TvmArtifact | None:
    """Read an artifact back; None where this machine or this version of hbconv cannot run it."""
    try:
        facts = json.loads(files[SIGNATURE])
        if (
            facts["format"] != FORMAT
            or facts["system"] != sys.platform
            or not _runs(facts["level"], facts["extras"])
        ):
            return None
        loops = {name: unpack_loop(_files_of(name, files)) for name in facts["loops"]}
        signature = Signature(_matrices(facts["inputs"]), _matrices(facts["outputs"]))
        return TvmArtifact(
            loops["batch"], signature, threads, Few(facts["few_rows"], lambda: loops["few"])
        )
    except Exception as error:
        raise StoreError(f"The model's compiled kernel cannot be read: {error}") from error


def _files_of(loop: str, files: Mapping[str, bytes]) -> dict[str, bytes]:
    return {
        name.removeprefix(f"{loop}."): data
        for name, data in files.items()
        if name.startswith(f"{loop}.")
    }


def _matrices(facts: dict[str, Any]) -> dict[str, tuple[str, tuple[int, ...]]]:
    return {name: (dtype, tuple(shape)) for name, (dtype, shape) in facts.items()}


def _runs(level: str, extras: list[str]) -> bool:
    return level in LEVELS and Machine.host().runs(Machine(level, frozenset(extras)))
