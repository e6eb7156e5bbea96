"""Emit the projection of rows to where points are scored."""

from __future__ import annotations

from tvm import tirx

from hbconv.backends.tvm.ops.nearest.tables import Prefilter
from hbconv.backends.tvm.ops.row_major_matmul import multiply
from hbconv.backends.tvm.tir.kernel import Kernel, literal
from hbconv.backends.tvm.tir.memory import Place

__all__ = ["project"]


def project(k: Kernel, prefilter: Prefilter, x: Place, coordinates: Place) -> None:
    """Bring rows to where the points are: about their mean, scaled, and on their axes."""
    centre = k.constant(prefilter.centre)
    factor = literal(prefilter.scale, x.dtype, k.lanes)
    with (
        k.temporary(x.dtype, x.shape) as centred,
        k.temporary(x.dtype, coordinates.shape) as projected,
    ):
        k.map_vectors(centred, (x, centre), lambda entry, mean: (entry - mean) * factor)
        if prefilter.axes is not None:
            multiply(k, projected, centred, prefilter.axes, ())
        k.map_vectors(
            coordinates,
            (centred if prefilter.axes is None else projected,),
            lambda entry: tirx.Cast(f"{coordinates.dtype}x{k.lanes}", entry),
        )
