"""Keys of the cache: digests of all that an entry is made from.

The key of a compiled loop needs no TVM.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from hbconv.array import Array
from hbconv.backends.tvm.machine.machine import Machine
from hbconv.backends.tvm.machine.schedule import Schedule
from hbconv.tensor import TensorProgram

__all__ = ["compiler_versions", "function_key", "loop_key"]

COMPILERS = ("apache-tvm", "apache-tvm-ffi")
PACKAGE = Path(__file__).parents[3]


def loop_key(program: TensorProgram, schedule: Schedule, machine: Machine) -> str:
    """Return the digest of a program with its constants, its schedule, the machine and the code.

    It is the same for all versions of the compiler: those without one find the loop too.
    """
    return _digest((program, schedule, machine), _loop_code())


def function_key(name: str, text: str, machine: Machine) -> str:
    """Return the digest of a function, whose whole definition is ``text``.

    What wrote the text is left out: a function that a change of hbconv leaves as it was is found.
    """
    return _digest((name, text, machine, compiler_versions()), _function_code())


@cache
def compiler_versions() -> bytes:
    """Return the versions of what compiles; nothing where it is not installed."""
    versions = [_version(package) for package in COMPILERS]
    return repr(versions).encode() if all(versions) else b""


def _digest(value: Any, code: str) -> str:
    digest = hashlib.sha256(code.encode())
    for part in _parts(value):
        digest.update(part)
    return digest.hexdigest()


@cache
def _loop_code() -> str:
    """Digest the code that writes loops: the modules of this backend, those it uses, numpy."""
    # The kinds of primitives in tensor/ decide what passes fuse and flatten, and trees/ computes
    # the tables of forests.
    folders = (PACKAGE / "backends" / "tvm", PACKAGE / "tensor", PACKAGE / "trees")
    # Paths are sorted, since folders list their files in any order.
    return _code_digest([path for folder in folders for path in sorted(folder.rglob("*.py"))])


@cache
def _function_code() -> str:
    """Digest the code that compiles a function."""
    return _code_digest([Path(__file__).with_name("code_generation.py")])


def _code_digest(paths: list[Path]) -> str:
    # numpy computes the tables, so its version belongs to the code.
    digest = hashlib.sha256(repr([sys.platform, _version("numpy")]).encode())
    for path in paths:
        digest.update(path.relative_to(PACKAGE).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _parts(value: Any) -> Iterator[bytes]:
    """Yield bytes that differ for different values."""
    if isinstance(value, Array):
        yield value.key.encode()
    elif is_dataclass(value):
        yield f"{type(value).__name__}(".encode()
        for field in fields(value):
            # The source of a primitive changes no code.
            yield from _parts(getattr(value, field.name)) if field.name != "source" else ()
    elif isinstance(value, Mapping):
        # The order of a mapping counts: a kernel takes inputs and outputs in it.
        yield from _parts(tuple(value.items()))
    elif isinstance(value, tuple | list | frozenset):
        # Lengths keep neighbouring sequences with equal entries from giving equal bytes.
        yield f"{len(value)}[".encode()
        # Sets are sorted, since hashes of texts differ between processes.
        for entry in sorted(value) if isinstance(value, frozenset) else value:
            yield from _parts(entry)
    else:
        yield f"{value!r};".encode()
