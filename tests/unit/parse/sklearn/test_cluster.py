"""Clusters, manifolds and imputing by neighbours: trees of clusters, exact hits, and what is
refused.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from matrix.data import fit_rows, rows, with_missing
from scipy.sparse import csr_matrix
from sklearn import cluster, impute, manifold, neighbors

import hbconv
from hbconv.errors import UnsupportedError

NEAR = rows(60, large=100.0)


def convert(estimator, x):
    """Fit and convert, whatever scikit-learn warns of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return hbconv.convert(estimator.fit(x), backend="torch")


def test_many_bisections():
    """The program does not grow with the tree of clusters."""
    programs = [convert(cluster.BisectingKMeans(n, random_state=0), fit_rows()) for n in (2, 60)]
    sizes = [len(model.graph.nodes()) for model in programs]
    assert sizes[0] == sizes[1]
    estimator = cluster.BisectingKMeans(60, random_state=0).fit(fit_rows())
    np.testing.assert_array_equal(programs[1].predict(NEAR), estimator.predict(NEAR))


def test_float32_rows_for_centres_of_float64():
    """The source's ``predict`` takes no such rows: here they are compared in float64, as its
    ``transform`` does.
    """
    estimator = cluster.KMeans(4, n_init=1, random_state=0)
    model = convert(estimator, fit_rows())
    np.testing.assert_array_equal(
        model.predict(NEAR.astype(np.float32)),
        estimator.predict(NEAR.astype(np.float32).astype(np.float64)),
    )


def test_exact_hits_of_centres():
    """A centre is at distance nothing from itself."""
    estimator = cluster.KMeans(4, n_init=1, random_state=0)
    model = convert(estimator, fit_rows())
    distances = model.transform(estimator.cluster_centers_)
    assert np.all(np.diag(distances) == 0)
    np.testing.assert_array_equal(model.predict(estimator.cluster_centers_), np.arange(4))


SEARCHES = {
    "affinity propagation": cluster.AffinityPropagation(random_state=0),
    "birch": cluster.Birch(n_clusters=3, threshold=0.3),
    "centroids": neighbors.NearestCentroid(),
    "mean shift": cluster.MeanShift(bandwidth=0.9),
    "shrunken centroids": neighbors.NearestCentroid(shrink_threshold=0.2),
}


def _far_rows():
    """Rows far from all of 80 fitted ones, rows far away in some columns, and those."""
    rng = np.random.default_rng(1)
    fitted = rng.normal(size=(80, 4))
    far = rng.normal(size=(300, 4)) * 10.0 ** rng.integers(0, 17, (300, 4))
    return fitted, np.concatenate([far, np.where(far > 1, far, 1.0), fitted])


@pytest.mark.parametrize(
    ("fitted_as", "given_as"), [("float64", "float64"), ("float64", "float32"),
                                ("float32", "float64"), ("float32", "float32")],
)  # fmt: skip
@pytest.mark.parametrize(
    ("name", "backend"),
    list(zip(SEARCHES, ("tvm", "onnx", "torch", "reference", "torchscript"), strict=True)),
)
def test_far_from_all_centres_rounding_decides_as_in_the_source(name, backend, fitted_as, given_as):
    """The source's squared distances are equal there, or differ by the rounding of its products."""
    fitted, given = _far_rows()
    estimator = SEARCHES[name].fit(fitted.astype(fitted_as), np.arange(80) % 5)
    model = hbconv.convert(estimator, backend)
    given = given.astype(given_as)
    np.testing.assert_array_equal(model.predict(given), estimator.predict(given))


@pytest.mark.parametrize("name", sorted(SEARCHES.keys() - {"mean shift"}))
def test_sparse_rows_far_from_all_centres(name):
    fitted, given = _far_rows()
    estimator = SEARCHES[name].fit(fitted, np.arange(80) % 5)
    sparse = csr_matrix(np.where(given < 0, 0.0, given))
    np.testing.assert_array_equal(
        hbconv.convert(estimator).predict(sparse), estimator.predict(sparse)
    )


def test_complete_rows_stay():
    """Nothing is imputed where nothing is missing, to the last bit."""
    model = convert(impute.KNNImputer(), with_missing(fit_rows()))
    np.testing.assert_array_equal(model.transform(NEAR), NEAR)


def test_rows_of_nothing_get_the_means():
    estimator = impute.KNNImputer(weights="distance")
    model = convert(estimator, with_missing(fit_rows()))
    nothing = np.full((2, 8), np.nan)
    np.testing.assert_allclose(
        model.transform(nothing),
        np.repeat(np.nanmean(with_missing(fit_rows()), axis=0)[None], 2, axis=0),
        rtol=1e-12,
    )


@pytest.mark.parametrize("backend", ["torch", "tvm"])
def test_a_donor_at_no_distance_weighs_what_the_source_leaves_of_it(backend):
    """Products leave 1e-8 of a distance of 0, whose inverse is not infinite then."""
    x = fit_rows() / 3.0
    estimator = impute.KNNImputer(weights="distance").fit(x)
    model = hbconv.convert(estimator, backend=backend)
    gaps = x[:20].copy()
    gaps[:, 5] = np.nan
    want = estimator.transform(gaps)
    np.testing.assert_allclose(model.transform(gaps), want, rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(want, x[:20], atol=1e-4)


def test_an_indicator_alone_has_the_dtype_of_the_rows():
    """No column has a value."""
    x = np.full((6, 2), np.nan)
    x[0] = 1.0
    estimator = impute.KNNImputer(add_indicator=True).fit(x[1:])
    model = hbconv.convert(estimator, backend="torch")
    want = estimator.transform(x)
    assert model.transform(x).dtype == want.dtype
    np.testing.assert_array_equal(model.transform(x), want)


@pytest.mark.parametrize("weights", ["uniform", "distance"])
def test_columns_of_few_donors_and_of_none(weights):
    """Two columns have fewer donors than are wanted, one of them none, and rows share little."""
    x = with_missing(np.random.default_rng(0).normal(size=(80, 5)), share=0.5)
    x[3:, 1] = np.nan
    x[:, 3] = np.nan
    settings = {"n_neighbors": 7, "weights": weights}
    rows = with_missing(np.random.default_rng(1).normal(size=(60, 5)), share=0.5)
    for keep in (False, True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            estimator = impute.KNNImputer(keep_empty_features=keep, **settings).fit(x)
            want = estimator.transform(rows)
        got = hbconv.convert(estimator, backend="torch").transform(rows)
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (cluster.FeatureAgglomeration(pooling_func=np.std), "pooling_func"),
        (
            cluster.FeatureAgglomeration(pooling_func=lambda x, axis: x.max(axis=axis)),
            "pooling_func",
        ),
        (impute.KNNImputer(weights=lambda d: 1 / (1 + d)), "weights"),
        (impute.KNNImputer(missing_values=np.float64(0.0)), "missing_values"),
        (manifold.Isomap(n_neighbors=None, radius=100.0), "radius"),
        (manifold.Isomap(metric="hamming"), "metric"),
        (manifold.LocallyLinearEmbedding(n_neighbors=51), "n_neighbors=51"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_refused_by_name(estimator, message):
    with pytest.raises(UnsupportedError, match=message):
        convert(estimator, fit_rows())


def test_affinities_computed_before_are_refused():
    similarity = -((fit_rows()[:, None] - fit_rows()[None]) ** 2).sum(axis=2)
    with pytest.raises(UnsupportedError, match="affinity='precomputed'"):
        convert(cluster.AffinityPropagation(affinity="precomputed", random_state=0), similarity)
