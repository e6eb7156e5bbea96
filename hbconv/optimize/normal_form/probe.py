"""Rows on which a derivation is judged: the model's own zeros, and rows about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hbconv.containers import LookupSum, Node, OneHot
from hbconv.optimize.normal_form.evaluate import Bounded
from hbconv.optimize.normal_form.linear_part import FLOATS
from hbconv.optimize.normal_form.region import Region
from hbconv.optimize.normal_form.zeros import HomeZeros, ScalerZeros

__all__ = ["Probe"]

Floats = npt.NDArray[np.float64]

MAX_ROWS = 12
_PRODUCTS = 1 << 19
"""Products in double-double for one model; larger models are judged on fewer rows."""
_MOVED = 512
"""Columns of a wide home that random rows move; in the others they stay at a zero."""
_SPREAD = 3.0
"""Scales that a random row is from a zero."""


@dataclass(frozen=True)
class Probe:
    """Values of the homes and of the codes for some rows.

    Parameters
    ----------
    homes : mapping of Node to ndarray, shape (n_rows, width)
        Of float64, rounded to the home's dtype.
    codes : mapping of Node to ndarray, shape (n_rows, width)
        Whole numbers.
    """

    homes: Mapping[Node, Floats]
    codes: Mapping[Node, Floats]

    @staticmethod
    def of(region: Region, zeros: ScalerZeros) -> Probe:
        """Draw the rows; the first half of them are zeros, those of one node in each row."""
        rng = np.random.default_rng(0)
        size = sum(np.size(getattr(node, "weights", 0)) for node in region.nodes)
        rows = int(np.clip(_PRODUCTS // max(size, 1), 2, MAX_ROWS))
        homes = {home: _rows(home, zeros, rows, rng) for home, zeros in zeros.zeros.items()}
        return Probe(homes, {codes: _codes(codes, region, rows, rng) for codes in region.codes})

    def given(self, region: Region) -> dict[Node, Bounded]:
        """Return the values of the leaves, the homes and the codes."""
        leaves = {leaf: self.homes[h.node][:, h.places] for leaf, h in region.homes.items()}
        every = {**leaves, **self.homes, **self.codes}
        return {node: Bounded.exact(values) for node, values in every.items()}


def _rows(home: Node, zeros: HomeZeros, rows: int, rng: np.random.Generator) -> Floats:
    """Take of each column the first zero in the first row, the second in the second, and so on."""
    width = home.type.width
    order = np.argsort(zeros.places, kind="stable")
    starts = np.searchsorted(zeros.places[order], np.arange(width + 1))
    counts = np.diff(starts)
    near = starts[:-1] + np.arange(rows)[:, None] % np.maximum(counts, 1)
    known = np.broadcast_to(counts > 0, near.shape)
    chosen = order[np.where(known, near, 0)] if len(order) else np.zeros(near.shape, np.intp)
    zero, radius = (np.append(values, 0.0) for values in (zeros.zero, zeros.radius))
    moved = (np.arange(rows) >= rows // 2)[:, None] & (rng.permutation(width) < _MOVED)
    about = rng.uniform(-_SPREAD, _SPREAD, near.shape) * moved
    values = np.where(known, zero[chosen] + radius[chosen] * about, about)
    dtype = home.type.dtype if home.type.dtype in FLOATS else "float64"
    rounded = values if dtype == home.type.dtype else np.rint(values)
    return rounded.astype(dtype).astype(np.float64)


def _codes(codes: Node, region: Region, rows: int, rng: np.random.Generator) -> Floats:
    """Draw codes of all that the look-ups know, and of none."""
    sizes = [_sizes(node) for node in region.nodes if codes in node.inputs]
    least = np.min([s for s in sizes if s], axis=0)
    return np.floor(rng.uniform(-1.0, least, (rows, codes.type.width)))


def _sizes(node: Node) -> tuple[int, ...]:
    if isinstance(node, OneHot):
        return node.sizes
    return tuple(len(t) - 1 for t in node.tables) if isinstance(node, LookupSum) else ()
