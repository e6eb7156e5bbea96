"""A container gives selected columns alone exactly where each column is computed alone."""

from __future__ import annotations

from itertools import product

import numpy as np
import numpy.typing as npt
import pytest
from pairwise import failing

from hbconv.array import Array
from hbconv.backends.reference import evaluate
from hbconv.containers import (
    Add,
    Affine,
    Angle,
    Arctan2,
    Beside,
    BinaryDistances,
    Bins,
    BoxCox,
    BoxDistances,
    ByForm,
    Cast,
    CastLike,
    CategoryCodes,
    CategoryNumbers,
    Choose,
    Clip,
    Columns,
    ColumnWise,
    Compare,
    Concat,
    ConstantRows,
    Distances,
    EntriesAt,
    FillMissing,
    FindCode,
    FiniteLog,
    FloorDivide,
    Fmax,
    Fmin,
    Fmod,
    Graph,
    Haversine,
    Held,
    Hypot,
    Impute,
    Interpolate,
    IsMissing,
    IsOutside,
    Linear,
    LookupRows,
    Map,
    Maximum,
    Minimum,
    MissingBetween,
    Modulo,
    Multiply,
    Nearest,
    Node,
    NormalQuantile,
    Not,
    NoTexts,
    OneHot,
    OnlyNumbers,
    OrderedLinear,
    Output,
    Polynomial,
    Pool,
    Power,
    Quotient,
    Raise,
    Recode,
    Relation,
    Remainder,
    RoundDecimals,
    Schema,
    Select,
    SharedDistances,
    ShortestPaths,
    SoftThreshold,
    SplineBasis,
    SquaresAt,
    TableExp,
    WeightedLookup,
    WrappedLinear,
    YeoJohnson,
)
from hbconv.containers.node import NODES
from hbconv.lower import lower
from hbconv.optimize import RULES
from hbconv.optimize.rule import simplify

BLOCKED = {
    "Spread": "it moves columns and computes none, so that there is no work to leave out",
    "Together": "others take the rest of its columns, so it is computed at once",
    **dict.fromkeys(("TreeEnsemble", "TreeLeaves"), "the rule narrow_forests looks at all readers"),
    **dict.fromkeys(("DonorDistances", "DonorMeans", "NearestDonors"), "its positions come column by column, several for each"),
    "TreeContributions": "each tree contributes to all features that it tests",
    "TreeInteractions": "each tree joins all features that it tests",
    **dict.fromkeys(
        ("AreBools", "AreNarrow", "AreNullable", "CalendarField", "InstantRelation", "RowStatistic", "TextNumber", "UnitCount", "Codes", "ExpectedSigmoid", "IsBeyond", "IsNonFinite", "IsOtherDtype", "LogSumExp",
         "RowDot", "WeightedMedian"),
        "it has one column",
    ),
    **dict.fromkeys(("ChooseText", "ChosenText", "CleanText", "DateColumn", "EditText", "Entries", "FillObjects", "FromObjects", "JoinText", "KeepText", "NumberText"), "its columns are texts, dates or tokens, not numbers"),
    **dict.fromkeys(
        ("InverseDistances", "LogSoftmax", "Logits", "Normalize", "Proportions", "Softmax",
         "SymmetricLogit", "TableLogSoftmax", "TableSoftmax"),
        "each column depends on a sum or an extreme of the row",
    ),
    **dict.fromkeys(
        ("ArgMax", "Carried", "GroupSums", "Instants", "LeafSums", "LocalTime", "LogAdd", "PairVotes", "RunningSums",
         "StagedLeafSums", "Votes"),
        "a column is made of a block of columns",
    ),
    **dict.fromkeys(
        ("Barycentric", "LassoDescent", "LeastAngles", "MatchingPursuit", "Nearest",
         "NearestPoints", "NonNegativeWeights", "PairwiseCoupling", "Scatter", "Searched", "TopicMixture",
         "TriangularSolution"),
        "the columns are found together",
    ),
    "LookupSum": "with other widths the rows may add up in another order",
    "SquaredDistances": "the points are centred on their median",
}  # fmt: skip
"""Containers that no selection passes, each with its reason."""

