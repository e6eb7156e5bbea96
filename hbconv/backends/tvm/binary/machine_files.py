"""Files of one program for several machines, under names that begin with the machine's.

A saved model may be loaded by another machine than that which compiled it. Files of equal content
are one member of the file, whatever their names: machines share the tables that are alike.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from hbconv.backends.tvm.machine.machine import LEVELS, Machine

__all__ = ["DESCRIPTION", "FORMAT", "choose_files", "join_files"]

Files = Mapping[str, bytes]

MARK = "@"
"""Between the name of a machine and that of a file."""
FORMAT = 10
"""Version of the calling convention, the tables' layout, and what kernels are trusted with.

Libraries of another version are compiled again.
"""
DESCRIPTION = "kernel.json"
"""File that says what the others need: format, system and machine."""


def join_files(by_machine: Mapping[str, Files]) -> dict[str, bytes]:
    """Return the files of all machines.

    Examples
    --------
    >>> join_files({"aarch64": {"kernel.json": b"{}"}})
    {'aarch64@kernel.json': b'{}'}
    """
    return {
        f"{machine}{MARK}{name}": data
        for machine, files in by_machine.items()
        for name, data in files.items()
    }


def choose_files(files: Files) -> dict[str, bytes] | None:
    """Return the files of the best machine that this one runs; None where it runs none.

    Raises
    ------
    KeyError, ValueError
        The files are damaged.
    """
    fitting = {}
    for own in _split_files(files).values():
        facts = json.loads(own[DESCRIPTION])
        if _can_run(facts):
            fitting[facts["level"]] = own
    return next((fitting[level] for level in LEVELS if level in fitting), None)


def _split_files(files: Files) -> dict[str, dict[str, bytes]]:
    """Return the files of each machine; those of a file for one machine are marked by none."""
    by_machine: dict[str, dict[str, bytes]] = {}
    for path, data in files.items():
        machine, _, name = path.rpartition(MARK)
        by_machine.setdefault(machine, {})[name] = data
    return by_machine


def _can_run(facts: Mapping[str, Any]) -> bool:
    """Whether this version of hbconv and this machine run the libraries."""
    if facts["format"] != FORMAT or facts["system"] != sys.platform:
        return False
    # Instructions that this machine lacks would end the process, so they are compared first.
    compiled_for = Machine(facts["level"], frozenset(facts["extras"]))
    return facts["level"] in LEVELS and Machine.host().runs(compiled_for)
