"""What the linear part becomes, what is declined, and where the cost decides."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis

import hbconv
from hbconv.array import Array
from hbconv.containers import (
    Add,
    Affine,
    Cast,
    Codes,
    Columns,
    Concat,
    FindCode,
    Graph,
    GroupSums,
    Linear,
    LookupSum,
    Map,
    Node,
    OneHot,
    Output,
    Polynomial,
    RowDot,
    Schema,
    Select,
    Vocabulary,
)
from hbconv.optimize import optimize
from hbconv.optimize.rule import Declined, Derivation
from hbconv.optimize.rules.derive_linear import derive_linear
from hbconv.target import Target

RNG = np.random.default_rng(0)
SCHEMA = Schema.matrix(4)
X = Columns.of(SCHEMA)
SCALED = Affine.of(X, sub=[1.0, 2.0, 3.0, 4.0], div=[2.0, 4.0, 5.0, 8.0])


def pick(x: Node, *columns: int) -> Node:
    return Select(x, Array(np.array(columns, np.int32)))


def proposals(*roots: Node, schema: Schema = SCHEMA) -> list[Derivation | Declined]:
    outputs = {str(i): Output(root) for i, root in enumerate(roots)}
    return list(derive_linear(Graph(schema, outputs)))


def derived(root: Node, schema: Schema = SCHEMA) -> Node | None:
    """What the first derivation makes of the root; None where there is none."""
    for proposal in proposals(root, schema=schema):
        if isinstance(proposal, Derivation):
            return proposal.replacements[root]
    return None


def test_a_chain_of_products_becomes_one():
    inner = Linear.of(SCALED, RNG.normal(size=(4, 3)), RNG.normal(size=3))
    outer = Affine.of(Linear.of(inner, RNG.normal(size=(3, 2))), mul=0.5)
    node = derived(outer)
    assert isinstance(node, Linear)
    assert node.x == X
    scale, offset = SCALED.scale_and_offset
    both = inner.weights.data @ outer.x.weights.data / 2
    np.testing.assert_allclose(node.weights.data, scale[:, None] * both, rtol=1e-14)
    bias = (offset @ inner.weights.data + inner.bias.data) @ outer.x.weights.data / 2
    np.testing.assert_allclose(node.bias.data, bias, rtol=1e-13)


def test_a_union_and_a_vote_of_products_become_one():
    chosen = Affine.of(pick(X, 3, 1), sub=[4.0, 2.0], div=[8.0, 4.0])
    union = Concat((Linear.of(SCALED, RNG.normal(size=(4, 2))), chosen))
    vote = Affine.of(Add((Linear.of(union, np.ones(4)), Linear.of(SCALED, np.ones(4)))), div=2.0)
    node = derived(vote)
    assert isinstance(node, Linear)
    assert node.x == X


def test_columns_that_nothing_linear_made_stand_beside_raw_ones():
    node = derived(Linear.of(Concat((SCALED, Map(X, "exp"))), np.ones(8)))
    assert isinstance(node, Linear)
    assert node.x == Concat((X, Map(X, "exp")))
    np.testing.assert_allclose(node.weights.data[:, 0], [0.5, 0.25, 0.2, 0.125, 1, 1, 1, 1])


def test_one_hot_encodings_become_one_look_up():
    schema = Schema.table(["city", "day", "age"])
    codes = [Codes(schema, i, Vocabulary(("x", "y"))) for i in range(2)]
    age = Columns(schema, Array(np.array([2], np.int32)))
    parts = (OneHot(codes[0], (2,)), age, OneHot(codes[1], (2,)))
    node = derived(Linear.of(Concat(parts), np.arange(1.0, 6.0), 7.0), schema)
    tables = (Array([[0.0], [1.0], [2.0]]), Array([[0.0], [4.0], [5.0]]))
    assert node == Add((Linear.of(age, [3.0], 7.0), LookupSum(Concat(tuple(codes)), tables)))


def test_an_encoding_alone_holds_the_bias_in_its_table():
    encoding = OneHot(FindCode(pick(X, 0), (Array(np.arange(3.0)),)), (3,))
    node = derived(Affine.of(Linear.of(encoding, [1.0, 2.0, 3.0], 9.0), mul=2.0))
    assert node == LookupSum(encoding.codes, (Array([[18.0], [20.0], [22.0], [24.0]]),))


def test_squares_about_several_means_become_one_product():
    """Gaussian naive Bayes: 3 classes of 4 columns each."""
    tiled = Affine.of(pick(X, *(list(range(4)) * 3)), sub=RNG.normal(size=12))
    squares = Affine.of(Map(tiled, "square"), div=RNG.uniform(1, 2, size=12))
    node = derived(Affine.of(GroupSums(squares, 3), mul=-0.5))
    assert isinstance(node, Linear)
    assert node.weights.shape == (8, 3)
    assert isinstance(node.x, Concat)
    z, z_squared = node.x.xs
    assert z_squared == Map(z, "square")


def forms(root: Node, schema: Schema = SCHEMA) -> list[Node]:
    """What all derivations make of the root."""
    made = (p for p in proposals(root, schema=schema) if isinstance(p, Derivation))
    return [derivation.replacements[root] for derivation in made]


def test_the_length_of_a_row_is_a_product_of_squares():
    nodes = forms(Add((Linear.of(SCALED, np.ones(4)), RowDot(SCALED, SCALED))))
    assert (5, 1) in [node.weights.shape for node in nodes if isinstance(node, Linear)]


def test_squares_of_mixed_columns_become_a_quadratic_form_or_stay():
    """Where they stay, what is before them is folded."""
    projected = Linear.of(SCALED, RNG.normal(size=(4, 4)))
    made = forms(GroupSums(Map(projected, "square"), 2))
    (full,) = (n for n in made if isinstance(n, Linear) and isinstance(n.x, Polynomial))
    assert (full.x.x, full.weights.shape) == (X, (4 + 10, 2))
    alone, products = [[i, -1] for i in range(4)], np.stack(np.triu_indices(4), 1).tolist()
    assert full.x.terms.data.tolist() == alone + products
    (kept,) = (node for node in made if isinstance(node, GroupSums))
    assert kept.x.x.x == X


@pytest.mark.parametrize(("classes", "is_full"), [(2, False), (20, True)])
def test_quadratic_discriminants_of_many_classes_share_their_products(classes: int, is_full: bool):
    """Products of 16 columns: 136, made once; 16 for each class else, of a projection each."""
    x, y = RNG.normal(size=(4000, 16)), np.arange(4000) % classes
    source = QuadraticDiscriminantAnalysis().fit(x + y[:, None] / 9 * x, y)
    model = hbconv.convert(source, backend="tvm")
    graph = optimize(model.graph.only("decision_function"), Target("tvm", rows=10_000)).graph
    assert any(isinstance(node, Polynomial) for node in graph.nodes()) is is_full
    rows = x[:999]
    np.testing.assert_allclose(
        model.decision_function(rows), source.decision_function(rows), rtol=1e-9
    )


def test_a_scaler_after_products_of_columns_is_folded():
    terms = np.array([[-1, -1], [2, -1], [0, 0], [1, 3], [3, 1]], np.int32)
    scaled = Affine.of(Polynomial(SCALED, Array(terms)), sub=np.arange(5.0), div=3.0)
    (node,) = forms(Linear.of(scaled, [[9.0, 1.0], [3, 0], [6, 3], [3, 3], [6, -3]]))
    assert isinstance(node, Linear)
    assert isinstance(node.x, Polynomial)
    assert node.x.terms.data.tolist()[-2:] == [[0, 0], [1, 3]]
    np.testing.assert_allclose(node.weights.data[-2:], [[2 / 4, 1 / 4], [3 / 32, 0]], atol=1e-15)


def test_products_of_too_many_columns_are_declined():
    schema = Schema.matrix(65)
    projected = Linear.of(Columns.of(schema), RNG.normal(size=(65, 4)))
    reasons = [
        p.reason
        for p in proposals(RowDot(projected, projected), schema=schema)
        if isinstance(p, Declined)
    ]
    assert reasons == ["the products of columns would be too many"]


@pytest.mark.parametrize("offset", [1e5, -1e9])
def test_columns_far_from_zero_keep_their_centre(offset: float):
    zeros = np.array([1.0, 2.0, offset, 3.0])
    root = Linear.of(Affine.of(X, sub=zeros, div=2.0), np.ones(4))
    node = derived(root)
    assert isinstance(node, Linear)
    np.testing.assert_array_equal(node.weights.data[:, 0], np.full(4, 0.5))
    assert isinstance(node.x, Affine)
    assert [step.op for step in node.x.steps] == ["sub"]
    np.testing.assert_array_equal(node.x.steps[0].constant.data, [0, 0, offset, 0])
    assert node.bias[0] == pytest.approx(-3.0)


def test_what_is_derived_is_not_derived_again():
    scaled = Affine.of(X, sub=[1.0, 2.0, 1e6, 3.0], div=[1e-3, 1.0, 1e-3, 1.0])
    for root in (Linear.of(scaled, np.ones(4)), RowDot(scaled, scaled)):
        once = derived(root)
        assert once is not None
        assert proposals(once) == []


def test_squares_that_would_cancel_are_declined():
    """Classes 1e7 scales apart: their squares lose all digits about any common centre."""
    tiled = Affine.of(pick(X, 0, 0), sub=[0.0, 1e7], div=1.0)
    root = GroupSums(Map(tiled, "square"), 2)
    (declined,) = proposals(root)
    assert isinstance(declined, Declined)
    assert "rounding" in declined.reason


@pytest.mark.parametrize(
    "before",
    [SCALED, Linear.of(X, np.eye(4)), OneHot(FindCode(pick(X, 0), (Array(np.arange(4.0)),)), (4,))],
    ids=["affine", "linear", "one_hot"],
)
def test_nothing_is_folded_into_infinite_weights(before: Node):
    """Zero times infinity is no number, which a fold would show in other rows, or hide."""
    root = Linear.of(before, [1.0, -np.inf, 0.0, 2.0])
    assert all(root not in p.replacements for p in proposals(root) if isinstance(p, Derivation))


def test_weights_narrower_than_the_answer_stay():
    root = Linear.of(SCALED, np.ones(4, np.float32))
    assert root.type.dtype == "float64"
    assert proposals(root) == []


def test_a_product_with_narrower_weights_is_a_leaf():
    narrow = Linear.of(X, np.ones((4, 2), np.float32))
    root = Linear.of(Affine.of(narrow, mul=2.0), np.ones((2, 9)))
    node = derived(root)
    assert isinstance(node, Linear)
    assert node.x == narrow


def test_a_rounding_to_float32_is_not_passed():
    root = Linear.of(Affine.of(Cast(SCALED, "float32"), mul=2.0), np.ones(4, np.float32))
    node = derived(root)
    assert isinstance(node, Linear)
    assert node.x == Cast(SCALED, "float32")


def test_dtypes_of_the_answers_stay():
    schema = Schema.matrix(4, "float32")
    x = Columns.of(schema)
    single = Linear.of(Affine.of(x, sub=1.0, div=2.0), np.ones(4, np.float32))
    node = derived(single, schema)
    assert node is not None
    assert node.type == single.type
    assert node.weights.dtype == "float32"


@pytest.mark.parametrize(
    ("backend", "heads", "products"),
    [
        ("tvm", 1, [(100, 1)]),
        ("torch", 1, [(100, 1)]),
        ("tvm", 2, [(100, 2)]),
        ("torch", 2, [(100, 1)] * 2),  # whose products of two columns take as long as of eight
        ("tvm", 50, [(10, 50), (100, 10)]),
        ("torch", 50, [(10, 50), (100, 10)]),
    ],
)
def test_a_projection_that_many_read_is_kept(
    backend: str, heads: int, products: list[tuple[int, int]]
):
    """100h against 1000 + 10h multiply-adds; merge_linears makes one product of the heads."""
    schema = Schema.matrix(100)
    scaled = Affine.of(Columns.of(schema), sub=RNG.normal(size=100), div=np.full(100, 2.0))
    projected = Linear.of(scaled, RNG.normal(size=(100, 10)))
    models = tuple(
        Map(Linear.of(projected, RNG.normal(size=(10, 1))), "sigmoid") for _ in range(heads)
    )
    graph = Graph(schema, {"predict_proba": Output(Concat(models))})
    nodes = optimize(graph, Target(backend=backend)).graph.nodes()
    widths = sorted(n.weights.shape for n in nodes if isinstance(n, Linear))
    assert widths == products
    assert not any(isinstance(n, Affine) for n in nodes)


def test_a_narrow_waist_stays_two_products():
    graph = Graph(SCHEMA, {"t": Output(Linear.of(Linear.of(X, np.ones((4, 1))), np.ones((1, 9))))})
    nodes = optimize(graph).graph.nodes()
    assert [n.weights.shape for n in nodes if isinstance(n, Linear)] == [(4, 1), (1, 9)]


def test_weights_that_would_be_too_many_are_declined():
    schema = Schema.matrix(5000)
    wide = Linear.of(
        Affine.of(Columns.of(schema), mul=2.0), np.broadcast_to(np.ones((1, 1)), (5000, 5000))
    )
    (declined,) = proposals(wide, schema=schema)
    assert isinstance(declined, Declined)
    assert "too many" in declined.reason
