"""Calls of one row and of few rows, as users make them: tensors and arrays of the host."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu.figures import figure, named
from benchmarks.gpu.fitted import MIXED, MIXED_TREES, Fitted, find
from benchmarks.gpu.peers import find_nvforest
from benchmarks.gpu.pipeline import mixed_rows
from benchmarks.gpu.place import Place
from benchmarks.gpu.record import Row

__all__ = ["run"]

ROWS = (1, 16, 256, 1024, 4096, 16_384)
PIPELINE_ROWS = 1_000_000
BACKENDS = ("torch", "tvm")
METHODS = {
    "lightgbm-31": "raw_scores",
    MIXED: "decision_function",
    MIXED_TREES: "decision_function",
}


def run(place: Place, models: Path) -> Iterator[Row]:
    """Yield the pipeline, its trees alone and trees of LightGBM, by backend; then copies."""
    for name in METHODS:
        yield from named(
            place, name, lambda name=name: model_rows(find(name, models, place), place)
        )


def model_rows(model: Fitted, place: Place) -> Iterator[Row]:
    """Yield a model on each backend, its peer, and the copy of its rows."""
    name = model.name
    rows = rows_of(model, place.rows(PIPELINE_ROWS))
    counts = list(dict.fromkeys([*map(place.rows, ROWS), len(rows)]))
    for backend in BACKENDS:
        asked = (model, backend, rows, counts, place)
        yield from named(place, name, lambda asked=asked: backend_rows(*asked))
    for way, make in find_nvforest(model):
        asked = (name, way, make, rows, counts, place)
        yield from named(place, name, lambda asked=asked: nvforest_rows(*asked))
    yield from copies(name, rows, counts, place)


def rows_of(model: Fitted, count: int) -> Any:
    """Draw rows that the model was fitted to."""
    return mixed_rows(count) if model.name == MIXED else model.rows(count)


def backend_rows(
    model: Fitted, backend: str, rows: Any, counts: list[int], place: Place
) -> Iterator[Row]:
    """Time a backend: rows of the host, then the same on the device."""
    if not find_spec(backend):
        yield {"what": model.name, "way": backend, "failed": f"left out: {backend} is missing"}
        return
    call = getattr(model.convert(place, backend), METHODS[model.name])
    on_device = torch.tensor(rows, device=place.name)
    for count in counts:
        for way, given in (("tensors", on_device), ("host arrays", rows)):
            part = given[:count]
            told = f"{backend}, {way}"
            yield figure(place, model.name, count, told, lambda part=part: call(part))


def nvforest_rows(
    name: str, way: str, make: Any, rows: Any, counts: list[int], place: Place
) -> Iterator[Row]:
    """Time nvForest's predictor of rows on the device."""
    call = make()
    on_device = torch.tensor(rows, device=place.name, dtype=torch.float32)
    for count in counts:
        yield figure(place, name, count, way, lambda n=count: call(on_device[:n]), peer=True)


def copies(name: str, rows: Any, counts: list[int], place: Place) -> Iterator[Row]:
    """Time the copy of pinned rows, which no call of host arrays can beat."""
    pinned = place.pinned(torch.tensor(rows))
    for count in counts:
        part = pinned[:count]
        way = "copy of pinned rows"
        yield figure(
            place, name, count, way, lambda part=part: part.to(place.name, copy=True), peer=True
        )
