"""Judge what was derived: the same polynomial, no more rounding than is promised, the same answers.

1. Identity: both sides are computed in double-double on random rows. They differ by the rounding
   of constants alone, so a false identity of degree 2 survives no random row (J. T. Schwartz, "Fast
   probabilistic algorithms for verification of polynomial identities", 1980).
2. Rounding: the running bound of the derived side is within half the tolerance of its dtype, or
   within that of the original.
3. Answers: the reference backend computes both sides in their own dtype; they differ by no more
   than the two bounds together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.containers import Node, topological
from hbconv.optimize.normal_form.evaluate import Bounded, evaluate
from hbconv.optimize.normal_form.probe import Probe
from hbconv.optimize.normal_form.region import Region
from hbconv.tensor import Builder, Value
from hbconv.tensor.evaluate import evaluate as run

__all__ = ["TOLERANCES", "DerivationJudge"]

Floats = npt.NDArray[np.float64]

TOLERANCES = {"float32": 1e-5, "float64": 5e-11}
"""Half of what is promised for linear algebra, relative to the answer or to one."""
_ROUNDOFF = {"float32": 2.0**-24, "float64": 2.0**-53}
_SAFETY = 4.0
"""Times that a difference may exceed the bound, which holds for nearly all rows."""


class DerivationJudge:
    """Judges the derived forms of some roots on the same rows.

    Parameters
    ----------
    region : Region
    probe : Probe
    roots : tuple of Node
    """

    def __init__(self, region: Region, probe: Probe, roots: tuple[Node, ...]) -> None:
        self.given = probe.given(region)
        self.before = evaluate(region.nodes, self.given)
        self.answers = _run(region.nodes, roots, self.given)

    def refuse(self, root: Node, derived: Node) -> str:
        """Return why the derived node must not replace the root; "" if it may."""
        if derived.type != root.type:
            return "the dtype would change"
        before = self.before[root]
        nodes = _new(derived, self.given)
        after = evaluate(nodes, self.given)[derived]
        roundoff = _ROUNDOFF[root.type.dtype]
        bound = (before.error + after.error) * roundoff
        if not _within(before, after, bound):
            return "the derived form is not the same polynomial"
        size = np.maximum(1.0, before.size)
        allowed = np.maximum(TOLERANCES[root.type.dtype] * size, before.error * roundoff)
        if not np.all(after.error * roundoff <= allowed):
            return "rounding would exceed half the tolerance"
        return self._compare(nodes, root, derived, _SAFETY * bound)

    def _compare(self, nodes: list[Node], root: Node, derived: Node, bound: Floats) -> str:
        """Run the derived side on the reference, from the same values of the leaves."""
        after = _run(nodes, (derived,), self.given)[derived]
        with np.errstate(all="ignore"):
            apart = np.abs(self.answers[root].astype(np.float64) - after)
        return "" if np.all(apart <= bound) else "the reference differs by more than the bound"


def _within(before: Bounded, after: Bounded, bound: Floats) -> bool:
    """Whether two values in double-double are as near as the bound."""
    apart = np.abs((before.value - after.value).high)
    return bool(np.all(apart <= _SAFETY * bound))


def _new(derived: Node, given: Mapping[Node, Bounded]) -> list[Node]:
    """Return the nodes between the given ones and the derived one, inputs first."""
    order = topological((derived,))
    needed = {derived}
    for node in reversed(order):
        if node in needed and node not in given:
            needed.update(node.inputs)
    return [node for node in order if node in needed and node not in given]


def _run(
    nodes: Iterable[Node], roots: tuple[Node, ...], given: Mapping[Node, Bounded]
) -> dict[Node, npt.NDArray[Any]]:
    """Lower nodes over program inputs in the place of leaves, and evaluate them in numpy."""
    b = Builder()
    values: dict[Node, Value] = {}
    inputs: dict[str, npt.NDArray[Any]] = {}
    for position, (leaf, bounded) in enumerate(given.items()):
        name = f"leaf{position}"
        values[leaf] = b.input(name, leaf.type.dtype, leaf.type.width)
        inputs[name] = bounded.value.high.astype(leaf.type.dtype)
    for node in nodes:
        if node not in values:
            values[node] = node.lower(b, *(values[x] for x in node.inputs))
    names = {f"root{position}": root for position, root in enumerate(roots)}
    answers = run(b.program({name: values[root] for name, root in names.items()}), inputs)
    return {root: answers[name] for name, root in names.items()}
