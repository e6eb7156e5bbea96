"""Neighbours: ties, exact hits, what is refused, and the traps of other converters."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from matrix.data import fit_rows, rows, target
from sklearn import neighbors
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import DistanceMetric

import hbconv
from hbconv.errors import InputError, UnsupportedError

NEAR = rows(60, large=100.0)


def convert(estimator, *fit, **options):
    """Fit and convert, whatever scikit-learn warns of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return hbconv.convert(estimator.fit(*fit), backend="torch", **options)


@pytest.mark.parametrize("p", [1, 1.5, 3])
def test_trap_power_of_the_metric_is_read(p):
    """``p`` is a parameter of its own, not only one of ``metric_params``."""
    estimator = neighbors.KNeighborsClassifier(p=p, weights="distance")
    model = convert(estimator, fit_rows(), target("three_text"))
    np.testing.assert_allclose(model.predict_proba(NEAR), estimator.predict_proba(NEAR), rtol=1e-12)
    plain = neighbors.KNeighborsClassifier(weights="distance").fit(fit_rows(), target("three_text"))
    assert not np.allclose(model.predict_proba(NEAR), plain.predict_proba(NEAR))


@pytest.mark.parametrize("algorithm", ["brute", "ball_tree"])
@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("euclidean", {}),
        ("manhattan", {}),
        ("chebyshev", {}),
        ("canberra", {}),
        ("minkowski", {"p": 3}),
        ("minkowski", {"p": 1.5, "w": np.arange(1.0, 9.0)}),
        ("seuclidean", {"V": np.arange(1.0, 9.0)}),
    ],
)
def test_metric_objects_are_read_as_their_names(name, params, algorithm):
    """With the parameters that they hold."""
    metric = DistanceMetric.get_metric(name, **params)
    estimator = neighbors.NearestNeighbors(metric=metric, algorithm=algorithm)
    model = convert(estimator, fit_rows())
    found, _ = model.kneighbors(NEAR)
    want, _ = estimator.kneighbors(NEAR)
    np.testing.assert_allclose(found, want, rtol=1e-12)


@pytest.mark.parametrize("n", [0, 1, 2, 59, 60])
def test_trap_any_number_of_rows(n):
    """A model answers a batch of any size, a row as in any other batch."""
    model = convert(neighbors.KNeighborsRegressor(), fit_rows(), target("value"))
    np.testing.assert_array_equal(model.predict(NEAR[:n]), model.predict(NEAR)[:n])


@pytest.mark.parametrize("backend", ["reference", "torch", "onnx", "tvm"])
def test_a_point_far_from_all_others_takes_no_digits_from_them(backend):
    """Distances are computed about a middle of the points, which one of them does not move."""
    x = np.random.default_rng(0).normal(size=(80, 40))
    x[7] = 1e12
    estimator = neighbors.KNeighborsRegressor(3, algorithm="kd_tree").fit(x, x[:, 0])
    model = hbconv.convert(estimator, backend=backend)
    np.testing.assert_allclose(
        model.predict(x[10:20] + 0.01), estimator.predict(x[10:20] + 0.01), rtol=1e-12
    )
    kernel = KernelRidge(kernel="rbf", gamma=0.05).fit(x, x[:, 0])
    np.testing.assert_allclose(
        hbconv.convert(kernel, backend=backend).predict(x[10:20]),
        kernel.predict(x[10:20]),
        rtol=1e-9,
    )


@pytest.mark.parametrize(
    "estimator",
    [
        neighbors.KNeighborsClassifier(weights="distance"),
        neighbors.RadiusNeighborsClassifier(9.0, weights="distance"),
    ],
)
def test_a_row_that_was_fitted_on_counts_alone(estimator):
    """Distance zero: those rows decide, each with weight one."""
    x = np.concatenate([fit_rows(), fit_rows()[:50]])
    y = np.concatenate([target("three"), 2 - target("three")[:50]])
    model = convert(estimator, x, y)
    np.testing.assert_array_equal(model.predict_proba(x), estimator.predict_proba(x))
    assert set(np.unique(model.predict_proba(x[:50]))) <= {0.0, 0.5, 1.0}


def test_rows_without_neighbours_are_refused_where_the_source_refuses_them():
    model = convert(neighbors.RadiusNeighborsClassifier(0.1), fit_rows(), target("three"))
    with pytest.raises(InputError, match="No neighbours found"):
        model.predict(fit_rows() + 100.0)
    assert len(model.predict(fit_rows()))


def test_negative_distances_are_refused():
    distances = np.abs(fit_rows() @ fit_rows().T)
    estimator = neighbors.KNeighborsRegressor(metric="precomputed")
    model = convert(estimator, distances, target("value"))
    np.testing.assert_allclose(
        model.predict(distances[:20]), estimator.predict(distances[:20]), rtol=1e-12
    )
    with pytest.raises(InputError, match="Negative values"):
        model.predict(-distances)


def test_sparse_distances_are_refused():
    """Of a sparse matrix, the source takes the entries alone for neighbours."""
    from scipy.sparse import csr_matrix

    distances = np.abs(fit_rows() @ fit_rows().T)
    model = convert(neighbors.KNeighborsRegressor(metric="precomputed"), distances, target("value"))
    with pytest.raises(InputError, match="sparse"):
        model.predict(csr_matrix(distances[:20]))


def test_a_tree_to_fit_on_is_refused():
    """It has a metric of its own, whatever the estimator's."""
    estimator = neighbors.NearestNeighbors().fit(neighbors.KDTree(fit_rows(), metric="manhattan"))
    with pytest.raises(UnsupportedError, match="search tree"):
        hbconv.convert(estimator, sample=NEAR)


