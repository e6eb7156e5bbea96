"""A scorer of a model that a CUDA device answers, for machines that have none."""

from __future__ import annotations

import json
import os
from functools import cached_property
from pathlib import Path
from typing import Any

import hbconv
from hbconv.engines.scorer import Scorer

__all__ = ["GpuScorer"]


class GpuScorer(Scorer):
    """Compute on a CUDA device, as the process that makes it is told.

    Other processes compute on the CPU, and note which devices they were given.
    """

    def __init__(self, model: Path, notes: Path) -> None:
        super().__init__(model, ["predict", "predict_proba"], keep=["id"])
        self.notes = notes
        self.home = os.getpid()

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "notes": self.notes, "home": self.home}

    @cached_property
    def model(self) -> Any:
        """The model."""
        found = hbconv.load(self.source, on_new_dtypes="compile")
        if os.getpid() == self.home:
            found.target = found.target.replace(device="cuda")
        return found

    def answers(self, rows: Any, n_rows: int) -> list[Any]:
        """Answer as the scorer does, and note the devices."""
        import ray

        given = {"gpus": ray.get_gpu_ids(), "visible": os.environ.get("CUDA_VISIBLE_DEVICES")}
        (self.notes / str(os.getpid())).write_text(json.dumps(given))
        return super().answers(rows, n_rows)
