"""Keys of records: what changes them, and what does not."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from hbconv.cost_model.tuning_record import BUCKETS
from hbconv.optimize import contender as module
from hbconv.optimize.contender import record_key
from hbconv.parse import parse
from hbconv.pipeline import with_dtypes
from hbconv.target import Target

TARGET = Target("torch")


def fitted(seed=0, n_trees=10, depth=5, columns=6, scaled=False):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(400, columns))
    forest = RandomForestRegressor(n_trees, max_depth=depth, random_state=seed)
    source = make_pipeline(StandardScaler(), forest) if scaled else forest
    return parse(source.fit(x, rng.normal(size=400)))


def key(target=TARGET, bucket=BUCKETS[0], dtype="float32", **source):
    graph = fitted(**source)
    return record_key(with_dtypes(graph, (dtype,) * len(graph.schema.columns)), target, bucket)


def test_a_model_fitted_again_has_the_same_key():
    assert key(seed=0) == key(seed=1)


def test_dtypes_rows_and_a_forced_strategy_do_not_count():
    assert key() == key(dtype="float64")
    assert key() == key(Target("torch", rows=7_000)) == key(Target("torch", strategy="gemm"))


@pytest.mark.parametrize(
    "other", [{"n_trees": 20}, {"depth": 3}, {"columns": 7}, {"scaled": True}], ids=str
)
def test_another_structure_has_another_key(other):
    assert key(**other) != key()


@pytest.mark.parametrize(
    "target",
    [
        Target("tvm"),
        Target("torch", device="cuda"),
        Target("torch", precision="fast"),
        Target("torch", threads=2),
        Target("torch", memory=1 << 20),
        Target("torch", rows=7),
    ],
    ids=str,
)
def test_another_target_has_another_key(target):
    assert key(target) != key()


def test_each_bucket_has_a_key():
    assert len({key(bucket=bucket) for bucket in BUCKETS}) == len(BUCKETS)


@pytest.mark.parametrize("name", ["describe_machine", "describe_versions"])
def test_another_machine_or_version_has_another_key(monkeypatch, name):
    before = key()
    assert before == key()
    monkeypatch.setattr(module, name, lambda: {"processor": "another"})
    assert key() != before
