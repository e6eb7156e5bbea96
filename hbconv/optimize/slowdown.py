"""How long a program is predicted to take beside its source model.

Trees and distances decide it: of everything else, no backend takes much longer than the source.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from hbconv.backends import find_backend
from hbconv.optimize.program_cost import strategy_costs, tree_work
from hbconv.target import Target
from hbconv.tensor import Op, OpKind, TensorProgram

__all__ = ["predict_slowdown"]

VISIT = 5e-9
VISITS: Mapping[str, float] = {"catboost": 3e-10, "lightgbm": 2.4e-9, "xgboost": 2.5e-9}
"""Seconds in which a source visits a split, by library; scikit-learn's trees take longest."""

NEAREST, PAIRWISE, SHARED = 2e-10, 1e-9, 2.9e-10
"""Seconds that scikit-learn takes for a coordinate of a point: to find the nearest, for a kernel,
and for distances over what two rows share, which are products of matrices."""
OWN: Mapping[str, tuple[float, float]] = {
    "tvm": (4e-11, 3.2e-10),
    "torch": (7e-10, 3.3e-9),
    "torchscript": (7e-10, 3.3e-9),
    "onnx": (2e-9, 3.3e-9),
}
"""Seconds that backends take for these, to find the nearest, and for all others.

Measured for 1,000 to 5,000 rows on a virtual EPYC with AVX-512, whose other core was busy.
"""


def predict_slowdown(program: TensorProgram, library: str, target: Target) -> float:
    """Return the predicted seconds of trees and distances over those of the source model.

    It is 1 where there are none, and where nobody expects speed of the backend, which is
    ``reference``, or knows that of the source, which is on devices.

    Parameters
    ----------
    program : TensorProgram
        As it is lowered for the target.
    library : str
        The source model's, such as ``"catboost"``.
    target : Target

    Examples
    --------
    >>> import numpy as np
    >>> from hbconv.tensor import Builder
    >>> b = Builder()
    >>> x = b.input("x", "float64", 4)
    >>> found = b.op("nearest", x, b.constant(np.zeros((1000, 4))), k=5)
    >>> program = b.program({"y": found})
    >>> [round(predict_slowdown(program, "sklearn", Target(name)), 1) for name in ("torch", "tvm")]
    [3.5, 0.2]
    """
    if target.device != "cpu" or target.backend not in OWN:
        return 1.0
    seconds = list(_seconds(program, library, target))
    own, source = (sum(each[i] for each in seconds) for i in (0, 1))
    return own / source if source and math.isfinite(own) else 1.0


def _seconds(program: TensorProgram, library: str, target: Target) -> Iterator[tuple[float, float]]:
    """Yield the seconds of each operator that decides, and those of the source."""
    for op in program.instructions:
        if not isinstance(op, Op):
            continue
        if op.kind is OpKind.TREES:
            yield _of_trees(program, op, library, target)
        elif op.primitive in ("nearest", "pairwise"):
            nearest, others = OWN[target.backend]
            count = target.rows * math.prod(program.instructions[op.operands[1]].type.shape)
            own = nearest if op.primitive == "nearest" else others
            yield count * own, count * _of_points(op)


def _of_trees(program: TensorProgram, op: Op, library: str, target: Target) -> tuple[float, float]:
    forest, backend = op.attributes["forest"], find_backend(target.backend)
    dtype = program.instructions[op.operands[0]].type.dtype
    costs = strategy_costs(forest, target, backend, dtype)
    own = costs.get(op.attributes["strategy"], min(costs.values(), default=math.inf))
    reference = Target("reference", rows=target.rows)
    visits = tree_work(forest, "tree_traversal", reference, find_backend("reference"), dtype).visits
    return own, target.rows * visits * VISITS.get(library, VISIT)


def _of_points(op: Op) -> float:
    if op.primitive == "nearest":
        return NEAREST
    return SHARED if op.attributes["kind"] == "present" else PAIRWISE