def test_float32_distances_stay_float32():
    x = fit_rows().astype(np.float32)
    estimator = neighbors.NearestNeighbors(metric="cosine")
    model = convert(estimator, x)
    for dtype in (np.float32, np.float64):
        distances, positions = model.kneighbors(NEAR.astype(dtype))
        want = estimator.kneighbors(NEAR.astype(dtype))
        assert (distances.dtype, positions.dtype) == (want[0].dtype, want[1].dtype)


def test_sparse_rows_to_fit_on():
    from scipy.sparse import csr_matrix

    estimator = neighbors.KNeighborsRegressor(3)
    model = convert(estimator, csr_matrix(fit_rows()), target("value"))
    np.testing.assert_allclose(model.predict(NEAR), estimator.predict(NEAR), rtol=1e-12)


@pytest.mark.parametrize("algorithm", ["brute", "ball_tree"])
@pytest.mark.parametrize("p", [2, 3])
def test_the_power_of_metric_params_is_taken(p, algorithm):
    """The parameter p beside it is ignored."""
    given = {"p": p, "w": np.array([0.0, 1.0, 2.0, 0.5, 3.0, 1e-3, 1.0, 40.0])}
    estimator = neighbors.NearestNeighbors(p=1, metric_params=given, algorithm=algorithm)
    model = convert(estimator, fit_rows())
    distances, positions = estimator.kneighbors(NEAR)
    np.testing.assert_allclose(model.kneighbors(NEAR)[0], distances, rtol=1e-10)
    np.testing.assert_array_equal(model.kneighbors(NEAR)[1], positions)


@pytest.mark.filterwarnings("ignore:Outlier label 9")
@pytest.mark.parametrize("metric", ["minkowski", "cosine", "sqeuclidean"])
def test_an_outlier_label_by_brute_force(metric):
    """The source votes the same way for rows of all dtypes where its search counts no votes."""
    radius = {"cosine": 0.05, "sqeuclidean": 25.0}.get(metric, 5.0)
    estimator = neighbors.RadiusNeighborsClassifier(
        radius, metric=metric, algorithm="brute", outlier_label=9
    )
    model = convert(estimator, fit_rows(), target("three"))
    for rows_ in (NEAR, NEAR.astype(np.float32), np.asfortranarray(NEAR)):
        want = estimator.predict_proba(rows_)
        assert 0 < (want == 0).all(axis=1).sum() < len(want)
        np.testing.assert_allclose(model.predict_proba(rows_), want, rtol=1e-12)
        np.testing.assert_array_equal(model.predict(rows_), estimator.predict(rows_))


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (neighbors.KNeighborsClassifier(weights=lambda d: d), "weights"),
        (neighbors.KNeighborsRegressor(metric=lambda a, b: abs(a - b).sum()), "metric="),
        (neighbors.NearestNeighbors(metric=DistanceMetric.get_metric("braycurtis")), "metric="),
        (
            neighbors.NearestNeighbors(
                metric=DistanceMetric.get_metric("minkowski", p=3, w=np.full(8, 0.1)),
                algorithm="kd_tree",
            ),
            "algorithm='ball_tree'",
        ),
        (neighbors.NearestNeighbors(metric="correlation"), "metric='correlation'"),
        (neighbors.NearestNeighbors(metric="braycurtis"), "metric='braycurtis'"),
        (neighbors.KNeighborsTransformer(metric="hamming"), "equally far"),
        (neighbors.NearestNeighbors(n_neighbors=None, radius=None), "n_neighbors=None"),
        (neighbors.RadiusNeighborsTransformer(radius=None), "radius=None"),
        (
            neighbors.RadiusNeighborsTransformer(metric="dice", algorithm="ball_tree"),
            "algorithm='brute'",
        ),
        (
            neighbors.RadiusNeighborsTransformer(
                metric="hamming", metric_params={"w": np.ones(8)}, algorithm="brute"
            ),
            "metric_params",
        ),
        (
            neighbors.NearestNeighbors(p=0.5, metric_params={"w": np.ones(8)}, algorithm="brute"),
            "p=0.5",
        ),
        (
            neighbors.NearestNeighbors(
                metric="mahalanobis", metric_params={"VI": -np.eye(8)}, algorithm="brute"
            ),
            "positive definite",
        ),
        (
            neighbors.KNeighborsClassifier(p=1, algorithm="brute", metric_params={"p": 2}),
            "Give the same p",
        ),
        (
            neighbors.RadiusNeighborsClassifier(
                50.0, p=1, algorithm="brute", outlier_label="most_frequent"
            ),
            "outlier_label",
        ),
        (neighbors.LocalOutlierFactor(), "novelty=True"),
        (neighbors.KernelDensity(rtol=1e-4), "rtol"),
        (neighbors.KernelDensity(metric="dice", algorithm="ball_tree"), "dice"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_refused_by_name(estimator, message):
    with pytest.raises(UnsupportedError, match=message):
        convert(estimator, fit_rows(), target("three"))


def test_outliers_among_fewer_rows_than_neighbours_are_wanted():
    """All other rows are neighbours then, and the source has no ``kneighbors``."""
    estimator = neighbors.LocalOutlierFactor(n_neighbors=20, novelty=True)
    model = convert(estimator, fit_rows()[:12])
    np.testing.assert_allclose(
        model.decision_function(NEAR), estimator.decision_function(NEAR), rtol=1e-9
    )
    assert "kneighbors" not in model.methods
    with pytest.raises(ValueError, match="n_neighbors <= n_samples_fit"):
        estimator.kneighbors(NEAR)
