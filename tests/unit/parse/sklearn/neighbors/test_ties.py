"""Rows equally near: the choice is that of the source's search, on every backend.

Columns of small ints hold many such rows: most queries meet a tie at the last neighbour.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn import neighbors
from sklearn.ensemble import StackingClassifier
from sklearn.impute import KNNImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import hbconv
from hbconv.runtime.tied_rows import WORTH_COMPILING

BACKENDS = ["reference", "torch", "onnx", "tvm"]
ALGORITHMS = ["brute", "kd_tree", "ball_tree"]
TOLERANCE = 2e-8
"""Distances of float32 are rounded to it by the source; another choice is far beyond."""
METRICS = {
    "brute": ["manhattan", "l2", "chebyshev", "minkowski", "canberra", "cosine", "haversine",
              "seuclidean", "sqeuclidean", "weighted", "weighted 3"],
    "kd_tree": ["manhattan", "chebyshev", "minkowski"],
    "ball_tree": ["manhattan", "chebyshev", "minkowski", "canberra", "haversine", "seuclidean",
                  "weighted 3"],
}  # fmt: skip
"""Metrics beside the Euclidean one."""
SCALES = np.array([1.1, 2.0, 0.5, 0.3])
PARAMETERS = {
    "minkowski": {"p": 3},
    "seuclidean": {"metric_params": {"V": SCALES}},
    "weighted": {"metric": "minkowski", "metric_params": {"w": SCALES}},
    "weighted 3": {"metric": "minkowski", "p": 3, "metric_params": {"w": SCALES}},
}


def grid(rows: int, seed: int = 0, columns: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 5, (rows, columns)).astype(float)


def labels(rows: int) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 3, rows)


def with_missing(x: np.ndarray, share: float = 0.2) -> np.ndarray:
    return np.where(np.random.default_rng(2).random(x.shape) < share, np.nan, x)


def require_same(estimator, model, x, *methods):
    for method in methods:
        want, got = getattr(estimator, method)(x), getattr(model, method)(x)
        parts = [answer if isinstance(answer, tuple) else (answer,) for answer in (want, got)]
        for theirs, ours in zip(*parts, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=TOLERANCE, atol=TOLERANCE, err_msg=method)


@pytest.mark.parametrize("count", [1, 4, 17, 60])
@pytest.mark.parametrize("size", [60, 600])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_neighbours_are_the_sources_own_in_its_order(algorithm, size, count):
    """For few neighbours or many, whose sort has other steps; for one chunk of rows or several."""
    estimator = neighbors.NearestNeighbors(n_neighbors=count, algorithm=algorithm).fit(grid(size))
    model = hbconv.convert(estimator, backend="reference")
    require_same(estimator, model, grid(40, seed=3), "kneighbors")


@pytest.mark.parametrize("dtypes", ["float64", "float32", "float32 float64", "int64 float32"])
@pytest.mark.parametrize(
    ("algorithm", "metric"), [(search, metric) for search in METRICS for metric in METRICS[search]]
)
def test_every_metric(algorithm, metric, dtypes):
    """Bounds of search trees are distances too, in the unit of the metric.

    Thirds make distances that are equal but for their rounding, which differs by dtype.
    """
    if metric == "seuclidean" and " " in dtypes:
        pytest.skip("SciPy sums it in an order of its compiler")
    fitted, given = dtypes.split()[0], dtypes.split()[-1]
    columns = 2 if metric == "haversine" else 4
    x, rows = grid(200, columns=columns) / 3.0 + 1.0, grid(40, seed=3, columns=columns) / 3.0 + 1.0
    x = 3.0 * x if fitted == "int64" else x
    params = {"metric": metric, **PARAMETERS.get(metric, {})}
    estimator = neighbors.NearestNeighbors(n_neighbors=6, algorithm=algorithm, **params)
    model = hbconv.convert(estimator.fit(x.astype(fitted)), backend="reference")
    theirs, ours = (e.kneighbors(rows.astype(given))[1] for e in (estimator, model))
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "estimator",
    [
        neighbors.KNeighborsClassifier(4, algorithm="brute"),
        neighbors.KNeighborsRegressor(5, weights="distance", algorithm="kd_tree"),
        neighbors.LocalOutlierFactor(7, novelty=True, algorithm="ball_tree"),
        neighbors.KNeighborsTransformer(n_neighbors=3),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_answers_on_every_backend(estimator, backend):
    """For several rows, for one and for none."""
    model = hbconv.convert(estimator.fit(grid(300), labels(300)), backend=backend)
    for method in {"predict", "predict_proba", "score_samples"} & set(model.methods):
        require_same(estimator, model, grid(50, seed=3), method)
        require_same(estimator, model, grid(1, seed=4), method)
        assert len(getattr(model, method)(grid(0))) == 0
    if hasattr(estimator, "transform"):
        want, got = (e.transform(grid(50, seed=3)).toarray() for e in (estimator, model))
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("backend", BACKENDS)
def test_imputed_values(backend):
    """Donors are chosen column by column, and what follows reads the values of the choice."""
    x = with_missing(np.c_[grid(300, columns=4), np.arange(300.0) % 7])
    imputer = KNNImputer(n_neighbors=4).fit(x)
    trained = make_pipeline(imputer, DecisionTreeRegressor(random_state=0)).fit(x, labels(300))
    rows = with_missing(np.c_[grid(80, seed=3, columns=4), np.arange(80.0) % 7], share=0.4)
    require_same(imputer, hbconv.convert(imputer, backend=backend), rows, "transform")
    require_same(trained, hbconv.convert(trained, backend=backend), rows, "predict")


@pytest.mark.parametrize("weights", ["uniform", "distance"])
@pytest.mark.parametrize("count", [1, 40, 300])
def test_imputed_of_any_number_of_donors(count, weights):
    x = with_missing(grid(300))
    imputer = KNNImputer(n_neighbors=count, weights=weights).fit(x)
    model = hbconv.convert(imputer, backend="reference")
    require_same(imputer, model, with_missing(grid(80, seed=3), share=0.4), "transform")


@pytest.mark.parametrize("columns", [3, 8])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("scale", [StandardScaler(), FunctionTransformer(np.sqrt)])
def test_the_rounding_of_the_source_decides_near_ties(scale, algorithm, columns):
    """By brute force, products of matrices make equal distances unequal."""
    estimator = neighbors.KNeighborsClassifier(5, algorithm=algorithm)
    pipeline = make_pipeline(scale, estimator).fit(grid(600, columns=columns), labels(600))
    model = hbconv.convert(pipeline, backend="reference")
    require_same(pipeline, model, grid(120, seed=3, columns=columns), "predict_proba")


@pytest.mark.parametrize("scale", [StandardScaler(), FunctionTransformer(np.sqrt)])
def test_the_rounding_of_the_source_decides_among_donors(scale):
    pipeline = make_pipeline(scale, KNNImputer()).fit(with_missing(grid(600)))
    model = hbconv.convert(pipeline, backend="torch")
    require_same(pipeline, model, with_missing(grid(120, seed=3)), "transform")


@pytest.mark.parametrize("given", ["float64", "float32"])
@pytest.mark.parametrize("fitted", ["float64", "float32"])
def test_donors_of_float32_are_compared_in_it(fitted, given):
    """A far column leaves few digits to the distances, which become equal in float32."""
    x = with_missing(grid(200) / 3.0 + np.array([0.0, 0.0, 3e5])).astype(fitted)
    rows = with_missing(grid(60, seed=3) / 3.0 + np.array([0.0, 0.0, 3e5])).astype(given)
    imputer = KNNImputer(n_neighbors=2).fit(x)
    require_same(imputer, hbconv.convert(imputer, backend="torch"), rows, "transform")


def test_a_stack_over_predicted_labels():
    """Labels of several columns are ints, and the final estimator finds neighbours among them."""
    x = np.random.default_rng(0).normal(size=(150, 4))
    y = (x[:, :3] + 0.5 * x[:, 1:] > 0).astype(int)
    members = [("tree", DecisionTreeClassifier(max_depth=3)), ("deep", DecisionTreeClassifier())]
    stack = StackingClassifier(
        members, neighbors.KNeighborsClassifier(), stack_method="predict", cv=3
    )
    stack.fit(x, y)
    model = hbconv.convert(stack, backend="torch")
    require_same(stack, model, np.random.default_rng(1).normal(size=(50, 4)), "predict")


def test_a_graph_of_neighbours_has_them_in_order():
    """An estimator that takes fewer of them takes the first."""
    graph = neighbors.KNeighborsTransformer(n_neighbors=8)
    estimator = neighbors.KNeighborsClassifier(5, metric="precomputed")
    pipeline = make_pipeline(graph, estimator).fit(grid(300), labels(300))
    model = hbconv.convert(pipeline, backend="reference")
    require_same(pipeline, model, grid(60, seed=3), "predict_proba")


@pytest.mark.parametrize("suffix", [".onnx", ".pt"])
def test_files_that_cannot_search_say_so(suffix):
    """Only where ties are to be expected: rows of floats have none."""
    fitted = neighbors.KNeighborsClassifier()
    tied = hbconv.convert(fitted.fit(grid(60), labels(60)), backend="reference")
    with pytest.warns(UserWarning, match="often equally near"):
        tied.to_bytes(suffix)
    floats = np.random.default_rng(0).normal(size=(60, 3))
    apart = hbconv.convert(fitted.fit(floats, labels(60)), backend="reference")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        apart.to_bytes(suffix)


@pytest.mark.parametrize(
    "estimator",
    [
        neighbors.KNeighborsClassifier(metric="mahalanobis", metric_params={"VI": np.eye(3)}),
        make_pipeline(
            neighbors.RadiusNeighborsTransformer(radius=9.0),
            neighbors.KNeighborsClassifier(metric="precomputed"),
        ),
    ],
)
def test_what_is_not_followed_is_warned_of(estimator):
    with pytest.warns(UserWarning, match="may take others of them than the source"):
        hbconv.convert(estimator.fit(grid(60), labels(60)), backend="reference")


def test_a_choice_that_builds_on_another():
    """Neighbours of imputed rows: the second search meets what the first one chose."""
    x = with_missing(grid(300))
    pipeline = make_pipeline(KNNImputer(n_neighbors=2), neighbors.KNeighborsClassifier(3))
    pipeline.fit(x, labels(300))
    model = hbconv.convert(pipeline, backend="torch")
    require_same(pipeline, model, with_missing(grid(80, seed=3), share=0.4), "predict_proba")


@pytest.mark.parametrize("given", ["float64", "float32", "int64"])
@pytest.mark.parametrize("fitted", ["float64", "float32", "int64"])
def test_the_search_goes_by_the_dtype_of_rows(fitted, given):
    """By brute force, a heap finds the neighbours of rows of the fitted dtype, else a partition."""
    estimator = neighbors.KNeighborsClassifier(4, algorithm="brute")
    estimator.fit(grid(200).astype(fitted), labels(200))
    model = hbconv.convert(estimator, backend="reference")
    model.predict(grid(3))
    require_same(estimator, model, grid(60, seed=3).astype(given), "kneighbors", "predict_proba")


def test_a_row_bound_or_alone_has_the_answer_of_a_batch():
    """Calls of few rows take other ways to the program."""
    estimator = neighbors.KNeighborsClassifier(4).fit(grid(200), labels(200))
    model = hbconv.convert(estimator, backend="tvm")
    x = grid(30, seed=3)
    want = estimator.predict_proba(x)
    bound = model.bind("predict_proba", rows=1)
    for row, shares in zip(x, want, strict=True):
        np.testing.assert_array_equal(model.predict_proba(row[None]), shares[None])
        np.testing.assert_array_equal(bound(row[None]), shares[None])


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_saved_model_chooses_alike(backend, tmp_path):
    """Compiled or not, it holds the search."""
    x = grid(120, seed=3)
    estimator = neighbors.KNeighborsClassifier(4).fit(grid(200), labels(200))
    model = hbconv.convert(estimator, backend=backend)
    model.predict_proba(x)
    model.save(tmp_path / "model.hbc")
    for trusted in (True, False):
        loaded = hbconv.load(tmp_path / "model.hbc", trusted=trusted)
        require_same(estimator, loaded, x, "predict_proba")


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "manhattan"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("fitted", [np.asarray, csr_matrix])
@pytest.mark.parametrize("given", [np.asarray, csr_matrix])
def test_rows_of_a_sparse_matrix(fitted, given, dtype, metric):
    """Products of sparse rows round term after term; of two sparse matrices numpy partitions."""
    estimator = neighbors.NearestNeighbors(n_neighbors=4, algorithm="brute", metric=metric)
    estimator.fit(fitted((grid(400, columns=6) / 3.0).astype(dtype)))
    model = hbconv.convert(estimator, backend="reference")
    rows = given((grid(100, seed=3, columns=6) / 3.0).astype(dtype))
    np.testing.assert_array_equal(model.kneighbors(rows)[1], estimator.kneighbors(rows)[1])


@pytest.mark.parametrize("backend", ["torch", "tvm"])
@pytest.mark.parametrize("scale", [1.0, 3.0])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_many_rows_are_searched_by_a_compiled_program(algorithm, scale, backend):
    """Its choice is that for few rows, for distances that products round too."""
    estimator = neighbors.NearestNeighbors(n_neighbors=20, algorithm=algorithm)
    estimator.fit(grid(600) / scale)
    model = hbconv.convert(estimator, backend=backend)
    rows = grid(WORTH_COMPILING + 200, seed=3) / scale
    np.testing.assert_array_equal(model.kneighbors(rows)[1], estimator.kneighbors(rows)[1])


def test_numpy_searches_where_no_compiler_does(monkeypatch, caplog):
    """A call of many tied rows does not end where TVM fails."""
    estimator = neighbors.NearestNeighbors(n_neighbors=4).fit(grid(200))
    model = hbconv.convert(estimator, backend="reference")
    rows = grid(WORTH_COMPILING + 200, seed=3)

    def fail(*_):
        raise RuntimeError("no compiler")

    monkeypatch.setattr("hbconv.backends.tvm.Tvm.compile", fail)
    np.testing.assert_array_equal(model.kneighbors(rows)[1], estimator.kneighbors(rows)[1])
    assert "no compiler" in caplog.text


def test_tensors_are_finished_where_they_lie():
    torch = pytest.importorskip("torch")
    estimator = neighbors.KNeighborsRegressor(4).fit(grid(200), labels(200))
    model = hbconv.convert(estimator, backend="torch")
    x = grid(60, seed=3)
    np.testing.assert_allclose(model.predict(torch.from_numpy(x)).numpy(), estimator.predict(x))
