"""Derive the roots of a group: expand, write, judge."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from hbconv.containers import (
    Concat,
    ConstantRows,
    Linear,
    LookupSum,
    Node,
    Polynomial,
    Select,
    Together,
    topological,
)
from hbconv.optimize.normal_form.evaluate import Bounded, evaluate
from hbconv.optimize.normal_form.expand import expand
from hbconv.optimize.normal_form.instance import write
from hbconv.optimize.normal_form.linear_part import LOOKUPS, LinearPart
from hbconv.optimize.normal_form.probe import Probe
from hbconv.optimize.normal_form.products import PRODUCTS
from hbconv.optimize.normal_form.region import Region
from hbconv.optimize.normal_form.verify import DerivationJudge
from hbconv.optimize.normal_form.zeros import ScalerZeros

__all__ = ["Derived", "derive", "multiplications"]

OFFSETS = (1000.0, 10.0, 0.0)
"""Radii that a zero may be from 0 and count as 0, as they are tried.

Each tenfold may cost a digit. The first attempt suits float64, the second float32. Where anything
is squared, roots of them are tried.
"""
_MOVES = (Select, Concat, Together)
MAX_WEIGHTS = 1 << 24
"""Entries of the largest matrix that a derivation makes."""

MAX_MIXED = 64
"""Columns of the widest quadratic form, which has half as many products as their square."""


@dataclass(frozen=True)
class Derived:
    """What became of the roots.

    Parameters
    ----------
    nodes : mapping of Node to Node
        The new node of each root that changed.
    reasons : mapping of Node to str
        Why each other root was declined; roots that are in normal form already are left out.
    mixes : bool
        Columns of the leaves are multiplied with each other.
    """

    nodes: Mapping[Node, Node] = field(default_factory=dict)
    reasons: Mapping[Node, str] = field(default_factory=dict)
    mixes: bool = False


def derive(roots: Iterable[Node], part: LinearPart, cut: frozenset[Node] = frozenset()) -> Derived:
    """Derive each root over the leaves that all of them share.

    Columns are centred where their zeros are far from 0; where that is refused, more are.

    Parameters
    ----------
    roots : iterable of Node
    part : LinearPart
    cut : frozenset of Node
        Nodes of the linear part that stay, and count as leaves.
    """
    chosen = tuple(root for root in roots if not _only_moves(root, part, cut))
    if not chosen:
        return Derived()
    region = Region.below(chosen, part, cut)
    if _may_be_infinite(region.leaves):
        return Derived(
            reasons=dict.fromkeys(chosen, "a column may be infinite, times a weight of 0")
        )
    if _entries(region, chosen) > MAX_WEIGHTS:
        return Derived(reasons=dict.fromkeys(chosen, "the weights would be too many"))
    if region.mixes and sum(x.type.width for x in region.leaves) > MAX_MIXED:
        return Derived(reasons=dict.fromkeys(chosen, "the products of columns would be too many"))
    zeros = ScalerZeros.of(region)
    judge = DerivationJudge(region, Probe.of(region, zeros), chosen)
    nodes: dict[Node, Node] = {}
    reasons: dict[Node, str] = {}
    pending = list(chosen)
    for beyond in OFFSETS:
        attempt = _Attempt(region, zeros, judge, beyond)
        reasons = {}
        for root in pending:
            derived, reason = attempt.derive(root)
            if derived is None:
                reasons[root] = reason
            elif derived != root:
                nodes[root] = derived
        pending = list(reasons)
    return Derived(nodes, reasons, region.mixes)


class _Attempt:
    """The derivation of roots about one centre."""

    def __init__(
        self, region: Region, zeros: ScalerZeros, judge: DerivationJudge, beyond: float
    ) -> None:
        self.region = region
        self.judge = judge
        squared = any(isinstance(node, PRODUCTS) for node in region.nodes)
        self.centres = zeros.centres(np.sqrt(beyond) if squared else beyond)
        self.at_centre = _values_at(region, self.centres)

    def derive(self, root: Node) -> tuple[Node | None, str]:
        """Return the derived node, or None and why it was declined."""
        form = expand(root, self.region, self.centres, self.at_centre)
        if not form.is_finite:
            return None, "a weight would not be finite"
        derived = write(form, root)
        if derived == root:
            return root, ""
        reason = self.judge.refuse(root, derived)
        return (None, reason) if reason else (derived, "")


def _may_be_infinite(leaves: tuple[Node, ...]) -> bool:
    """Whether something that leaves are chosen or looked up from is no finite number."""
    below = topological(leaves)
    constants = [n.values for n in below if isinstance(n, ConstantRows)]
    constants += [table for n in below if isinstance(n, LookupSum) for table in n.tables]
    return not all(np.isfinite(values.data).all() for values in constants)


def _only_moves(root: Node, part: LinearPart, cut: frozenset[Node]) -> bool:
    """Whether nothing is computed below the root, whose columns are moved alone."""
    if not isinstance(root, Linear | LookupSum):
        return False
    region = Region.below((root,), part, cut)
    computed = [node for node in region.nodes if not isinstance(node, _MOVES)]
    read = sum(leaf.type.width for leaf in region.leaves)
    return computed == [root] and read <= root.inputs[0].type.width


def _values_at(region: Region, centres: Mapping[Node, np.ndarray]) -> dict[Node, Bounded]:
    """Evaluate all nodes at the centre, look-ups left out."""
    given = {
        leaf: Bounded.exact(centres[home.node][None, home.places])
        for leaf, home in region.homes.items()
    }
    left_out = [node for node in region.nodes if isinstance(node, LOOKUPS)]
    given |= {node: Bounded.exact(np.zeros((1, node.type.width))) for node in left_out}
    return evaluate(region.nodes, given)


def _entries(region: Region, roots: tuple[Node, ...]) -> int:
    """Return the size of the largest matrix: weights of the widest node for the widest root."""
    widest = max(node.type.width for node in (*region.nodes, *region.leaves))
    return widest * max(root.type.width for root in roots)


def multiplications(roots: Iterable[Node]) -> int:
    """Count the multiply-adds of a row in all products below some nodes, each once."""
    nodes = topological(tuple(roots))
    listed = sum(node.terms.data.size for node in nodes if isinstance(node, Polynomial))
    return listed + sum(node.weights.data.size for node in nodes if isinstance(node, Linear))
