"""Graphs of neighbours before an estimator of precomputed distances: rows they hold no entry
for are no neighbours.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from fitted import available_backends
from sklearn import manifold, neighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from sources import dense

import hbconv
from hbconv.errors import InputError, UnsupportedError

RNG = np.random.default_rng(0)
FITTED = RNG.normal(size=(90, 3)).clip(-2, 2)
CLASSES = np.digitize(FITTED[:, 0], [-0.5, 0.5])
NEAR = np.concatenate([RNG.uniform(-1, 1, (20, 3)), FITTED[np.abs(FITTED).max(axis=1) < 1]])
"""The last rows were fitted on: they have an entry of distance zero."""

GRAPHS = {
    "nearest": neighbors.KNeighborsTransformer(n_neighbors=10),
    "nearest, connectivity": neighbors.KNeighborsTransformer(n_neighbors=10, mode="connectivity"),
    "radius": neighbors.RadiusNeighborsTransformer(radius=3.0),
}
READERS = {
    "regressor": neighbors.KNeighborsRegressor(metric="precomputed"),
    "by distance": neighbors.KNeighborsRegressor(4, metric="precomputed", weights="distance"),
    "classifier": neighbors.KNeighborsClassifier(4, metric="precomputed"),
    "radius": neighbors.RadiusNeighborsRegressor(1.2, metric="precomputed"),
    "no radius": neighbors.RadiusNeighborsRegressor(np.inf, metric="precomputed"),
    "outliers": neighbors.LocalOutlierFactor(6, metric="precomputed", novelty=True),
    "isomap": manifold.Isomap(n_neighbors=7, metric="precomputed"),
    "graph": neighbors.KNeighborsTransformer(n_neighbors=3, metric="precomputed"),
}


def fit(graph, reader):
    """Fit a pipeline, whatever scikit-learn warns of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = CLASSES if isinstance(reader, neighbors.KNeighborsClassifier) else FITTED[:, 0]
        return make_pipeline(graph, reader).fit(FITTED, y)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("graph", GRAPHS)
def test_absent_entries_are_no_distances(graph, reader):
    """The source takes the first entries, or those within the radius; it does not read an
    absent one as zero.
    """
    source = fit(GRAPHS[graph], READERS[reader])
    model = hbconv.convert(source, "reference")
    for method in model.methods:
        got = dense(getattr(model, method)(NEAR))
        want = dense(getattr(source, method)(NEAR))
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("backend", available_backends())
def test_every_backend_reads_a_graph(backend):
    for graph, reader in (
        ("nearest", "by distance"),
        ("radius", "classifier"),
        ("nearest", "radius"),
    ):
        source = fit(GRAPHS[graph], READERS[reader])
        got = hbconv.convert(source, backend).predict(NEAR)
        np.testing.assert_allclose(got, source.predict(NEAR), rtol=1e-9)


def test_too_few_neighbours_are_refused():
    """Of each row, when converting; of some rows, when they come."""
    source = fit(neighbors.KNeighborsTransformer(n_neighbors=3), READERS["by distance"])
    source.set_params(kneighborsregressor__n_neighbors=5)
    with pytest.raises(UnsupportedError, match="holds 4 neighbours"):
        hbconv.convert(source)
    source = fit(GRAPHS["radius"], READERS["regressor"])
    model = hbconv.convert(source, "reference")
    far = np.concatenate([NEAR, NEAR[:1] + 4.0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ValueError, match="neighbors per samples"):
            source.predict(far)
    with pytest.raises(InputError, match="holds fewer"):
        model.predict(far)


@pytest.mark.parametrize(
    ("before", "message"),
    [
        ((neighbors.KNeighborsTransformer(n_neighbors=9), MaxAbsScaler()), "straight from"),
        ((neighbors.RadiusNeighborsTransformer(radius=3.0, mode="connectivity"),), "equally far"),
    ],
    ids=["another step", "connectivity"],
)
def test_other_graphs_are_refused_by_name(before, message):
    reader = neighbors.KNeighborsRegressor(3, metric="precomputed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        source = make_pipeline(*before, reader).fit(FITTED, FITTED[:, 0])
    with pytest.raises(UnsupportedError, match=message):
        hbconv.convert(source)
