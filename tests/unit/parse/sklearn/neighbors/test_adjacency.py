"""Graphs and lists of neighbours, in the order in which the source finds them."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn import neighbors

import hbconv
from hbconv.array import Array
from hbconv.containers import AdjacencyLists, Type
from hbconv.errors import UnsupportedError

LATTICE = np.round(np.random.default_rng(0).normal(size=(90, 3)) * 2) / 2
"""Rows of which many are equal, or lie exactly on the radius."""
SPREAD = np.random.default_rng(1).normal(size=(90, 3))
APART = np.concatenate([SPREAD[:40] + 0.1, SPREAD[:3], [[30.0, 0.0, 0.0]]])
TARGETS = np.arange(90) % 3
DTYPES = [np.float32, np.float64]


def same_lists(got, want):
    """Two tuples of arrays of arrays: positions in one order, distances within rounding."""
    assert [part.dtype for part in got] == [part.dtype for part in want] == [object, object]
    for ours, theirs in zip(got[1], want[1], strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)
    for ours, theirs in zip(got[0], want[0], strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-7)


def same_graphs(got, want):
    assert (type(got), got.dtype, got.shape) == (type(want), want.dtype, want.shape)
    assert (got != want).nnz == 0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("radius", [0.0, 1.5, np.inf])
@pytest.mark.parametrize("metric", ["euclidean", "manhattan", "chebyshev"])
@pytest.mark.parametrize("algorithm", ["brute", "kd_tree"])
def test_rows_on_the_radius(algorithm, metric, radius, dtype):
    """The search tree has many leaves, so its order is not that of the rows.

    A ball tree leaves out some rows on the radius, as it rounds the bounds of its balls.
    """
    source = neighbors.NearestNeighbors(
        radius=radius, metric=metric, algorithm=algorithm, leaf_size=4
    ).fit(LATTICE)
    model = hbconv.convert(source, "reference")
    rows = np.concatenate([LATTICE[:40], APART[-1:]]).astype(dtype)
    same_lists(model.radius_neighbors(rows), source.radius_neighbors(rows))
    same_graphs(model.radius_neighbors_graph(rows), source.radius_neighbors_graph(rows))


ESTIMATORS = [
    neighbors.NearestNeighbors(n_neighbors=3, radius=1.5, algorithm="kd_tree", leaf_size=4),
    neighbors.NearestNeighbors(radius=1.5, algorithm="ball_tree", leaf_size=4),
    neighbors.NearestNeighbors(radius=0.3, metric="cosine"),
    neighbors.NearestNeighbors(radius=1.5, metric="precomputed"),
    neighbors.NearestNeighbors(radius=2.0, p=3, metric_params={"w": np.arange(1.0, 4.0)}),
    neighbors.KNeighborsClassifier(),
    neighbors.KNeighborsRegressor(2, p=1),
    neighbors.KNeighborsTransformer(n_neighbors=4),
    neighbors.RadiusNeighborsClassifier(1.5, outlier_label=7),
    neighbors.RadiusNeighborsRegressor(1.5, algorithm="ball_tree", leaf_size=3),
    neighbors.RadiusNeighborsTransformer(radius=1.5),
    neighbors.LocalOutlierFactor(novelty=True),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_every_estimator_with_neighbours(estimator, dtype):
    fitted_on = SPREAD
    rows = APART.astype(dtype)
    if estimator.metric == "precomputed":
        fitted_on = np.linalg.norm(SPREAD[:, None] - SPREAD, axis=2)
        rows = np.linalg.norm(APART[:, None] - SPREAD, axis=2).astype(dtype)
    source = estimator.fit(fitted_on, TARGETS)
    model = hbconv.convert(source, "reference")
    for method in ("kneighbors_graph", "radius_neighbors_graph"):
        assert (method in model.methods) == hasattr(source, method)
        if hasattr(source, method):
            same_graphs(getattr(model, method)(rows), getattr(source, method)(rows))
    assert ("radius_neighbors" in model.methods) == hasattr(source, "radius_neighbors")
    if hasattr(source, "radius_neighbors"):
        same_lists(model.radius_neighbors(rows), source.radius_neighbors(rows))


@pytest.mark.parametrize("backend", ["torch", "onnx", "tvm"])
def test_other_backends(backend):
    source = neighbors.NearestNeighbors(radius=1.5, leaf_size=4).fit(SPREAD)
    model = hbconv.convert(source, backend)
    same_lists(model.radius_neighbors(APART), source.radius_neighbors(APART))
    same_graphs(model.kneighbors_graph(APART), source.kneighbors_graph(APART))


def test_any_number_of_rows_and_batches():
    source = neighbors.NearestNeighbors(radius=1.5).fit(SPREAD)
    model = hbconv.convert(source, "reference")
    assert [part.shape for part in model.radius_neighbors(APART[:0])] == [(0,), (0,)]
    for rows in (APART[:1], APART[-1:], APART[:7]):
        same_lists(model.radius_neighbors(rows), source.radius_neighbors(rows))
    small = hbconv.convert(source, "torch", memory=20_000)
    same_lists(small.radius_neighbors(APART), source.radius_neighbors(APART))


def test_a_stored_model_lists_the_same():
    source = neighbors.NearestNeighbors(radius=1.5, leaf_size=4).fit(SPREAD)
    model = pickle.loads(pickle.dumps(hbconv.convert(source, "reference")))
    same_lists(model.radius_neighbors(APART), source.radius_neighbors(APART))


@pytest.mark.parametrize("order", [[0, 1], [0, 0, 2], [0, 1, 3], [0.0, 1.0, 2.0], [[0, 1, 2]]])
def test_a_form_lists_each_column_once(order):
    """A file may hold any order."""
    three = Type(3, "float64")
    assert AdjacencyLists(Array([2, 0, 1])).misfit(three) is None
    assert "lists other columns" in AdjacencyLists(Array(order)).misfit(three)


def test_verify_compares_lists():
    source = neighbors.NearestNeighbors(radius=1.5).fit(SPREAD)
    other = neighbors.NearestNeighbors(radius=1.2).fit(SPREAD)
    model = hbconv.convert(source, "reference")
    assert hbconv.verify(source, model, APART).ok
    assert not hbconv.verify(other, model, APART).ok


def test_what_refuses_one_search_leaves_the_other():
    bits = (SPREAD > 0).astype(float)
    source = neighbors.NearestNeighbors(radius=0.5, metric="hamming").fit(bits)
    model = hbconv.convert(source, "reference")
    same_lists(model.radius_neighbors(bits), source.radius_neighbors(bits))
    with pytest.raises(AttributeError, match="equally far"):
        model.kneighbors(bits)
    nearest = hbconv.convert(neighbors.NearestNeighbors(radius=None).fit(SPREAD), "reference")
    assert nearest.methods == ("kneighbors", "kneighbors_graph")
    with pytest.raises(AttributeError, match="radius=None"):
        nearest.radius_neighbors(SPREAD)
    with pytest.raises(UnsupportedError, match="n_neighbors=None"):
        hbconv.convert(neighbors.NearestNeighbors(n_neighbors=None, radius=None).fit(SPREAD))


def test_a_radius_beyond_the_sphere_is_refused():
    """The source answers rows of float32 and float64 differently."""
    source = neighbors.RadiusNeighborsTransformer(radius=4.0, metric="haversine")
    with pytest.raises(UnsupportedError, match=r"Use radius=math\.pi"):
        hbconv.convert(source.fit(SPREAD[:, :2]))


def test_files_hold_graphs_on_demand(tmp_path):
    """A graph written out has a column for each fitted row."""
    import onnxruntime

    source = neighbors.KNeighborsClassifier().fit(SPREAD, TARGETS)
    model = hbconv.convert(source, "reference")
    assert model.parsed.exported == ("predict", "predict_proba")
    path = tmp_path / "graph.onnx"
    model.export(path, methods=["kneighbors_graph"])
    session = onnxruntime.InferenceSession(path)
    (name,) = [one.name for one in session.get_inputs()]
    (graph,) = session.run(None, {name: APART})
    np.testing.assert_array_equal(graph, source.kneighbors_graph(APART).toarray())
