"""The kernels of a forest on a place: all that take it, and those that a call chooses."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from benchmarks.gpu.place import Place
from hbconv.backends.cuda.choose import Candidate, TreeKernels
from hbconv.backends.cuda.clocks import Device
from hbconv.backends.torch.device_trees import DeviceTrees, find_kernels
from hbconv.backends.torch.module import TensorModule
from hbconv.forest import Forest
from hbconv.tensor import Builder

__all__ = ["PlacedForest", "hard_rows", "microseconds", "named_candidates"]

CLOCK = 1.755e9
"""Clocks a second that predictions assume, of an H100."""
TILES = {32: "1,024", 16: "512"}
"""Rows of a block of ``bits``, by its lanes."""


class PlacedForest:
    """A forest's sums of float32 rows on a place.

    Parameters
    ----------
    forest : Forest
    place : Place
    """

    def __init__(self, forest: Forest, place: Place) -> None:
        self.forest = forest
        self.sizes = place.sizes()
        self.kernels = find_kernels(forest, "float32", True, self.sizes)
        self.candidates = named_candidates(self.kernels)
        self._trees = _module(forest, place)

    def run(self, x: Tensor, candidate: Candidate) -> Tensor:
        """Compute by one kernel."""
        return self._trees.run(x, candidate)

    def call(self, x: Tensor) -> Tensor:
        """Compute by the kernels that are chosen for so many rows."""
        return self._trees.compute(x, self.sizes)

    def differing(self, candidate: Candidate, counts: tuple[int, ...], place: Place) -> list[int]:
        """Return the numbers of rows for which a kernel's sums are not the forest's own bits."""
        wrong = []
        for count in counts:
            rows = hard_rows(self.forest, count)
            got = self.run(torch.tensor(rows, device=place.name), candidate).cpu().numpy()
            if got.tobytes() != self.forest.scores(rows).tobytes():
                wrong.append(count)
        return wrong


def named_candidates(kernels: TreeKernels) -> dict[str, Candidate]:
    """Return all kernels that take a forest; two of one name by their constants too."""
    found: dict[str, Candidate] = {}
    for candidate in (kernels.few, *kernels.candidates()):
        name = kernel_of(candidate)
        found[name if name not in found else str(candidate.main)] = candidate
    return found


def kernel_of(candidate: Candidate) -> str:
    """Name the kernel that goes through the trees, with its tile."""
    constants = dict(candidate.main.constants)
    rows = TILES.get(constants.get("LANES"), "")
    return f"{candidate.main.name}, {rows} rows" if rows else candidate.main.name


def microseconds(candidate: Candidate, rows: int, sizes: Device) -> float:
    """Predict what a kernel takes for many rows, without its launch."""
    return round(candidate.clocks.total * rows / sizes.processors / CLOCK * 1e6, 1)


def hard_rows(forest: Forest, count: int) -> npt.NDArray[np.float32]:
    """Draw rows of thresholds, infinities and missing values."""
    rng = np.random.default_rng(count)
    thresholds = np.unique(forest.threshold.data.astype(np.float32))
    values = np.concatenate([thresholds, np.float32([np.nan, np.inf, -np.inf, 0.0])])
    return rng.choice(values, (count, forest.n_features))


def _module(forest: Forest, place: Place) -> DeviceTrees:
    b = Builder()
    x = b.input("x", "float32", forest.n_features)
    scores = b.op("tree_scores", x, forest=forest, strategy="tree_traversal")
    module = TensorModule(b.program({"y": scores}), "cuda").to(place.name)
    return next(m for m in module.modules() if isinstance(m, DeviceTrees))
