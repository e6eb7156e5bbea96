"""Move the tests of trees to the columns of the input, and to codes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hbconv.containers import Graph, Node, TreeEnsemble, TreeLeaves, at_step
from hbconv.optimize.rule import Declined, Derivation
from hbconv.optimize.rules.move_tests.rebuilt import Moved, move_forest

__all__ = ["move_tests"]


def move_tests(graph: Graph) -> Iterator[Derivation | Declined]:
    """Write the tests on computed columns as tests on the columns that these are computed from.

    A test ``f(x) <= t`` is a predicate on x. The rule evaluates f by the source's own function
    (``Node.source_function``), else in the arithmetic of the reference. It writes the predicate in
    x's own domain:

    1. On an ordered column, the largest x with ``f(x) <= t`` is the new threshold, found by
       bisection over the floats. What f makes of NaN says where NaN goes.
    2. On a column of codes, f is evaluated at every code. The codes of the new tests are sets; they
       are written as thresholds on ranks where these are nested, else as categories.

    f must change the side of each test at one place. Its nodes tell by construction where they
    rise and fall (``Node.trend``). Functions whose last bit differs between backends are looked at
    on both sides of the place. There the rewrite is required, because each backend would send
    other rows astray. Columns that cannot move stay computed.

    Forests over the same columns move together. Leaves keep their values and the source's numbers.
    Bit-exact.

    Examples
    --------
    >>> from hbconv.array import Array
    >>> from hbconv.containers import Affine, Columns, Impute, Output, Schema, show
    >>> from hbconv.trees.forest import Forest
    >>> x = Columns.of(Schema.table(["age"]))
    >>> scaled = Affine.of(Impute(x, Array([30.0])), sub=[20.0], div=[-2.0])
    >>> stump = Forest(
    ...     feature=Array.of([0], "int32"), threshold=Array([-3.5]), default_left=Array([True]),
    ...     left=Array.of([-1], "int32"), right=Array.of([-2], "int32"),
    ...     roots=Array.of([0], "int32"), first_leaf=Array.of([0, 2], "int32"),
    ...     values=Array([[1.0], [2.0]]), target=Array.of([0], "int32"), start=Array([0.0]),
    ...     strict=False, n_features=1, leaf_id=Array.of([0, 1], "int32"),
    ... )
    >>> graph = Graph(x.schema, {"predict": Output(TreeEnsemble(scaled, stump))})
    >>> (derivation,) = move_tests(graph)
    >>> print(show(derivation.apply(graph)))
    input  age: float64
    %1 columns  age
    %2 tree_ensemble %1  1 trees, 1 tests, <= float64, sums float64
    predict = %2
    >>> moved = derivation.apply(graph).outputs["predict"].node.forest
    >>> moved.threshold, moved.values.data.ravel().tolist(), derivation.proof
    ([27.], [2.0, 1.0], 'to 1 columns: 1 thresholds monotone by construction')
    """
    for x, readers in _by_input(graph).items():
        moves = {node: move_forest(x, node.forest, graph.schema) for node in readers}
        for node, moved in moves.items():
            yield from (Declined("move_tests", node, reason) for reason in moved.refusals)
        # One derivation for all: a single forest would leave its columns computed for the others.
        if any(moved.drops for moved in moves.values()):
            yield _derivation(moves)


def _by_input(graph: Graph) -> dict[Node, list[TreeEnsemble | TreeLeaves]]:
    """Return the forests by what they read."""
    readers: dict[Node, list[TreeEnsemble | TreeLeaves]] = {}
    for node in graph.nodes():
        if isinstance(node, TreeEnsemble | TreeLeaves):
            readers.setdefault(node.x, []).append(node)
    return readers


def _derivation(moves: dict[TreeEnsemble | TreeLeaves, Moved]) -> Derivation:
    """Replace all forests that move, as one rewrite."""
    replacements: dict[Node, Node] = {}
    for node, moved in moves.items():
        if moved.drops:
            with at_step(node.step):
                replacements[node] = replace(node, x=moved.x, forest=moved.forest)
    proofs = dict.fromkeys(moved.proof for moved in moves.values() if moved.drops)
    required = any(moved.required for moved in moves.values() if moved.drops)
    return Derivation("move_tests", replacements, "; ".join(proofs), required)
