"""What rounding may move: what cancels, or is divided by nearly nothing, and no more than that."""

import numpy as np
import pytest
from sklearn.cluster import Birch
from sklearn.decomposition import PCA, KernelPCA
from sklearn.ensemble import RandomForestRegressor
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import hbconv
from hbconv.testing.comparison import compare_answers, uncertainty
from hbconv.testing.watch import Call, call_unseen

RNG = np.random.default_rng(0)
FULL = RNG.standard_normal((40, 5))
FLAT = RNG.standard_normal((30, 4)) @ RNG.standard_normal((4, 12))
"""Rows of rank 4: their other components are rounding."""
TWICE = np.vstack([RNG.random((10, 20))] * 2)


def answered(source, rows, method="transform", target=None):
    """The source's call, and the model."""
    source.fit(rows) if target is None else source.fit(rows, target)
    return call_unseen(source, method, rows), hbconv.convert(source, backend="reference")


def moved(source, rows, entry, by):
    """The verdict where one entry of the source's answer is farther off."""
    call, model = answered(source, rows)
    found = call.answer.copy()
    found[entry] += by
    return compare_answers(call, model, found)[0]


@pytest.mark.parametrize(
    ("source", "rows"),
    [
        (PCA(whiten=True), FLAT),
        (KernelPCA(eigen_solver="dense"), FLAT[:, :4]),
        (Nystroem(gamma=100, n_components=20), TWICE),
        (Birch(), FULL),
    ],
    ids=["whitened", "centred kernel", "singular kernel", "distances"],
)
def test_the_source_alone_with_each_row_is_as_uncertain(source, rows):
    """Its own answer to one row differs from that to many by less than the bound."""
    call, model = answered(source, rows)
    alone = np.concatenate([source.transform(rows[[i]]) for i in range(len(rows))])
    assert (np.abs(alone - call.answer) <= uncertainty(call, model) + 1e-12).all()


@pytest.mark.parametrize(
    ("column", "by", "kind"), [(0, 1e-7, "wrong"), (11, 1.0, "right"), (11, 1e5, "wrong")]
)
def test_only_whitened_components_without_variance_are_uncertain(column, by, kind):
    assert moved(PCA(whiten=True), FLAT, (0, column), by) == kind


@pytest.mark.parametrize(
    ("entry", "by", "kind"),
    [((0, 0), 5e-8, "right"), ((0, 0), 1e-5, "wrong"), ((0, 1), 5e-8, "wrong")],
)
def test_only_distances_near_zero_are_uncertain(entry, by, kind):
    """Each row is a centre here, so the distances from themselves are on the diagonal."""
    source = Birch(threshold=1e-3, n_clusters=None)
    assert moved(source, FULL, entry, by) == kind


def test_what_is_well_conditioned_is_certain():
    call, model = answered(LinearRegression(), FULL, "predict", FULL[:, 0])
    assert uncertainty(call, model).max() < 1e-13


@pytest.mark.parametrize(
    "source",
    [RandomForestRegressor(2), make_pipeline(PCA(), RandomForestRegressor(2))],
    ids=["trees", "trees behind products"],
)
def test_rounding_excuses_no_decision(source):
    assert uncertainty(*answered(source, FULL, "predict", FULL[:, 0])) is None


def test_one_operation_on_each_entry_has_the_tolerance_alone():
    rows = np.array([[1.0], [1.0 + 1e-15], [1.0 - 1e-15]])
    source = StandardScaler().fit(rows)
    call = Call(source, "transform", rows, answer=source.transform(rows))
    found = call.answer + 1e-9
    assert compare_answers(call, hbconv.convert(source, backend="reference"), found)[0] == "wrong"


def test_rows_of_float32_round_as_float32():
    rows = FLAT.astype(np.float32)
    fine = uncertainty(*answered(PCA(2), FLAT)).max()
    coarse = uncertainty(*answered(PCA(2), rows)).max()
    assert 1e7 < coarse / fine < 1e10