SCHEMA = Schema.matrix(3)
X = Columns.of(SCHEMA)
Y = Map(X, "tanh")
ONE = Select(X, Array([1]))
BITS = Compare.of(X, "gt", 0.5, "float64")
PLACES = Nearest(X, 3)
CODES = Concat(
    tuple(FindCode(Select(X, Array.of([j], "int32")), (Array([0.0, 1.0, 2.0]),)) for j in range(3))
)
POINTS = Array([[0.0, 1.0, 2.0], [0.5, -1.0, 0.1], [3.0, 0.0, 1e3]])
KNOTS = Array([[0.0, 0.5, 2.0], [-1.0, 0.0, 1.0], [0.1, 0.1, 9.0]])
TABLES = tuple(Array(np.roll([9.0, -0.0, 1.0, 2.0], j)) for j in range(3))
SPLINES = Array([[-2.0, -1.0, 0.0, 1.0, 2.0, 3.0], [-9.0, -5.0, -1.0, 0.0, 1.0, 2.0],
                 [0.0, 1.0, 2.0, 4.0, 8.0, 16.0]])  # fmt: skip

SAMPLES: tuple[Node, ...] = (
    Add((X, ONE, Y)),
    Add((ONE, Select(Y, Array([2])))),
    Affine.of(X, sub=[0.1, 2.0, 0.0], div=[3.0, 1e-300, -1.0]),
    Angle(X),
    Arctan2(X, ONE),
    Beside((ONE, X)),
    BinaryDistances(X, POINTS, "yule"),
    Bins(X, Array([[0.5, 1.5], [1.0, np.nan], [np.nan, np.nan]])),
    BoxCox(X, Array([0.5, 0.0, -2.0])),
    ByForm(X, Y),
    Cast(X, "float32"),
    CastLike(X, Cast(ONE, "float32")),
    CategoryCodes(X, Array.of([0, 2, 9], "int32")),
    CategoryNumbers(CODES, TABLES, "float64"),
    Choose(Compare.of(X, "lt", 0.5), X, Y),
    Choose(Compare.of(ONE, "lt", 0.5), X, Y),
    Clip.of(X, [0.0, -np.inf, 0.25], [1.0, 0.5, np.inf]),
    Columns(SCHEMA, Array.of([2, 0, 1], "int32")),
    Compare(X, "gt", Array([0.0, 1.0, 0.5])),
    Concat((X, Y)),
    ConstantRows(X, Array([1.0, -0.0, np.nan])),
    ConstantRows(ONE, Array([1.0, -0.0, np.nan])),
    Distances(X, POINTS),
    *(BoxDistances(X, POINTS, Array(POINTS.data + 1.0), p) for p in (1.0, 2.0, np.inf)),
    EntriesAt(X, PLACES),
    FindCode(X, (Array([0.0, 1.0, 2.0]), Array([-1.5, 0.5, np.nan]), Array(np.arange(-9.0, 9.0)))),
    FillMissing(X, Y),
    FiniteLog(X),
    *(pair(X, Y) for pair in (FloorDivide, Fmax, Fmin, Fmod, Remainder)),
    FloorDivide(ONE, X),
    Haversine(X, POINTS),
    Hypot(X, Y),
    Raise(X, Y),
    Held(IsMissing(X), Y, 7.0),
    Impute(X, Array([7.0, 8.0, 9.0])),
    Impute(X, Array([7.0, 8.0, 9.0]), 0.0),
    Interpolate(X, KNOTS, POINTS),
    IsMissing(X),
    Not(Compare.of(X, "lt", 0.5)),
    Relation(X, Y, "lt"),
    IsOutside.of(X, [0.0, -1.0, 0.5], [1.0, 0.0, np.inf]),
    Linear.of(BITS, np.arange(9.0).reshape(3, 3), [0.0, 1.0, 0.5]),
    LookupRows(PLACES, Array([[0.5], [1.5], [-0.0]])),
    Map(X, "expm1"),
    Maximum((X, Y, ONE)),
    Minimum((X, Y, ONE)),
    MissingBetween.of(X, [0.0, np.nan, 1.0], [0.5, np.nan, 9.0]),
    Modulo(X, Array([0.5, 7.0, 0.1])),
    Multiply((ONE, X)),
    NormalQuantile(Map(X, "sigmoid")),
    OneHot(CODES, (3, 3, 3)),
    NoTexts(X),
    OnlyNumbers(X),
    WrappedLinear(
        Cast(BITS, "int64"), Array(np.array([[3, 0, 2**62 + 1], [-(2**63), 1, 0], [0, 1, 5]]))
    ),
    OrderedLinear(X, Array(np.arange(9.0).reshape(3, 3) / 7), Array([0.1, -0.0, 1.0])),
    Polynomial(X, Array.of([[-1, -1], [1, 0], [2, 2]], "int32")),
    Pool(X, ((0, 1), (2,), (1, 2)), "median"),
    Power(X, 1.7),
    Quotient((X, Y)),
    Recode(CODES, TABLES),
    RoundDecimals(X, 2),
    Select(X, Array.of([2, 2, 0], "int32")),
    SharedDistances(X, POINTS),
    ShortestPaths(PLACES, X, POINTS),
    SoftThreshold(X, 0.25),
    SplineBasis(X, SPLINES, 1),
    SquaresAt(X, PLACES, POINTS),
    TableExp(X),
    WeightedLookup(PLACES, BITS, POINTS),
    YeoJohnson(X, Array([0.5, 0.0, -2.0]), Array([1.5, 2.0, 0.0])),
)
TINY = 5e-324
MAX = np.finfo(np.float64).max
ROWS = np.array([
    [0.0, 1.0, np.nan], [2.0, np.nan, 1.0], [1.0, 0.0, -0.0], [9.0, 2.0, 0.5], [-0.0, -1.0, 0.1],
    [np.inf, 0.5, -3.0], [0.3, -np.inf, TINY], [MAX, -TINY, 1 / 3], [-MAX, 1e-300, 2.0],
    [np.nextafter(0.5, 1), np.nextafter(1.0, 0), np.nextafter(0.25, 0)], [-0.5, 3.0, np.nan],
])  # fmt: skip


