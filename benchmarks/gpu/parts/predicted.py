"""What each kernel is predicted to take on two devices."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.gpu.device_kernels import microseconds, named_candidates
from benchmarks.gpu.figures import named
from benchmarks.gpu.fitted import DEEP, KERNELS, Fitted, find
from benchmarks.gpu.place import Place
from benchmarks.gpu.record import Row
from hbconv.backends.cuda.choose import TreeKernels
from hbconv.backends.cuda.clocks import A100, H100

__all__ = ["run"]

ROWS = 1_000_000


def run(place: Place, models: Path) -> Iterator[Row]:
    """Yield the kernels of each model."""
    for name in place.some((*KERNELS, DEEP)):
        yield from named(place, name, lambda name=name: predictions(find(name, models, place)))


def predictions(model: Fitted) -> Iterator[Row]:
    """Predict each kernel for batches."""
    forest = model.forest()
    for label, device in (("H100", H100), ("A100", A100)):
        kernels = TreeKernels(forest, "float32", True, device)
        for way, found in named_candidates(kernels).items():
            if found is kernels.few and kernels.batch is not found:
                continue
            yield {
                "what": model.name,
                "way": f"{way}, {label}",
                "device": label,
                "kernel": way,
                "chosen": "yes" if str(found) == str(kernels.batch) else "",
                "clocks a row": round(found.clocks.total, 1),
                "limit": found.clocks.limit,
                "shared bytes": found.shared_bytes,
                "rows before": kernels.few_rows if found is not kernels.few else "",
                "microseconds": microseconds(found, ROWS, device),
            }
