"""Assignments: what the supervisor tells a generation to serve, as a line of JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from hbconv.serve.model_files import ModelFile
from hbconv.serve.settings import Settings

__all__ = ["Assignment"]


@dataclass(frozen=True)
class Assignment:
    """Models, and how to serve them.

    Parameters
    ----------
    files : tuple of ModelFile
    unloaded : tuple of ModelFile
        Models that are there, and are not served.
    settings : Settings
    control : str
        Path of the socket by which workers ask the supervisor to load and unload models; empty
        where they may not.
    """

    files: tuple[ModelFile, ...]
    unloaded: tuple[ModelFile, ...]
    settings: Settings
    control: str = ""

    def to_line(self) -> bytes:
        """Write it as a line of JSON."""
        return json.dumps(asdict(self), default=str).encode() + b"\n"

    @staticmethod
    def from_line(line: bytes) -> Assignment:
        """Read what ``to_line`` wrote."""
        told = json.loads(line)
        return Assignment(
            tuple(_file(one) for one in told["files"]),
            tuple(_file(one) for one in told["unloaded"]),
            Settings(**told["settings"]),
            told["control"],
        )


def _file(told: Mapping[str, str]) -> ModelFile:
    return ModelFile(told["name"], told["version"], Path(told["path"]))
