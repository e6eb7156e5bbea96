"""Rows made to time with: between thresholds, in the dtype of the feed, within memory."""

import numpy as np
import pytest
from fitted import fit
from sklearn.ensemble import RandomForestRegressor

import hbconv
from hbconv.errors import OptionError
from hbconv.lower import CodesFeed, Feed
from hbconv.parse import parse
from hbconv.runtime.timing import tune
from hbconv.runtime.timing.tune import make_rows, repeat_rows


@pytest.fixture(scope="module")
def graph():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 3)) * [1.0, 1000.0, 1e-3]
    return parse(RandomForestRegressor(2, max_features=1, random_state=0).fit(x, x[:, 1]))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_values_lie_between_and_beyond_thresholds(graph, dtype):
    feed = Feed("x", dtype, (0, 1, 2))
    x = make_rows(graph, [feed])["x"]
    assert x.dtype == dtype
    assert x.shape == (tune.DISTINCT_ROWS, 3)
    forest = next(node.forest for node in graph.nodes() if hasattr(node, "forest"))
    edges = np.unique(forest.threshold.data[forest.feature.data == 1])
    below = np.searchsorted(edges, x[:, 1])
    assert below.min() == 0
    assert below.max() == len(edges)
    assert len(np.unique(below)) > min(len(edges), 100) / 4


def test_columns_without_thresholds_are_normal(graph):
    x = make_rows(graph, [Feed("x", "float64", (0,))])["x"]
    linear = make_rows(parse(fit("linear")), [Feed("x", "float64", (0,))])["x"]
    assert 0.8 < linear.std() < 1.2
    assert not np.array_equal(x, linear)


def test_rows_are_the_same_each_time(graph):
    feeds = [Feed("x", "float64", (0, 1, 2))]
    np.testing.assert_array_equal(make_rows(graph, feeds)["x"], make_rows(graph, feeds)["x"])


def test_text_is_not_made(graph):
    with pytest.raises(OptionError, match="Give it some: tune=X"):
        make_rows(graph, [CodesFeed(())])


def test_repetitions_stay_within_memory(monkeypatch):
    inputs = {"x": np.arange(6.0).reshape(3, 2)}
    np.testing.assert_array_equal(repeat_rows(inputs, 5)["x"], inputs["x"][[0, 1, 2, 0, 1]])
    monkeypatch.setattr(tune, "MOST_BYTES", 32)
    assert len(repeat_rows(inputs, 5)["x"]) == 2
    monkeypatch.setattr(tune, "MOST_BYTES", 1)
    assert len(repeat_rows(inputs, 5)["x"]) == 1


def test_a_model_that_reads_text_asks_for_rows():
    with pytest.raises(OptionError, match="tune=X"):
        hbconv.convert(fit("mixed"), "torch", tune=True)
