"""Where the model's own rows are: the zeros of its scalers, and how far from them a row may be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hbconv.containers import Affine, Cast, Concat, Linear, Node, Select, Together
from hbconv.optimize.normal_form.expand import FLOATS, Region

__all__ = ["ScalerZeros"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Origins:
    """What each column of a node is made of: ``x * scale + offset``, x a column of a home.

    Parameters
    ----------
    homes : ndarray of int
        Position of the home in the zeros.
    places : ndarray of int
        Column of the home.
    scale, offset : ndarray
    """

    homes: npt.NDArray[np.intp]
    places: npt.NDArray[np.intp]
    scale: Floats
    offset: Floats

    def taken(self, columns: npt.NDArray[np.integer]) -> Origins:
        """Return some of the columns."""
        return Origins(*(field[columns] for field in self.fields))

    @property
    def fields(self) -> tuple[npt.NDArray[np.generic], ...]:
        """The four arrays."""
        return self.homes, self.places, self.scale, self.offset


@dataclass(frozen=True)
class HomeZeros:
    """The points at which what the linear part reads is zero, for the columns of one home.

    Parameters
    ----------
    places : ndarray of int
        Column of each point; a column has one for each node that reads it scaled.
    zero, radius : ndarray
        Its value, and one unit of what is read.
    """

    places: npt.NDArray[np.intp]
    zero: Floats
    radius: Floats


@dataclass(frozen=True)
class ScalerZeros:
    """The zeros of a region.

    Parameters
    ----------
    zeros : mapping of Node to HomeZeros
        By home.
    """

    zeros: Mapping[Node, HomeZeros]

    @staticmethod
    def of(region: Region) -> ScalerZeros:
        """Find the zeros of all that sums, products and squares read."""
        homes = list(dict.fromkeys(home.node for home in region.homes.values()))
        read = list(_read(region, homes))
        joined = Origins(
            *(np.concatenate(side) for side in zip(*(o.fields for o in read), strict=True))
        )
        return ScalerZeros({home: _zeros(joined, i) for i, home in enumerate(homes)})

    def centres(self, beyond: float) -> dict[Node, Floats]:
        """Return a centre for each column of each home: 0 where the zeros are near 0.

        Parameters
        ----------
        beyond : float
            Radii that a zero is from 0 at most, so that it is near.
        """
        return {home: _centre(home, zeros, beyond) for home, zeros in self.zeros.items()}


def _centre(home: Node, zeros: HomeZeros, beyond: float) -> Floats:
    """Return the mean of the far zeros of each column, in the dtype in which the home is read.

    A zero of radius one stays a centre: the source subtracts alone, so its scale is not known.
    """
    width = home.type.width
    # A centre of 0 needs no subtraction, and costs a digit for each tenfold of the distance.
    far = (np.abs(zeros.zero) > beyond * zeros.radius) | (zeros.radius == 1)
    counts = np.bincount(zeros.places[far], minlength=width)
    sums = np.bincount(zeros.places[far], zeros.zero[far], minlength=width)
    dtype = home.type.dtype if home.type.dtype in FLOATS else "float64"
    return (sums / np.maximum(counts, 1)).astype(dtype).astype(np.float64)


def _zeros(origins: Origins, home: int) -> HomeZeros:
    # A column times 0 has no zero of its own.
    mine = origins.taken(np.flatnonzero((origins.homes == home) & (origins.scale != 0)))
    with np.errstate(all="ignore"):
        zero = -mine.offset / mine.scale
        radius = 1.0 / np.abs(mine.scale)
    # A scale that underflows puts the zero at infinity, which is no centre.
    finite = np.isfinite(zero) & np.isfinite(radius)
    return HomeZeros(mine.places[finite], zero[finite], radius[finite])


def _read(region: Region, homes: list[Node]) -> Iterator[Origins]:
    """Yield the origins of what the nodes read that do not pass columns on."""
    origins: dict[Node, Origins | None] = {}
    for leaf, home in region.homes.items():
        ones = np.ones(len(home.places))
        place = np.full(len(home.places), homes.index(home.node))
        origins[leaf] = Origins(place, home.places, ones, 0.0 * ones)
    # An empty one first, so that there is something to join where nothing is read.
    yield Origins(*(np.empty(0, dtype) for dtype in (np.intp, np.intp, float, float)))
    for node in region.nodes:
        origins[node] = _pass(node, [origins.get(x) for x in node.inputs])
        if origins[node] is None:
            yield from (o for o in map(origins.get, node.inputs) if o is not None)


def _pass(node: Node, operands: list[Origins | None]) -> Origins | None:
    """Return the origins of a node that passes columns on; None for others."""
    sources = [o for o in operands if o is not None]
    if len(sources) < len(operands) or isinstance(node, Linear):
        return None
    if isinstance(node, Select):
        return sources[0].taken(node.indices.data)
    if isinstance(node, Concat):
        return Origins(
            *(np.concatenate(side) for side in zip(*(o.fields for o in sources), strict=True))
        )
    if isinstance(node, Affine):
        scale, offset = node.scale_and_offset
        x = sources[0]
        return Origins(x.homes, x.places, x.scale * scale, x.offset * scale + offset)
    return sources[0] if isinstance(node, Cast | Together) else None
