"""Columns whose codes are found at once have the codes that each has alone."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, TargetEncoder

import hbconv
from hbconv.array import Array
from hbconv.backends.reference import evaluate
from hbconv.containers import (
    Add,
    Affine,
    Cast,
    Columns,
    Compare,
    Concat,
    FindCode,
    Graph,
    Impute,
    LookupSum,
    Map,
    Node,
    Output,
    Recode,
    Schema,
    Select,
    topological,
    verify_graph,
)
from hbconv.errors import InputError
from hbconv.lower import lower
from hbconv.optimize import optimize
from hbconv.optimize.late_rewrites import join_conditions, share_codes
from hbconv.optimize.merged_columns import find_columns
from hbconv.optimize.rule import apply_together
from hbconv.optimize.rules.merge_codes import fold_codes, merge_codes
from hbconv.parse import parse
from hbconv.target import Target

BACKENDS = ("torch", "torchscript", "onnx", "tvm")
SCHEMA = Schema.matrix(6)
HARD = np.array([0.0, -0.0, 1.0, 2.0, 3.0, 0.5, np.nan, np.inf, -1.0, 1e300])
ROWS = np.random.default_rng(0).choice(HARD, (300, 6))


def column(j: int) -> Node:
    return Columns(SCHEMA, Array.of([j], "int32"))


def filled(j: int) -> Node:
    return Impute(column(j), Array([float(j)]))


def code(x: Node, *values: float) -> FindCode:
    return FindCode(x, (Array(np.array(values)),))


def graph_of(*nodes: Node) -> Graph:
    return verify_graph(Graph(SCHEMA, {f"f{i}": Output(node) for i, node in enumerate(nodes)}))


def merged(graph: Graph) -> Graph:
    return verify_graph(apply_together(graph, list(merge_codes(graph))))


def found(graph: Graph) -> list[FindCode]:
    return [node for node in graph.nodes() if isinstance(node, FindCode)]


def values(graph: Graph) -> dict[str, bytes]:
    outputs = evaluate(lower(graph).program, {"x": ROWS})
    return {name: output.tobytes() for name, output in outputs.items()}


def test_columns_of_one_way_become_one_node():
    graph = graph_of(*(code(filled(j), 0.0, 1.0, 2.0 + j, np.nan) for j in range(6)))
    after = merged(graph)
    (node,) = found(after)
    assert node.type.width == 6
    assert isinstance(node.x, Impute)
    assert isinstance(node.x.x, Columns)
    assert values(after) == values(graph)


def test_columns_of_other_ways_stay_apart():
    nodes = [code(f(j), 0.0, 1.0) for f in (column, filled) for j in range(2)]
    after = merged(graph_of(*nodes))
    assert [node.type.width for node in found(after)] == [2, 2]
    assert values(after) == values(graph_of(*nodes))


def test_a_column_is_found_once():
    both = FindCode(Columns(SCHEMA, Array.of([0, 1], "int32")), (Array([0.0]), Array([1.0, 2.0])))
    graph = graph_of(both, code(column(1), 1.0, 2.0), code(column(2), 3.0))
    after = merged(graph)
    assert [node.type.width for node in found(after)] == [3]
    assert values(after) == values(graph)


def test_codes_of_codes_are_found_after_them():
    first = [code(column(j), 0.0, 1.0) for j in range(2)]
    second = [code(Cast(node, "float64"), 0.0, 1.0) for node in first]
    graph = graph_of(*first, *second)
    after = merged(graph)
    assert [node.type.width for node in found(after)] == [2, 2]
    assert values(after) == values(graph)


def test_what_cannot_be_joined_is_put_side_by_side():
    steps = [Affine.of(column(0), sub=1.0), Affine.of(column(1), sub=2.0, div=3.0)]
    graph = graph_of(*(code(x, 0.0, 1.0) for x in steps))
    assert values(merged(graph)) == values(graph)


def test_more_columns_than_are_compared_one_by_one():
    schema = Schema.matrix(300)
    wide = FindCode(Columns.of(schema), (Array([0.0, 1.0]),) * 300)
    one = FindCode(Columns(schema, Array.of([7], "int32")), (Array([0.0, 2.0]),))
    graph = Graph(schema, {"a": Output(wide), "b": Output(one)})
    assert list(merge_codes(graph)) == []


@pytest.mark.parametrize("entries", [1, 3])
def test_replaced_codes_are_folded_into_their_tables(entries):
    codes = Concat(tuple(code(column(j), 0.0, 1.0, 2.0) for j in range(2)))
    grouped = Recode(codes, (Array.of([-1, 1, 0, 1], "int32"), Array.of([0, -1, -1, 1], "int32")))
    tables = tuple(Array(np.arange(3.0 * entries).reshape(3, entries) + 10 * j) for j in range(2))
    before = LookupSum(grouped, tables)
    after = fold_codes(before)
    assert after is not None
    assert not any(isinstance(node, Recode) for node in topological((after,)))
    assert values(graph_of(after)) == values(graph_of(before))


def test_codes_outside_their_tables_are_not_folded():
    grouped = Recode(code(column(0), 0.0, 1.0), (Array.of([-1, 0, 7], "int32"),))
    assert fold_codes(Recode(grouped, (Array([0.0, 1.0, 2.0]),))) is None


def test_tables_that_would_grow_much_are_not_folded():
    grouped = Recode(code(column(0), *np.arange(99.0)), (Array.of([0] * 100, "int32"),))
    assert fold_codes(LookupSum(grouped, (Array(np.ones((2, 99))),))) is None


def test_conditions_share_the_codes_of_the_outputs():
    codes = [code(filled(j), 0.0, 1.0, 2.0) for j in range(6)]
    graph = graph_of(Concat(tuple(codes[:4])))
    conditions = [Compare.of(node, "eq", -1) for node in codes]
    shared, flags = share_codes(graph, conditions)
    nodes = topological((*shared.output_roots, *flags))
    assert [node.type.width for node in nodes if isinstance(node, FindCode)] == [6]
    assert sum(isinstance(node, Compare) for node in nodes) == 1
    assert values(shared) == values(graph)
    assert values(graph_of(*flags)) == values(graph_of(*conditions))


def test_conditions_without_codes_stay():
    conditions = {"large": Compare.of(column(0), "gt", 1.0)}
    assert join_conditions(graph_of(column(0)), conditions) == conditions


def table(rows: int, seed: int) -> pd.DataFrame:
    """Codes, fractions and whole numbers, some of them missing."""
    rng = np.random.default_rng(seed)
    halves = {f"half{j}": rng.integers(0, 5, rows) / 2 for j in range(3)}
    codes = {f"code{j}": rng.integers(0, 3 + j, rows).astype(float) for j in range(4)}
    whole = {f"int{j}": rng.choice([1, 5, 9, 10**6], rows) for j in range(2)}
    frame = pd.DataFrame({**halves, **codes, **whole})
    for name in (*halves, *codes):
        frame.loc[rng.random(rows) < 0.1, name] = np.nan
    return frame


UNSEEN = {"half1": 0.25, "code2": 99.0, "int1": 6}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "encoder",
    [OneHotEncoder(handle_unknown="ignore"), TargetEncoder(random_state=0),
     OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-5, encoded_missing_value=-7),
     OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=30)],
    ids=lambda encoder: type(encoder).__name__,
)  # fmt: skip
def test_encoded_tables_are_the_source_models(encoder, backend):
    X = table(400, 0)
    y = (np.nan_to_num(X["half0"]) + X["int0"] > 5).astype(int)
    source = encoder.fit(X, y)
    rows = table(200, 1)
    for name, value in UNSEEN.items():
        rows.loc[rows.index[::7], name] = value
    converted = hbconv.convert(source, backend=backend)
    want = source.transform(rows)
    got = converted.transform(rows)
    dense = [x.toarray() if hasattr(x, "toarray") else np.asarray(x) for x in (want, got)]
    np.testing.assert_array_equal(dense[1], dense[0])


@pytest.mark.parametrize("backend", BACKENDS)
def test_unseen_categories_are_refused_by_column(backend):
    X = table(400, 0).drop(columns=["int0", "int1"])
    y = (np.nan_to_num(X["half0"]) > 1).astype(int)
    imputer = SimpleImputer(strategy="most_frequent")
    source = make_pipeline(imputer, OneHotEncoder(), LogisticRegression()).fit(X, y)
    converted = hbconv.convert(source, backend=backend)
    rows = table(50, 2)[X.columns]
    np.testing.assert_allclose(
        converted.predict_proba(rows), source.predict_proba(rows), rtol=1e-12
    )
    for name, value in (("half1", 0.25), ("code2", 99.0), ("code3", 0.5)):
        one = rows.copy()
        one.loc[one.index[7], name] = value
        position = X.columns.get_loc(name)
        with pytest.raises(InputError, match=f"unknown categories in column {position} "):
            converted.predict_proba(one)


def test_a_pipeline_finds_its_codes_in_one_node():
    X = table(400, 0).drop(columns=["int0", "int1"])
    y = (np.nan_to_num(X["half0"]) > 1).astype(int)
    imputer = SimpleImputer(strategy="most_frequent")
    model = make_pipeline(imputer, OneHotEncoder(), LogisticRegression()).fit(X, y)
    together, apart = (
        optimize(parse(model), Target("torch", without=without)).graph
        for without in ((), ("merge_codes",))
    )
    assert (len(found(together)), len(found(apart))) == (1, 7)


def test_a_selection_of_merged_codes_is_taken_from_them():
    graph = graph_of(*(code(column(j), 0.0, 1.0) for j in range(3)))
    after = merged(graph)
    assert all(isinstance(root, Select) for root in after.output_roots)


def test_columns_of_a_node_that_many_read_are_found_once():
    """A chain of sums of the same has 2**60 paths to its input."""
    x: Node = Columns.of(Schema.table(["a", "b"]))
    for _ in range(60):
        x = Add((Map(x, "neg"), x))
        assert x.key
    first, second = find_columns(x)
    assert first != second
    assert find_columns(Select(x, Array.of([1], np.int32))) == (second,)