ROWS.setflags(write=False)


def value(node: Node, rows: npt.NDArray[np.float64] = ROWS) -> npt.NDArray[np.generic]:
    """The node on some rows, by the reference."""
    lowered = lower(Graph(SCHEMA, {"transform": Output(node)}))
    feeds = {feed.name: rows[:, list(feed.columns)] for feed in lowered.feeds}
    with np.errstate(all="ignore"):
        return evaluate(lowered.program, feeds)["transform"]


def columns_of(*columns: int) -> Array:
    return Array.of(columns, "int32")


def test_each_container_narrows_or_says_why_not() -> None:
    """A new container is a sample, or has a reason."""
    assert {type(node).__name__ for node in SAMPLES} | set(BLOCKED) == set(NODES)
    overrides = {name for name, c in NODES.items() if c.narrowed is not Node.narrowed}
    assert overrides == set(NODES) - set(BLOCKED)


NUMBERED = {f"{place} {node.name}": node for place, node in enumerate(SAMPLES)}
SELECTIONS = ((0,), (2,), (0, 2), (1, 2), (0, 1, 2), (2, 0), (1, 1, 0))


def assert_narrowed(name: str, columns: tuple[int, ...]) -> None:
    node = NUMBERED[name]
    kept = columns_of(*(c % node.type.width for c in columns))
    narrowed = node.narrowed(kept)
    selection = Select(node, kept)
    if narrowed is None:  # what a container of blocks cannot do, the selection behind it does
        assert isinstance(node, OneHot | SplineBasis)
        return
    assert narrowed.type == selection.type
    assert value(narrowed).tobytes() == value(selection).tobytes()


