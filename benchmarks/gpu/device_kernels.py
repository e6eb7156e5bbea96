"""The kernels of a forest on a place: all that take it, and those that a call chooses."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from benchmarks.gpu.place import Place
from hbconv.backends.cuda.choose import Candidate, TreeKernels
from hbconv.backends.torch.device_trees import DeviceTrees, find_kernels
from hbconv.backends.torch.module import TensorModule
from hbconv.tensor import Builder
from hbconv.trees.forest import Forest

__all__ = ["PlacedForest", "form_of", "hard_rows", "named_forms"]

TILES = {32: "1,024", 16: "512"}
"""Rows of a block of ``bits``, by its lanes."""
WORTH = 3
"""A form is timed where the fastest is predicted at most so many times as fast."""


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
        self.forms = named_forms(self.kernels)
        self._trees = _module(forest, place)
        self._wanted: dict[int, tuple[npt.NDArray[np.float32], bytes]] = {}

    def run(self, x: Tensor, form: Candidate) -> Tensor:
        """Compute by one form."""
        return self._trees.run(x, form)

    def call(self, x: Tensor) -> Tensor:
        """Compute by the form that is chosen for so many rows."""
        return self._trees.compute(x, self.sizes)

    def differing(self, form: Candidate, counts: tuple[int, ...], place: Place) -> list[int]:
        """Return the numbers of rows for which a form's sums are not the forest's own bits."""
        return [count for count in counts if self._differs(form, count, place)]

    def _differs(self, form: Candidate, count: int, place: Place) -> bool:
        """Whether some of a form's sums are others than the forest's own, which are made once."""
        if count not in self._wanted:
            rows = hard_rows(self.forest, count)
            self._wanted[count] = rows, self.forest.scores(rows).tobytes()
        rows, wanted = self._wanted[count]
        got = self.run(torch.tensor(rows, device=place.name), form).cpu().numpy()
        return bool(got.tobytes() != wanted)

    def worth_timing(self, count: int) -> dict[str, Candidate]:
        """Return the forms that may be the fastest for so many rows."""
        seconds = {
            name: form.seconds(count, self.sizes)
            for name, form in self.forms.items()
            if form.fits(count)
        }
        most = WORTH * min(seconds.values())
        return {name: self.forms[name] for name, taken in seconds.items() if taken <= most}


def named_forms(kernels: TreeKernels) -> dict[str, Candidate]:
    """Return all forms that take a forest; two of one name by their constants too."""
    found: dict[str, Candidate] = {}
    for form in kernels.candidates():
        name = form_of(form)
        found[name if name not in found else str(form.main)] = form
    return found


def form_of(form: Candidate) -> str:
    """Name the kernel that goes through the trees, with its tile and the slices of the trees."""
    constants = dict(form.main.constants)
    rows = TILES.get(constants.get("LANES"), "")
    tile = f", {rows} rows" if rows else ""
    slices = f", {form.slices} slices" if form.slices > 1 else ""
    return f"{form.main.name}{tile}{slices}"


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
