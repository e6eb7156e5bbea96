"""Find compute-sanitizer, which comes with the CUDA toolkit, and not with torch."""

from __future__ import annotations

import shutil
from pathlib import Path

__all__ = ["find_sanitizer"]

NAME = "compute-sanitizer"
FOLDERS = ("bin", "compute-sanitizer")


def find_sanitizer(toolkits: str = "/usr/local") -> str | None:
    """Return the program's path: on PATH, else of a toolkit."""
    found = shutil.which(NAME)
    if found:
        return found
    for toolkit in sorted(Path(toolkits).glob("cuda*"), reverse=True):
        for folder in FOLDERS:
            program = toolkit / folder / NAME
            if program.is_file():
                return str(program)
    return None
