"""What contenders are made for, and what they are."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from models import Fitted
    from typical_models import FittedWorkload

__all__ = ["Call", "Contender", "Setting", "Unavailable", "run_within"]

Call = Callable[[Any], Any]


class Unavailable(Exception):  # noqa: N818
    """Why a contender does not run a model."""


@dataclass(frozen=True)
class Setting:
    """What contenders are made for: a model, threads, and the seconds that compiling may take."""

    fitted: Fitted | FittedWorkload
    threads: int = 1
    compile_limit: float = 60.0

    @property
    def model(self) -> Any:
        """The fitted model."""
        return self.fitted.model

    @property
    def sample(self) -> Any:
        """A few rows."""
        return self.fitted.rows(5)

    def compiled(self, suffix: str, code: str, *arguments: Any) -> Path:
        """Run code in a new process that writes the file ``sys.argv[1]``, unless it is there."""
        path = self.fitted.folder / f"{self.fitted.name}{suffix}"
        if not path.exists():
            if not self.compile_limit:
                raise Unavailable(f"{path.name} was not compiled before, and --compile-limit is 0")
            run_within(self.compile_limit, code, path, *arguments)
        return path


@dataclass(frozen=True)
class Contender:
    """A function to time, and the seconds that it took to make."""

    name: str
    call: Call
    seconds: float


def run_within(limit: float, code: str, *arguments: Any) -> None:
    """Run Python code in a new process; after ``limit`` seconds end it and its children."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    with subprocess.Popen(
        command, process_group=0, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            _, errors = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise Unavailable(f"compiling takes longer than {limit:.0f} s") from None
    if process.returncode:
        last_line = errors.strip().splitlines()[-1:]
        raise Unavailable(f"compiling failed: {(last_line or [process.returncode])[0]}")
