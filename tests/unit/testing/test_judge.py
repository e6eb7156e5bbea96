"""What counts as the same answer, and how refusals are told apart."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.manifold import Isomap, LocallyLinearEmbedding
from sklearn.neighbors import (
    KNeighborsClassifier,
    KNeighborsRegressor,
    KNeighborsTransformer,
    NearestNeighbors,
)
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import hbconv
from hbconv.testing.comparison import compared
from hbconv.testing.watch import Call


class Scored:
    """An estimator whose scores are given."""

    def __init__(self, scores):
        self.scores = np.array(scores)

    def decision_function(self, X):
        return self.scores


MODEL = hbconv.convert(SVC(kernel="linear").fit([[0.0], [1.0]], ["a", "b"]), backend="reference")


@pytest.mark.parametrize(
    ("scores", "kind"),
    [
        ([0.0, 1.0], "right"),
        ([1e-12, 1.0], "right"),
        ([1e-6, 1.0], "wrong"),
        ([1.0, 0.0], "wrong"),
        ([[0.3, 0.3 + 1e-12], [0.0, 1.0]], "right"),
        ([[0.3, 0.4], [0.0, 1.0]], "wrong"),
    ],
    ids=str,
)
def test_labels_may_differ_where_scores_tie(scores, kind):
    call = Call(Scored(scores), "predict", np.zeros((2, 1)), answer=np.array(["a", "b"]))
    assert compared(call, MODEL, np.array(["b", "b"]))[0] == kind


def test_lists_handed_back_are_arrays_of_hbconv():
    model = hbconv.convert(SVC(kernel="linear").fit([[0.0], [1.0]], [0, 1]), backend="reference")
    call = Call(Scored([0.0]), "transform", [[1], [2]], answer=[[1], [2]])
    assert compared(call, model, np.array([[1], [2]]))[0] == "right"
    assert compared(call, model, np.array([[1], [3]]))[0] == "wrong"
    other = Call(Scored([0.0]), "transform", [[1], [2]], answer=[[1], [3]])
    assert compared(other, model, np.array([[1], [3]]))[1] == "another form"


def test_a_form_is_more_than_values():
    call = Call(Scored([0.0]), "predict", np.zeros((1, 1)), answer=np.zeros(1))
    assert compared(call, MODEL, np.zeros((1, 1))) == (
        "wrong",
        "another form",
        "ndarray (1, 1) float64 instead of ndarray (1,) float64",
    )
    assert compared(call, MODEL, [0.0])[1] == "another form"


@pytest.mark.parametrize(
    ("rows", "kind"), [([[0.5]], "right"), ([[0.4]], "wrong"), ([[0.5], [0.4]], "wrong")], ids=str
)
def test_neighbours_may_differ_where_distances_tie(rows, kind):
    source = KNeighborsRegressor(1, algorithm="kd_tree").fit([[0.0], [1.0]], [5.0, 6.0])
    call = Call(source, "predict", np.array(rows), answer=source.predict(rows))
    assert compared(call, hbconv.convert(source, backend="reference"), 11 - call.answer)[0] == kind


@pytest.mark.parametrize(("rows", "kind"), [([[0.0]], "right"), ([[0.4]], "wrong")], ids=str)
def test_neighbours_may_differ_where_all_rows_are_asked_for(rows, kind):
    """There is no next one then; by brute force a row that was fitted on may be apart from
    itself.
    """
    source = NearestNeighbors(n_neighbors=2, algorithm="brute").fit([[0.0], [1.0]])
    distances, positions = source.kneighbors(rows)
    model = hbconv.convert(source, backend="reference")
    assert (
        compared(
            Call(source, "kneighbors", np.array(rows), answer=(distances, positions)),
            model,
            (distances + 2e-8, positions),
        )[0]
        == kind
    )


GRID = np.array([[i, j] for i in range(4) for j in range(4)], float)
"""Neighbours of a row between them tie."""
MIDDLE = np.array([[1.5, 1.5]])
ASIDE = np.array([[1.31, 1.62]])
LABELS = np.arange(32).reshape(16, 2) % 3


@pytest.mark.parametrize(
    ("source", "method"),
    [
        (KNeighborsClassifier(2), "predict_proba"),
        (KNeighborsTransformer(n_neighbors=3, mode="connectivity"), "transform"),
        (Isomap(n_neighbors=3), "transform"),
        (LocallyLinearEmbedding(n_neighbors=3, eigen_solver="dense"), "transform"),
    ],
    ids=["list of answers", "sparse answer", "manifold", "locally linear"],
)
def test_neighbours_tie_in_answers_of_any_form(source, method):
    """Four neighbours of the middle are as near as each other, and none of the row aside."""
    source.fit(GRID, LABELS)
    model = hbconv.convert(source, backend="reference")
    for rows, kind in [(MIDDLE, "right"), (ASIDE, "wrong")]:
        answer = getattr(source, method)(rows)
        found = [part + 0.5 for part in answer] if isinstance(answer, list) else answer * 1.5
        assert compared(Call(source, method, rows, answer=answer), model, found)[0] == kind


@pytest.mark.parametrize(("neighbors", "kind"), [(2, "wrong"), (3, "right")])
def test_a_transformer_to_distances_asks_for_one_neighbour_more(neighbors, kind):
    """The fourth and the fifth nearest of zero tie; four are given to those who ask for three."""
    points = np.array([[1.0], [2.0], [3.0], [4.0], [-4.0], [9.0]])
    source = KNeighborsTransformer(n_neighbors=neighbors, algorithm="kd_tree").fit(points)
    rows = np.zeros((1, 1))
    answer = source.transform(rows)
    model = hbconv.convert(source, backend="reference")
    call = Call(source, "transform", rows, answer=answer)
    assert compared(call, model, answer * 1.5)[0] == kind


@pytest.mark.parametrize(
    ("distances", "kind"), [([[0.0, 1.0, 2.0]], "wrong"), ([[0.0, 1.0, 1.0]], "right")], ids=str
)
def test_distances_that_are_given_are_not_rounded(distances, kind):
    source = KNeighborsClassifier(2, metric="precomputed")
    source.fit(np.abs(np.subtract.outer(range(3), range(3))).astype(float), ["a", "b", "c"])
    answer = source.predict_proba(distances)
    call = Call(source, "predict_proba", np.array(distances), answer=answer)
    model = hbconv.convert(source, backend="reference")
    assert compared(call, model, answer[:, [0, 2, 1]])[0] == kind


def test_the_distance_of_a_row_from_itself_has_the_bound_of_wide_rows():
    rows = np.random.default_rng(0).random((30, 100))
    source = NearestNeighbors(n_neighbors=2, algorithm="brute").fit(rows)
    distances, positions = source.kneighbors(rows)
    model = hbconv.convert(source, backend="reference")
    call = Call(source, "kneighbors", rows, answer=(distances + np.array([2e-7, 0]), positions))
    assert compared(call, model, (distances, positions))[0] == "right"


def test_the_dtype_of_no_entries_does_not_count():
    call = Call(Scored([]), "transform", np.zeros((0, 1), np.int64), answer=np.zeros(0))
    assert compared(call, MODEL, np.zeros(0, np.int64))[0] == "right"
    assert compared(call, MODEL, np.zeros((0, 2)))[0] == "wrong"


@pytest.mark.parametrize(
    ("source", "kind"),
    [(LinearRegression(), "right"), (StandardScaler(), "wrong")],
    ids=["sums", "one operation"],
)
def test_sums_of_products_round_with_their_largest_input(source, kind):
    rows = np.array([[1e6, 0.0], [0.0, 1.0]])
    source.fit(rows, [0.0, 1.0])
    method = "predict" if kind == "right" else "transform"
    call = Call(source, method, rows, answer=getattr(source, method)(rows))
    assert (
        compared(call, hbconv.convert(source, backend="reference"), call.answer + 1e-7)[0] == kind
    )


def test_dtypes_count_for_the_rows_they_are_promised_for():
    call = Call(
        Scored([0.0]), "transform", np.zeros((1, 1), np.int32), answer=np.zeros((1, 1), np.int32)
    )
    assert compared(call, MODEL, np.zeros((1, 1), np.int64))[0] == "right"
    assert compared(call, MODEL, np.ones((1, 1), np.int64))[0] == "wrong"


@pytest.mark.parametrize("shape", ["ovo", "ovr"])
def test_votes_of_support_vectors_may_differ_where_a_pair_ties(shape):
    rows = np.array([[0.0], [2.0], [4.0]])
    source = SVC(kernel="linear", decision_function_shape=shape).fit(rows, ["a", "b", "c"])
    tie, clear = np.array([[1.0]]), np.array([[1.2]])
    assert (
        compared(Call(source, "predict", tie, answer=np.array(["a"])), MODEL, np.array(["b"]))[0]
        == "right"
    )
    assert (
        compared(Call(source, "predict", clear, answer=np.array(["b"])), MODEL, np.array(["a"]))[0]
        == "wrong"
    )
