"""Derive one product from all linear steps between two nonlinear ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hbconv.containers import Graph, Linear, Node, topological
from hbconv.optimize.normal_form import Derived, LinearPart, derive, multiplications
from hbconv.optimize.rule import Declined, Derivation

__all__ = ["derive_linear"]

_PROOF = "equal polynomials of degree 2, rounding within half the tolerance"


def derive_linear(graph: Graph) -> Iterator[Derivation | Declined]:
    """Fold scalers, projections, unions, sums and one-hot encodings into one product or look-up.

    1. Where nothing else is in between, roots become one product over the leaves.
    2. Where inner products are shared or narrow, another derivation keeps them, and folds what is
       before and after them. The cost decides.
    3. Squares of inner products become one product over the columns and the products of two of
       them, which many classes share; or they are kept too. The cost decides.

    Roots that share an inner product, or their leaves, are derived together.

    Examples
    --------
    >>> from hbconv.containers import Affine, Columns, Output, Schema, show
    >>> x = Columns.of(Schema.table(["a", "b"]))
    >>> scaled = Affine.of(x, sub=[1.0, 2.0], div=[2.0, 4.0])
    >>> model = Linear.of(Linear.of(scaled, [[6.0], [8.0]], 1.0), [[2.0]])
    >>> graph = Graph(x.schema, {"predict": Output(model)})
    >>> print(show(next(derive_linear(graph)).apply(graph)))
    input  a: float64, b: float64
    %1 columns  a, b
    %2 linear %1  [[6.], [4.]] + [-12.]
    predict = %2
    """
    part = LinearPart(graph)
    for roots in _groups(part):
        yield from _derivations(roots, part)


def _derivations(roots: list[Node], part: LinearPart) -> Iterator[Derivation | Declined]:
    """Yield the derivations of a group, that of the fewest multiplications first."""
    whole = derive(roots, part)
    yield from (Declined("derive_linear", r, why) for r, why in whole.reasons.items())
    forms = _alternatives(roots, whole, part)
    if whole.nodes and not forms:
        yield Declined("derive_linear", roots[0], "one product would multiply more: those are kept")
    changed = [root for root in roots if any(root in form for form in forms)]
    for form in forms:
        yield Derivation("derive_linear", {r: form.get(r, r) for r in changed}, _PROOF)


def _alternatives(roots: list[Node], whole: Derived, part: LinearPart) -> list[Mapping[Node, Node]]:
    """Return the forms that are worth pricing.

    Inner products are kept only where that multiplies less, or where one product would multiply
    columns with each other: other methods that read them too are compiled apart. Products that are
    kept already stay, if one product would multiply more.
    """

    def count(form: Mapping[Node, Node]) -> int:
        return multiplications([form.get(root, root) for root in roots])

    inner = _inner_products(roots, part)
    saves = not whole.reasons and count(whole.nodes) <= count({})
    # Nothing is kept where one product is the least work in any case.
    if not inner or (saves and not whole.mixes):
        return [whole.nodes] if whole.nodes else []
    kept = list(_kept(roots, inner, part))
    # Kept as they are, the products are in normal form already.
    if not any(kept) and (whole.mixes or count({}) < count(whole.nodes)):
        return []
    forms = dict.fromkeys(tuple(form.items()) for form in (whole.nodes, *kept) if form)
    return sorted(map(dict, forms), key=count)


def _kept(roots: list[Node], inner: list[Node], part: LinearPart) -> Iterator[dict[Node, Node]]:
    """Derive each inner product over those below it; and the roots over them, or as they are."""
    cut = frozenset(inner)
    below = {node: derive([node], part, cut).nodes.get(node, node) for node in inner}
    for above in (derive(roots, part, cut).nodes, {}):
        derived = {**below, **above}
        final: dict[Node, Node] = {}
        for node in (*inner, *roots):
            final[node] = _over(derived.get(node, node), node, final)
        yield {root: final[root] for root in roots if final[root] != root}


def _over(derived: Node, original: Node, final: Mapping[Node, Node]) -> Node:
    """Read what the inner products became."""
    mapping: dict[Node, Node] = {}
    for node in topological((derived,)):
        finished = final.get(node) if node != original else None
        mapping[node] = finished or node.with_inputs(mapping)
    return mapping[derived]


def _inner_products(roots: list[Node], part: LinearPart) -> list[Node]:
    """Return the products below the roots, inputs first."""
    below = {n for n in _below(roots, part) if isinstance(n, Linear) and part.is_inner(n)}
    return [n for n in part.nodes if n in below and n not in roots]


def _below(roots: list[Node], part: LinearPart) -> Iterator[Node]:
    """Yield the nodes of the linear part below the roots, and their leaves."""
    seen = set(roots)
    stack = list(roots)
    while stack:
        node = stack.pop()
        yield node
        more = [x for x in node.inputs if x not in seen] if part.is_inner(node) else []
        seen.update(more)
        stack.extend(more)


def _groups(part: LinearPart) -> list[list[Node]]:
    """Group the roots that share an inner product; others by the leaves that they share."""
    roots = part.roots()
    shared = {root: _links(root, part) for root in roots}
    groups: list[tuple[set[Node], list[Node]]] = []
    for root in roots:
        links = shared[root]
        # A root may link several groups, which it then makes one.
        touching = [g for g in groups if not g[0].isdisjoint(links)]
        groups = [g for g in groups if g[0].isdisjoint(links)]
        joined = set(links).union(*(g[0] for g in touching))
        groups.append((joined, [*(r for g in touching for r in g[1]), root]))
    return [members for _, members in groups]


def _links(root: Node, part: LinearPart) -> set[Node]:
    inner = _inner_products([root], part)
    # Fifty heads of one projection each folded it for
    # themselves, so those that share it go together.
    return set(inner) or {node for node in _below([root], part) if not part.is_inner(node)}
