"""A thousand batches of random size: their bits, and the memory that stays taken."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.gpu.figures import named
from benchmarks.gpu.fitted import find
from benchmarks.gpu.place import Place
from benchmarks.gpu.record import Row

__all__ = ["run"]

MODEL = "lightgbm-31"
BATCHES = 1000
FIRST = 100
"""Batches before memory is read: tables and graphs are made."""
MOST_ROWS = 512
METHOD = "raw_scores"


def run(place: Place, models: Path) -> Iterator[Row]:
    """Yield how many batches differ from the CPU's bits, and what memory grew by."""
    model = find(MODEL, models, place)
    rows = model.rows(place.rows(1 << 14))
    want = model.on_host().raw_scores(rows)
    device_model = model.convert(place, "torch")
    for way, give in (("host arrays", np.ascontiguousarray), ("tensors", _tensors(place))):
        asked = (way, give, device_model, rows, want, place)
        yield from named(place, MODEL, lambda asked=asked: [ask(*asked)])


def ask(way: str, give: Any, model: Any, rows: Any, want: Any, place: Place) -> Row:
    """Give batches in one way, and compare each answer."""
    rng = np.random.default_rng(0)
    differing = 0
    held: list[tuple[int, int]] = []
    batches = max(place.rows(BATCHES), FIRST + 1)
    for number in range(batches):
        if number == FIRST:
            held.append((place.held_bytes(), resident_bytes()))
        count = int(rng.integers(1, min(MOST_ROWS, len(rows))))
        start = int(rng.integers(0, len(rows) - count))
        part = slice(start, start + count)
        got = model.raw_scores(give(rows[part]))
        found = got.cpu().numpy() if isinstance(got, torch.Tensor) else got
        differing += found.tobytes() != want[part].tobytes()
    held.append((place.held_bytes(), resident_bytes()))
    (device, host), (device_after, host_after) = held
    return {
        "what": MODEL, "rows": batches, "way": way, "differing": differing,
        "device bytes more": device_after - device, "host bytes more": host_after - host,
    }  # fmt: skip


def resident_bytes() -> int:
    """Return the memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _tensors(place: Place) -> Any:
    return lambda rows: torch.tensor(rows, device=place.name)
