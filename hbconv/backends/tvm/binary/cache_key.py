"""Keys of the cache: digests of all that an entry is made from.

The key of a compiled loop needs no TVM.
"""

from __future__ import annotations

import hashlib
import sys
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from hbconv import __version__
from hbconv.array import Array
from hbconv.backends.tvm.machine.machine import Machine
from hbconv.backends.tvm.machine.schedule import Schedule
from hbconv.tensor import TensorProgram

__all__ = ["compiler_versions", "function_key", "loop_key", "text_key"]

COMPILERS = ("apache-tvm", "apache-tvm-ffi")
PACKAGE = Path(__file__).parents[3]
PYC_HEAD = 16


def loop_key(program: TensorProgram, schedule: Schedule, machine: Machine) -> str:
    """Return the digest of a program with its constants, its schedule, the machine and the code.

    It is the same for all versions of the compiler: those without one find the loop too.
    """
    return _digest((program, schedule, machine), _loop_code())


def text_key(name: str, machine: Machine) -> str:
    """Return the digest of a kernel of texts, which is the same for all models."""
    return _digest((name, machine), _loop_code())


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
    folders = ("backends/tvm", "tensor", "trees")
    return _code_digest({name: code for folder in folders for name, code in _modules(folder)})


@cache
def _function_code() -> str:
    """Digest the code that compiles a function."""
    modules = _modules("backends/tvm/binary")
    return _code_digest({name: code for name, code in modules if "/code_generation." in name})


def _code_digest(modules: Mapping[str, bytes]) -> str:
    # numpy computes the tables, so its version belongs to the code.
    digest = hashlib.sha256(repr([sys.platform, _version("numpy")]).encode())
    # Sorted, since folders list their files in any order. A frozen program shows no modules.
    for name, code in sorted(modules.items()) or [("version", __version__.encode())]:
        digest.update(name.encode() + code)
    return digest.hexdigest()


def _modules(folder: str) -> list[tuple[str, bytes]]:
    """Return the path of each module in a folder of the package, and its code.

    The code is the source, or what Python compiled of it where no sources are installed.
    """
    sources = list(_files(folder, ".py"))
    # The head of compiled code holds the time at which its source was written.
    return sources or [(name, code[PYC_HEAD:]) for name, code in _files(folder, ".pyc")]


def _files(folder: str, suffix: str) -> Iterator[tuple[str, bytes]]:
    """Yield files of the package, which is installed as a folder, or as an archive."""
    archive = getattr(globals()["__loader__"], "archive", None)
    if archive is None:
        for path in (PACKAGE / folder).rglob(f"*{suffix}"):
            if path.parent.name != "__pycache__":
                yield path.relative_to(PACKAGE).as_posix(), path.read_bytes()
        return
    package = PACKAGE.relative_to(archive).as_posix()
    with zipfile.ZipFile(archive) as file:
        for name in file.namelist():
            if name.startswith(f"{package}/{folder}/") and name.endswith(suffix):
                yield name.removeprefix(f"{package}/"), file.read(name)


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
