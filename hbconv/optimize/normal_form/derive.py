"""Derive the roots of a group: expand them, write them as nodes, and judge the result.

``DerivationJudge`` asks for the same polynomial, for no more rounding than is promised, and for the
same outputs.

1. Identity: both sides are computed in double-double on random rows. They differ by the rounding
   of constants alone, so a false identity of degree 2 survives no random row (J. T. Schwartz, "Fast
   probabilistic algorithms for verification of polynomial identities", 1980).
2. Rounding: the running bound of the derived side is within half the tolerance of its dtype, or
   within that of the original.
3. Outputs: the reference backend computes both sides in their own dtype; they differ by no more
   than the two bounds together.

``write`` makes one product and one look-up of a normal form. ``Probe`` draws the rows on which a
derivation is judged: the model's own zeros, and rows about them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    Add,
    Affine,
    Cast,
    Concat,
    ConstantRows,
    Linear,
    LookupSum,
    Map,
    Node,
    OneHot,
    Polynomial,
    Select,
    Together,
    at_step,
    topological,
)
from hbconv.optimize.normal_form.evaluate import Bounded, evaluate
from hbconv.optimize.normal_form.expand import FLOATS, LOOKUPS, LinearPart, Region, expand
from hbconv.optimize.normal_form.form import PRODUCTS, LeafWeights, NormalForm
from hbconv.optimize.normal_form.zeros import HomeZeros, ScalerZeros
from hbconv.tensor import Builder, Value
from hbconv.tensor.program import evaluate as run

__all__ = ["DerivationJudge", "Derived", "Probe", "derive", "multiplications"]

OFFSETS = (1000.0, 10.0, 0.0)
"""Radii that a zero may be from 0 and count as 0, as they are tried.

