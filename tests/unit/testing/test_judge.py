"""What counts as the same answer, and how refusals are told apart."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import (
    KNeighborsRegressor,
    NearestNeighbors,
)
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import hbconv
from hbconv.testing.comparison import compare_answers
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
    assert compare_answers(call, MODEL, np.array(["b", "b"]))[0] == kind


@pytest.mark.parametrize(
    ("want", "got", "kind"),
    [
        (np.array([["a", np.nan]], object), np.array([["a", float("nan")]], object), "right"),
        (np.array([["a", np.nan]], object), np.array([["a", None]], object), "wrong"),
        (np.array([[pd.NA, None]], object), np.array([[pd.NA, None]], object), "right"),
        (np.array([[pd.NA, None]], object), np.array([[np.nan, None]], object), "wrong"),
        (np.array([["a", 1]], object), np.array([["a", np.int64(1)]], object), "right"),
        ([(1, 2), (), ("a",)], [(1, 2), (), ("a",)], "right"),
        ([(1, 2), (3, 4)], [(1, 2), (3, 5)], "wrong"),
    ],
    ids=str,
)
def test_objects_and_tuples_of_labels_are_compared_one_by_one(want, got, kind):
    """What ``inverse_transform`` gives of encoders, and of a MultiLabelBinarizer."""
    call = Call(Scored([0.0]), "inverse_transform", np.zeros((len(want), 1)), answer=want)
    assert compare_answers(call, MODEL, got)[0] == kind


def test_lists_handed_back_are_arrays_of_hbconv():
    model = hbconv.convert(SVC(kernel="linear").fit([[0.0], [1.0]], [0, 1]), backend="reference")
    call = Call(Scored([0.0]), "transform", [[1], [2]], answer=[[1], [2]])
    assert compare_answers(call, model, np.array([[1], [2]]))[0] == "right"
    assert compare_answers(call, model, np.array([[1], [3]]))[0] == "wrong"
    other = Call(Scored([0.0]), "transform", [[1], [2]], answer=[[1], [3]])
    assert compare_answers(other, model, np.array([[1], [3]]))[1] == "another form"


def test_a_form_is_more_than_values():
    call = Call(Scored([0.0]), "predict", np.zeros((1, 1)), answer=np.zeros(1))
    assert compare_answers(call, MODEL, np.zeros((1, 1))) == (
        "wrong",
        "another form",
        "ndarray (1, 1) float64 instead of ndarray (1,) float64",
    )
    assert compare_answers(call, MODEL, [0.0])[1] == "another form"


@pytest.mark.parametrize(
    ("rows", "params", "kind"),
    [
        ([[0.5]], None, "wrong"),
        ([[0.5]], {"w": [1.0]}, "right"),
        ([[0.4]], {"w": [1.0]}, "wrong"),
        ([[0.5], [0.4]], {"w": [1.0]}, "wrong"),
    ],
    ids=str,
)
def test_neighbours_may_differ_where_weighted_distances_tie(rows, params, kind):
    source = KNeighborsRegressor(1, algorithm="ball_tree", metric_params=params)
    source.fit([[0.0], [1.0]], [5.0, 6.0])
    call = Call(source, "predict", np.array(rows), answer=source.predict(rows))
    assert (
        compare_answers(call, hbconv.convert(source, backend="reference"), 11 - call.answer)[0]
        == kind
    )


@pytest.mark.parametrize(("rows", "kind"), [([[0.0]], "right"), ([[0.4]], "wrong")], ids=str)
def test_neighbours_may_differ_where_all_rows_are_asked_for(rows, kind):
    """There is no next one then; by brute force a row that was fitted on may be apart from
    itself.
    """
    source = NearestNeighbors(n_neighbors=2, algorithm="brute").fit([[0.0], [1.0]])
    distances, positions = source.kneighbors(rows)
    model = hbconv.convert(source, backend="reference")
    assert (
        compare_answers(
            Call(source, "kneighbors", np.array(rows), answer=(distances, positions)),
            model,
            (distances + 2e-8, positions),
        )[0]
        == kind
    )


def test_the_distance_of_a_row_from_itself_has_the_bound_of_wide_rows():
    rows = np.random.default_rng(0).random((30, 100))
    source = NearestNeighbors(n_neighbors=2, algorithm="brute").fit(rows)
    distances, positions = source.kneighbors(rows)
    model = hbconv.convert(source, backend="reference")
    call = Call(source, "kneighbors", rows, answer=(distances + np.array([2e-7, 0]), positions))
    assert compare_answers(call, model, (distances, positions))[0] == "right"


def test_the_dtype_of_no_entries_does_not_count():
    call = Call(Scored([]), "transform", np.zeros((0, 1), np.int64), answer=np.zeros(0))
    assert compare_answers(call, MODEL, np.zeros(0, np.int64))[0] == "right"
    assert compare_answers(call, MODEL, np.zeros((0, 2)))[0] == "wrong"


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
        compare_answers(call, hbconv.convert(source, backend="reference"), call.answer + 1e-7)[0]
        == kind
    )


def test_dtypes_count_for_the_rows_they_are_promised_for():
    call = Call(
        Scored([0.0]), "transform", np.zeros((1, 1), np.int32), answer=np.zeros((1, 1), np.int32)
    )
    assert compare_answers(call, MODEL, np.zeros((1, 1), np.int64))[0] == "right"
    assert compare_answers(call, MODEL, np.ones((1, 1), np.int64))[0] == "wrong"


@pytest.mark.parametrize("shape", ["ovo", "ovr"])
def test_votes_of_support_vectors_may_differ_where_a_pair_ties(shape):
    rows = np.array([[0.0], [2.0], [4.0]])
    source = SVC(kernel="linear", decision_function_shape=shape).fit(rows, ["a", "b", "c"])
    tie, clear = np.array([[1.0]]), np.array([[1.2]])
    assert (
        compare_answers(
            Call(source, "predict", tie, answer=np.array(["a"])), MODEL, np.array(["b"])
        )[0]
        == "right"
    )
    assert (
        compare_answers(
            Call(source, "predict", clear, answer=np.array(["b"])), MODEL, np.array(["a"])
        )[0]
        == "wrong"
    )
