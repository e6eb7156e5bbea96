"""What a hunt finds, and how a child tells its parent of it: a line of JSON for each event."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, TextIO

__all__ = ["FAILING", "Finding", "Log"]

FAILING = ("WRONG", "UNNAMED", "SIGNAL", "FORM", "ANSWERS")
"""Kinds of findings that are faults. What hbconv refuses by name is reported, and is none."""


@dataclass(frozen=True)
class Finding:
    """Something to look at.

    Parameters
    ----------
    kind : str
        WRONG for other values, FORM for another class or dtype, ANSWERS where the source refuses,
        REFUSES where it answers, UNNAMED for errors beyond ``HbconvError``, SIGNAL for a death.
    seed : int
    backend : str
    what : str
        The error, the signal, or what differs.
    rows, method : str
    detail : str
    pipeline : str
        Its description.
    """

    kind: str
    seed: int
    backend: str
    what: str
    rows: str = ""
    method: str = ""
    detail: str = ""
    pipeline: str = ""

    @property
    def fails(self) -> bool:
        """Whether it is a fault."""
        return self.kind in FAILING

    def __str__(self) -> str:
        question = f"{self.method} of {self.rows}" if self.rows else self.method
        return (
            f"{self.kind}: seed {self.seed}, {self.backend}, {question}: {self.what} {self.detail}"
        )


class Log:
    """Writes events as lines of JSON.

    Parameters
    ----------
    stream : text file
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def draws(self, pipeline: str) -> None:
        """Say what the seed has drawn."""
        self._write("draws", [pipeline])

    def asks(self, side: str, rows: str, method: str) -> None:
        """Say who is asked next, "source" or "hbconv": whoever asked last is whose death it is."""
        self._write("asks", [side, rows, method])

    def finds(self, finding: Finding) -> None:
        """Tell of a finding."""
        self._write("finds", asdict(finding))

    def hunted(self, backend: str, seconds: float, told: Mapping[str, Any], death: str) -> None:
        """Say what a backend's own child took and told, and what it died of."""
        self._write("hunted", [backend, seconds, told, death])

    def stands_alone(self) -> None:
        """Say that this process may have no children, which would wait for its threads."""
        self._write("stands_alone", [True])

    def breaks(self, detail: str) -> None:
        """Tell of an error that nobody judged."""
        self._write("breaks", ["hunt", detail])

    def ends(self, counts: Mapping[str, int]) -> None:
        """Tell how many questions ended how."""
        self._write("ends", [counts])

    def _write(self, event: str, value: Any) -> None:
        self._stream.write(json.dumps([event, value]) + "\n")
        self._stream.flush()
