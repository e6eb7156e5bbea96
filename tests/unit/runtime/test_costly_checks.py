"""A check of what a costly member computes is asked of the program, on every backend."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.decomposition import KernelPCA
from sklearn.ensemble import AdaBoostRegressor, StackingClassifier, StackingRegressor
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.impute import KNNImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import hbconv
from hbconv.backends.reference import evaluate
from hbconv.errors import InputError
from hbconv.lower import DENSE, WRITTEN, Padding, lower_nodes
from hbconv.pipeline import Compilation, Planned
from hbconv.runtime.inputs.read import read_table
from hbconv.runtime.inputs.table import Reads
from hbconv.target import Target
from hbconv.tensor import Op

RANDOM = np.random.default_rng(0)
X = RANDOM.integers(-3, 4, (60, 4)).astype(np.float64)
Y = (X[:, 0] > 0).astype(np.int64)
GAPS = np.where(RANDOM.random(X.shape) < 0.1, np.nan, X)
TEXTS = ["a cat sat", "the dog ran", "a dog sat", "cats and dogs"] * 5
KNN = StackingClassifier(
    [("knn", KNeighborsClassifier(3, algorithm="brute")), ("lr", LogisticRegression())], cv=2
)
TREES = StackingRegressor([("trees", AdaBoostRegressor(n_estimators=3))], Ridge(), cv=2)
CODES = OneHotEncoder(drop="first", handle_unknown="ignore")
MODELS = {
    "neighbors": KNN.fit(X, Y),
    "texts": make_pipeline(CountVectorizer(), clone(KNN)).fit(TEXTS, [0, 1, 1, 0] * 5),
    "trees": TREES.fit(X, X[:, 1]),
    "imputer": make_pipeline(KNNImputer(), LogisticRegression()).fit(GAPS, Y),
    "powers": make_pipeline(KernelPCA(2, kernel="poly"), LogisticRegression()).fit(X, Y),
    "refuses": make_pipeline(KNNImputer(n_neighbors=2), OneHotEncoder(), Ridge()).fit(X, Y),
    "warns": make_pipeline(KNNImputer(n_neighbors=2), CODES, Ridge()).fit(X, Y),
}
WAYS = [("reference", "exact"), ("tvm", "fast"), ("torch", "exact"), ("onnx", "exact")]
"""Backends whose programs flag no rows of their own accord."""
COSTLY = {
    "iterate",
    "matmul",
    "nearest",
    "nearest_donors",
    "pairwise",
    "tree_leaves",
    "tree_scores",
}


def operators(program):
    return [op.primitive for op in program.instructions if isinstance(op, Op)]


@pytest.fixture(scope="module")
def model():
    """Converts a model once for each backend and precision."""
    made = {}

    def convert(name, way):
        if (name, way) not in made:
            made[name, way] = hbconv.convert(MODELS[name], backend=way[0], precision=way[1])
        return made[name, way]

    return convert


@pytest.mark.parametrize("way", [*WAYS, ("tvm", "exact")], ids="-".join)
@pytest.mark.parametrize("name", ["neighbors", "texts", "trees", "imputer", "refuses", "warns"])
def test_the_host_computes_nothing_costly(name, way):
    """The program flags such rows, and finds no neighbours twice for it."""
    parsed = hbconv.convert(MODELS[name], backend="reference").parsed
    for padding in [Padding(8)] if name == "texts" else [DENSE, WRITTEN]:
        target = Target(way[0], precision=way[1])
        planned = Planned(parsed, parsed.schema.dtypes, target, sparse=padding == WRITTEN)
        stages = Compilation(planned, ("predict",), padding)
        by_host = (*stages.guard.host, *stages.guard.warned_by_host)
        roots = {str(i): check.node for i, check in enumerate(by_host)}
        asked = lower_nodes(planned.graph, roots, padding=padding).program
        assert not COSTLY.intersection(operators(asked))
        assert stages.guard.flags_rows
        assert operators(stages.lowered.program).count("nearest") <= 1


@pytest.mark.parametrize("way", WAYS, ids="-".join)
def test_rows_are_answered_and_refused_as_by_the_source(model, way):
    rows = np.array([[1.0, 2.0, 0.0, -1.0], [3.0, 0.0, 1.0, 2.0]])
    source = MODELS["powers"]
    assert np.array_equal(model("powers", way).predict(rows), source.predict(rows))
    huge = np.where(rows == 3.0, 1e120, rows)
    for refused in (source, model("powers", way)):
        with pytest.raises(ValueError, match="infinity"), np.errstate(all="ignore"):
            refused.predict(huge)
    sparse = sp.csr_matrix(rows)
    found = model("neighbors", way).predict(sparse)
    assert np.array_equal(found, MODELS["neighbors"].predict(sparse))


def test_what_float32_alone_makes_infinite_is_not_refused(model):
    rows = np.array([[1e15, 2.0, 0.0, -1.0]])
    MODELS["powers"].predict(rows)
    assert len(model("powers", ("tvm", "fast")).predict(rows)) == 1


@pytest.mark.parametrize("way", WAYS, ids="-".join)
def test_imputed_values_of_no_category(model, way):
    """The mean of two donors is no category: one model refuses it, and the other one warns."""
    rows = np.array([[np.nan, 2.0, 0.0, -1.0], [1.0, np.nan, 1.0, 2.0], [1.0, 2.0, np.nan, 2.0]])
    for refused in (MODELS["refuses"], model("refuses", way)):
        with pytest.raises(ValueError, match="unknown categories"):
            refused.predict(rows)
    said, answers = [], []
    for warned in (MODELS["warns"], model("warns", way)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            answers.append(warned.predict(rows))
        said.append([str(warning.message) for warning in caught])
    assert said[0] == said[1]
    assert len(said[0]) == 1
    np.testing.assert_allclose(*answers, atol=1e-5)


def test_checks_are_evaluated_by_chunks(model, monkeypatch):
    """Checks of all rows of a call stay within the memory of some."""
    sizes = []

    def watched(program, inputs):
        sizes.append(len(inputs["x"]))
        return evaluate(program, inputs)

    exact = model("powers", ("torch", "exact"))
    program = exact.programs.program(("predict",), exact.dtypes)
    rows = np.tile(X, (20, 1))
    rows[-1] = 1e120
    monkeypatch.setattr("hbconv.backends.reference.evaluate", watched)
    monkeypatch.setattr("hbconv.runtime.checks.rows_per_chunk", lambda *_: 500)
    with pytest.raises(InputError, match="LogisticRegression"):
        program.check.flagged(read_table(rows, Reads.of(exact.parsed)))
    assert sizes == [500, 500, 200, 1]  # the last to tell what it is refused for
