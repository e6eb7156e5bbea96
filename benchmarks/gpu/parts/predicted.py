"""What the chosen forms are predicted to take on two devices."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.gpu.device_kernels import form_of
from benchmarks.gpu.figures import named
from benchmarks.gpu.fitted import DEEP, KERNELS, Fitted, find
from benchmarks.gpu.place import Place
from benchmarks.gpu.record import Row
from hbconv.backends.cuda.choose import TreeKernels
from hbconv.backends.cuda.clocks import A100, H100

__all__ = ["run"]

ROWS = 1_000_000


def run(place: Place, models: Path) -> Iterator[Row]:
    """Yield the forms of each model."""
    for name in place.some((*KERNELS, DEEP)):
        yield from named(place, name, lambda name=name: predictions(find(name, models, place)))


def predictions(model: Fitted) -> Iterator[Row]:
    """Predict each form that is chosen for some rows."""
    forest = model.forest()
    for label, device in (("H100", H100), ("A100", A100)):
        kernels = TreeKernels(forest, "float32", True, device)
        for form, rows in zip(kernels.forms, (*kernels.limits, ROWS), strict=True):
            yield {
                "what": model.name,
                "way": f"{form_of(form)}, {label}",
                "device": label,
                "kernel": form_of(form),
                "up to rows": rows,
                "microseconds": round(form.seconds(rows, device) * 1e6, 1),
                "clocks a row": round(form.clocks.total, 1),
                "limit": form.clocks.limit,
                "shared bytes": form.shared_bytes,
            }