def test_a_narrowed_node_is_the_selection() -> None:
    assert failing(assert_narrowed, product(NUMBERED, SELECTIONS)) == {}


def test_a_node_that_is_narrowed_wrongly_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [name for name, node in NUMBERED.items() if isinstance(node, Add | Map)]
    monkeypatch.setattr(Map, "narrowed", lambda node, columns: Map(Select(X, columns), "tanh"))
    found = failing(assert_narrowed, product(names, SELECTIONS))
    assert len(found) == len(SELECTIONS)
    assert all("map, " in name for name in found)


def assert_leaves_nothing(name: str) -> None:
    answer = ConstantRows(Select(NUMBERED[name], columns_of()), Array([7.0]))
    graph = simplify(Graph(SCHEMA, {"transform": Output(answer)}), RULES)
    (narrowed,) = graph.output_roots
    assert {type(n) for n in graph.nodes()} <= {Cast, Columns, ConstantRows}
    assert value(narrowed).tolist() == [[7.0]] * len(ROWS)


def assert_reads(name: str) -> None:
    """A column stays where only columns change that it does not read."""
    node = NUMBERED[name]
    reads = node.reads()
    if reads is None or len(reads) != 1 or node.inputs[0] != X:
        return
    for changed in range(3):
        rows = ROWS.copy()
        rows[:, changed] = 0.75
        stays = reads[0] != changed
        assert value(node, rows)[:, stays].tobytes() == value(node)[:, stays].tobytes()


def test_a_column_depends_on_what_it_reads_alone() -> None:
    assert failing(assert_reads, [(name,) for name in NUMBERED]) == {}


def test_each_column_wise_container_reads_column_by_column() -> None:
    samples = [node for node in SAMPLES if isinstance(node, ColumnWise)]
    assert all(node.reads() is not None for node in samples)
    assert len(samples) > 25


def test_no_columns_of_it_are_none_of_the_input() -> None:
    """They tell how many rows there are, whatever container stands between."""
    assert failing(assert_leaves_nothing, [(name,) for name in NUMBERED]) == {}


def test_a_block_is_narrowed_while_that_leaves_out_columns() -> None:
    basis = SplineBasis(X, SPLINES, 1)
    assert basis.narrowed(columns_of(0, 4, 8)) is None
    narrowed = basis.narrowed(columns_of(9, 2))
    assert isinstance(narrowed, Select)
    assert narrowed.x.inputs[0].type.width == 2


@pytest.mark.parametrize("columns", [[1, 0], [0, 0]])
def test_one_hot_is_not_narrowed_out_of_order(columns: list[int]) -> None:
    assert OneHot(CODES, (3, 3, 3)).narrowed(columns_of(*columns)) is None


def test_one_hot_absorbs_a_selection_across_its_columns() -> None:
    columns = columns_of(1, 2, 6, 8)
    narrowed = OneHot(CODES, (3, 3, 3)).narrowed(columns)
    assert isinstance(narrowed, OneHot)
    assert narrowed.sizes == (2, 2)
    np.testing.assert_array_equal(value(narrowed), value(OneHot(CODES, (3, 3, 3)))[:, columns.data])


def test_rows_looked_up_lose_positions_alone() -> None:
    looked_up = LookupRows(PLACES, POINTS)
    assert looked_up.narrowed(columns_of(0, 3, 6)) is None
    (second,) = (n for n in (looked_up.narrowed(columns_of(3, 4, 5)),) if n is not None)
    assert second == LookupRows(Select(PLACES, columns_of(1)), POINTS)
    assert looked_up.narrowed(columns_of(8, 6)) == Select(
        LookupRows(Select(PLACES, columns_of(2)), POINTS), columns_of(2, 0)
    )
