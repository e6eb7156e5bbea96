import numpy as np
import pytest
from scoring import assert_identical
from sklearn.ensemble import RandomTreesEmbedding
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import KBinsDiscretizer, RobustScaler, StandardScaler
from sklearn.tree import DecisionTreeRegressor

import hbconv
from hbconv.errors import InputError

RNG = np.random.default_rng(0)
X = RNG.standard_normal((150, 4))
ROWS = np.where(RNG.random(X.shape) < 0.2, np.nan, RNG.standard_normal(X.shape))
SHAPES = {
    "deep": {"max_depth": None},
    "best first": {"max_leaf_nodes": 9},
    "single leaves": {"min_samples_leaf": 100},
}


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_a_column_for_each_leaf(shape, sparse):
    model = RandomTreesEmbedding(5, **shape, sparse_output=sparse, random_state=0).fit(X)
    converted = hbconv.convert(model)
    for method in ("transform", "apply", "decision_path"):
        assert_identical(getattr(converted, method)(ROWS), getattr(model, method)(ROWS))
    assert converted.get_feature_names_out().tolist() == model.get_feature_names_out().tolist()


def test_leaves_that_the_encoder_has_not_seen():
    """A second fit keeps the trees of the first, of whose leaves its rows may reach but a few."""
    model = RandomTreesEmbedding(3, warm_start=True, random_state=0).fit(X)
    model.set_params(n_estimators=5).fit(X[:10])
    converted = hbconv.convert(model)
    assert_identical(converted.transform(X[:10]), model.transform(X[:10]))
    assert_identical(converted.apply(X[:10]), model.apply(X[:10]))
    with pytest.raises(ValueError, match="unknown categories"):
        model.transform(X)
    with pytest.raises(InputError, match="unknown leaves"):
        converted.transform(X)


def test_infinity_is_refused():
    model = RandomTreesEmbedding(3, random_state=0).fit(X)
    with pytest.raises(InputError, match="infinity"):
        hbconv.convert(model).transform(np.full((1, 4), np.inf))


def test_leaves_are_looked_up_in_no_table_that_lacks_them():
    bins = KBinsDiscretizer(3, encode="onehot-dense", strategy="uniform")
    embedding = RandomTreesEmbedding(4, max_depth=3, random_state=0, sparse_output=False)
    steps = (embedding, make_union(bins, RobustScaler()), RobustScaler())
    source = make_pipeline(*steps, DecisionTreeRegressor(max_depth=3)).fit(X, X[:, 0])
    found = hbconv.convert(source, "reference").predict(X)
    np.testing.assert_array_equal(found, source.predict(X))


@pytest.mark.parametrize("backend", ["reference", "tvm"])
def test_a_sparse_answer_keeps_its_layout_at_later_calls(backend: str):
    embedding = RandomTreesEmbedding(4, max_depth=3, random_state=0)
    source = make_pipeline(StandardScaler(), embedding, SimpleImputer()).fit(X)
    model = hbconv.convert(source, backend)
    for rows in (X, X, X[:1], X[:1]):
        assert model.transform(rows).format == source.transform(rows).format == "csc"
    for rows in (1, None):
        assert model.bind("transform", rows, "float64")(X[:1]).format == "csc"