Each tenfold may cost a digit. The first attempt suits float64, the second float32. Where anything
is squared, roots of them are tried.
"""
_MOVES = (Select, Concat, Together)
# 128 MB of float64.
MAX_WEIGHTS = 1 << 24
"""Entries of the largest matrix that a derivation makes."""

# 16 columns and 10 classes gain (159 to 108 ns a row on tvm); wider forms have no record.
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
    # MultinomialNB without smoothing, behind a sparse
    # encoder, multiplied infinity by a weight of 0.
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
        # A square doubles the digits that a distance from 0 costs.
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
    # Constants below a leaf count too: a union or a selection hands them on.
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
    at_leaves = {
        leaf: Bounded.exact(centres[home.node][None, home.places])
        for leaf, home in region.homes.items()
    }
    left_out = [node for node in region.nodes if isinstance(node, LOOKUPS)]
    at_leaves |= {node: Bounded.exact(np.zeros((1, node.type.width))) for node in left_out}
    return evaluate(region.nodes, at_leaves)


def _entries(region: Region, roots: tuple[Node, ...]) -> int:
    """Return the size of the largest matrix: weights of the widest node for the widest root."""
    widest = max(node.type.width for node in (*region.nodes, *region.leaves))
    return widest * max(root.type.width for root in roots)


def multiplications(roots: Iterable[Node]) -> int:
    """Count the multiply-adds of a row in all products below some nodes, each once."""
    nodes = topological(tuple(roots))
    listed = sum(node.terms.data.size for node in nodes if isinstance(node, Polynomial))
    return listed + sum(node.weights.data.size for node in nodes if isinstance(node, Linear))


Floats = npt.NDArray[np.float64]

# The other half is left for what a backend's own order of sums rounds.
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
        self.at_leaves = probe.at_leaves(region)
        self.before = evaluate(region.nodes, self.at_leaves)
        self.answers = _run(region.nodes, roots, self.at_leaves)

    def refuse(self, root: Node, derived: Node) -> str:
        """Return why the derived node must not replace the root; "" if it may."""
        if derived.type != root.type:
            return "the dtype would change"
        before = self.before[root]
        nodes = _new(derived, self.at_leaves)
        after = evaluate(nodes, self.at_leaves)[derived]
        roundoff = _ROUNDOFF[root.type.dtype]
        bound = (before.error + after.error) * roundoff
        if not _within(before, after, bound):
            return "the derived form is not the same polynomial"
        size = np.maximum(1.0, before.size)
        allowed = np.maximum(TOLERANCES[root.type.dtype] * size, before.error * roundoff)
        # Written so that an error of NaN refuses.
        if not np.all(after.error * roundoff <= allowed):
            return "rounding would exceed half the tolerance"
        return self._compare(nodes, root, derived, _SAFETY * bound)

    def _compare(self, nodes: list[Node], root: Node, derived: Node, bound: Floats) -> str:
        """Run the derived side on the reference, from the same values of the leaves."""
        after = _run(nodes, (derived,), self.at_leaves)[derived]
        with np.errstate(all="ignore"):
            apart = np.abs(self.answers[root].astype(np.float64) - after)
        return "" if np.all(apart <= bound) else "the reference differs by more than the bound"


def _within(before: Bounded, after: Bounded, bound: Floats) -> bool:
    """Whether two values in double-double are as near as the bound."""
    # Double-double resolves 2**-100, so what differs here
    # is the rounding of constants, or a false identity.
    apart = np.abs((before.value - after.value).high)
    return bool(np.all(apart <= _SAFETY * bound))


def _new(derived: Node, at_leaves: Mapping[Node, Bounded]) -> list[Node]:
    """Return the nodes between the given ones and the derived one, inputs first."""
    order = topological((derived,))
    needed = {derived}
    for node in reversed(order):
        if node in needed and node not in at_leaves:
            needed.update(node.inputs)
    return [node for node in order if node in needed and node not in at_leaves]


def _run(
    nodes: Iterable[Node], roots: tuple[Node, ...], at_leaves: Mapping[Node, Bounded]
) -> dict[Node, npt.NDArray[Any]]:
    """Lower nodes over program inputs in the place of leaves, and evaluate them in numpy."""
    b = Builder()
    values: dict[Node, Value] = {}
    inputs: dict[str, npt.NDArray[Any]] = {}
    for position, (leaf, bounded) in enumerate(at_leaves.items()):
        name = f"leaf{position}"
        values[leaf] = b.input(name, leaf.type.dtype, leaf.type.width)
        inputs[name] = bounded.value.high.astype(leaf.type.dtype)
    for node in nodes:
        if node not in values:
            values[node] = node.lower(b, *(values[x] for x in node.inputs))
    names = {f"root{position}": root for position, root in enumerate(roots)}
    answers = run(b.program({name: values[root] for name, root in names.items()}), inputs)
    return {root: answers[name] for name, root in names.items()}


def write(form: NormalForm, root: Node) -> Node:
    """Return nodes that compute the form as the root does, in the root's dtype and step.

    1. Leaves give one product, over ``[x - centre, (x - centre)**2]``; a centre of 0 is left out.
    2. Where products mix columns, it reads the products of two columns in place of the squares.
    3. Codes give one look-up, which holds the bias where there is no product.
    4. A constant stays the root.
    """
    dtype = root.type.dtype
    with at_step(root.step):
        product = _product(form, dtype)
        lookup = _lookup(form, dtype, with_bias=product is None)
        terms = tuple(x for x in (product, lookup) if x is not None) or (root,)
        return terms[0] if len(terms) == 1 else Add(terms)


Features = Iterator[tuple[Node, Floats]]
"""What the product reads, with its weights."""


def _product(form: NormalForm, dtype: str) -> Node | None:
    if form.mixed is None:
        features = [f for home, terms in form.leaves.items() for f in _columns(form, home, terms)]
    else:
        features = list(_columns_and_products(form, form.mixed, dtype))
    if not features:
        return None
    parts, weights = zip(*features, strict=True)
    return Linear(
        _join(parts), Array.of(np.concatenate(weights), dtype), Array.of(form.bias, dtype)
    )


def _columns(form: NormalForm, home: Node, terms: LeafWeights) -> Features:
    """Yield the columns that the product reads of a home, and their squares."""
    squares = _squares(terms)
    used = np.flatnonzero(terms.linear.any(axis=1) | squares.any(axis=1))
    if not len(used):
        return
    z = _centre(home, form.centres[home], used)
    yield from _yield_weighted(z, terms.linear[used])
    for squared, weights in _yield_weighted(z, squares[used]):
        yield Map(squared, "square"), weights


def _yield_weighted(z: Node, weights: Floats) -> Features:
    """Yield the columns that have weights, if any has."""
    # Columns without weights are not read: fewer columns are copied and multiplied.
    columns = np.flatnonzero(weights.any(axis=1))
    if len(columns):
        yield _select(z, columns), weights[columns]


def _squares(terms: LeafWeights) -> Floats:
    return np.zeros_like(terms.linear) if terms.squares is None else terms.squares


def _columns_and_products(form: NormalForm, mixed: Floats, dtype: str) -> Features:
    """Yield the terms that have weights, of all homes side by side.

    Columns are terms of one factor: next to the products they need no copy.
    """
    linear = np.concatenate([terms.linear for terms in form.leaves.values()])
    every = np.arange(len(linear))
    mixed = mixed.copy()
    mixed[every, every] += np.concatenate([_squares(terms) for terms in form.leaves.values()])
    alone, (first, second) = np.flatnonzero(linear.any(axis=1)), np.nonzero(mixed.any(axis=2))
    used = np.unique(np.concatenate([alone, first, second]))
    if not len(used):
        return
    z = _join(tuple(_side_by_side(form, used, dtype)))
    if not len(first):
        yield z, linear[used]
        return
    terms = np.concatenate([np.stack([alone, alone], 1), np.stack([first, second], 1)])
    places = np.searchsorted(used, terms)
    # A term of one factor is the column itself: beside products it costs less than a second matrix.
    places[: len(alone), 1] = -1
    yield (
        Polynomial(z, Array.of(places, np.int32)),
        np.concatenate([linear[alone], mixed[first, second]]),
    )


def _side_by_side(form: NormalForm, used: npt.NDArray[np.integer], dtype: str) -> Iterator[Node]:
    """Yield the used columns of each home, centred, in a dtype."""
    start = 0
    for home in form.leaves:
        columns = used[(used >= start) & (used < start + home.type.width)] - start
        start += home.type.width
        if len(columns):
            z = _centre(home, form.centres[home], columns)
            yield z if z.type.dtype == dtype else Cast(z, dtype)


def _centre(home: Node, centres: Floats, columns: npt.NDArray[np.integer]) -> Node:
    x, centre = _select(home, columns), centres[columns]
    return Affine.of(x, sub=centre) if centre.any() else x


def _join(parts: tuple[Node, ...]) -> Node:
    return parts[0] if len(parts) == 1 else Concat(parts)


def _select(x: Node, columns: npt.NDArray[np.integer]) -> Node:
    return x if len(columns) == x.type.width else Select(x, Array.of(columns, np.int32))


def _lookup(form: NormalForm, dtype: str, *, with_bias: bool) -> Node | None:
    if not form.tables:
        return None
    tables = [table for of_node in form.tables.values() for table in of_node]
    if with_bias:
        # Each row reads the first table once, so it can hold the bias: that spares an addition.
        tables[0] = tables[0] + form.bias
    codes = _join(tuple(form.tables))
    return LookupSum(codes, tuple(Array.of(table, dtype) for table in tables))


MAX_ROWS = 12
_PRODUCTS = 1 << 19
"""Products in double-double for one model; larger models are judged on fewer rows."""
# Judging a projection of 50,000 columns took 1.9 s with all columns moved, and takes 1.2 s.
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
        # A fixed seed: the same model is derived alike in every process.
        rng = np.random.default_rng(0)
        size = sum(np.size(getattr(node, "weights", 0)) for node in region.nodes)
        rows = int(np.clip(_PRODUCTS // max(size, 1), 2, MAX_ROWS))
        homes = {home: _rows(home, zeros, rows, rng) for home, zeros in zeros.zeros.items()}
        return Probe(homes, {codes: _codes(codes, region, rows, rng) for codes in region.codes})

    def at_leaves(self, region: Region) -> dict[Node, Bounded]:
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
    has_zero = np.broadcast_to(counts > 0, near.shape)
    chosen = order[np.where(has_zero, near, 0)] if len(order) else np.zeros(near.shape, np.intp)
    zero, radius = (np.append(values, 0.0) for values in (zeros.zero, zeros.radius))
    moved = (np.arange(rows) >= rows // 2)[:, None] & (rng.permutation(width) < _MOVED)
    about = rng.uniform(-_SPREAD, _SPREAD, near.shape) * moved
    # Near the zeros of scalers differences cancel most, and rows of the model lie about them.
    values = np.where(has_zero, zero[chosen] + radius[chosen] * about, about)
    dtype = home.type.dtype if home.type.dtype in FLOATS else "float64"
    # Ints are probed by ints, since a fraction cannot be fed to them.
    rounded = values if dtype == home.type.dtype else np.rint(values)
    return rounded.astype(dtype).astype(np.float64)


def _codes(codes: Node, region: Region, rows: int, rng: np.random.Generator) -> Floats:
    """Draw codes of all that the look-ups know, and of none."""
    sizes = [_sizes(node) for node in region.nodes if codes in node.inputs]
    # A code that one of the look-ups does not know is no row of the model.
    least = np.min([s for s in sizes if s], axis=0)
    return np.floor(rng.uniform(-1.0, least, (rows, codes.type.width)))


def _sizes(node: Node) -> tuple[int, ...]:
    if isinstance(node, OneHot):
        return node.sizes
    return tuple(len(t) - 1 for t in node.tables) if isinstance(node, LookupSum) else ()
