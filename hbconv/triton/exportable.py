"""What this package reads of a Model, which itself calls this package."""

from __future__ import annotations

from typing import Protocol

from hbconv.containers import Graph, Schema
from hbconv.runtime.programs import Programs
from hbconv.target import Target

__all__ = ["Exportable"]


class Exportable(Protocol):
    """A ``hbconv.Model``."""

    parsed: Graph
    dtypes: tuple[str, ...]
    target: Target
    programs: Programs

    @property
    def schema(self) -> Schema:
        """The input columns."""

    @property
    def backend(self) -> str:
        """Name of its backend."""

    def to_bytes(self, suffix: str = ".hbc", device: str = "cpu") -> bytes:
        """Return what a file of that suffix holds."""
