"""Programs with a variant for each bucket of rows: which one runs, and that answers are equal."""

import dataclasses

import numpy as np
import pytest
from fitted import labels, matrix
from sklearn.ensemble import RandomForestClassifier

import hbconv
from hbconv.backends.base import Artifact
from hbconv.cost_model.tuning_record import BUCKETS
from hbconv.optimize.plan import Plan, make_plan
from hbconv.runtime.row_artifact import RowArtifact, Variant, other_files, own_files

STRATEGIES = {1: "select", 8: "gemm", 256: "select", 10_000: "tree_traversal"}
"""The cheapest by typical number of rows, in these tests."""
ROWS = (1, 2, 15, 16, 17, 999, 1000, 1001, 1500)


class Counting(Artifact):
    """An artifact that doubles, and notes how many rows it ran."""

    def __init__(self, *sizes):
        self.sizes = sizes
        self.ran = []

    def run(self, inputs):
        self.ran.append(len(inputs["x"]))
        return {"y": inputs["x"] * 2}


@pytest.fixture
def by_rows(monkeypatch):
    """Let the cheapest strategy differ by rows."""

    def plan(graph, target, backend):
        made = make_plan(graph, target.replace(strategy=STRATEGIES[target.rows]), backend)
        choices = [
            (f, dataclasses.replace(c, costs=_costs(c, target.rows))) for f, c in made.choices
        ]
        return Plan(tuple(choices))

    monkeypatch.setattr("hbconv.optimize.plan.make_plan", plan)
    monkeypatch.setattr("hbconv.pipeline.make_plan", plan)


def _costs(choice, rows):
    return {name: 1.0 if name == STRATEGIES[rows] else 9.0 for name in choice.costs}


@pytest.fixture(scope="module")
def forest():
    return RandomForestClassifier(20, max_depth=6, random_state=0).fit(matrix(), labels())


def rows(count):
    return np.random.default_rng(count).normal(size=(count, matrix().shape[1]))


def variants_of(model):
    """Number the variant of each bucket by the first bucket that it runs."""
    program = next(iter(model.programs.compiled.values()))
    variants = [program.artifact.variant(bucket.typical) for bucket in BUCKETS]
    return [variants.index(variant) for variant in variants]


def test_the_form_of_the_bucket_runs():
    variants = [Variant(Counting(), 10**6) for _ in range(3)]
    artifact = RowArtifact(variants[0], {BUCKETS[0]: variants[1], BUCKETS[2]: variants[2]})
    for count in (1, 2, 16, 17, 1000, 1001):
        artifact.run({"x": np.ones(count)})
    assert [variant.artifact.ran for variant in variants] == [[2, 16, 1001], [1], [17, 1000]]


def test_a_form_takes_no_more_rows_than_its_memory_holds():
    few, many = Variant(Counting(), 100), Variant(Counting(), 5000)
    artifact = RowArtifact(many, {BUCKETS[2]: few})
    found = artifact.run({"x": np.arange(250.0)})["y"]
    np.testing.assert_array_equal(found, 2 * np.arange(250.0))
    assert few.artifact.ran == [100, 100, 50]
    assert artifact.chunk == 5000
    assert artifact.bind(250) is None


def test_no_size_that_is_bound_spans_two_variants():
    fitted, few = Variant(Counting(8, 64), 100), Variant(Counting(), 100)
    assert RowArtifact(fitted, {BUCKETS[0]: few}).sizes == (1, 8, 64)
    assert RowArtifact(fitted, {BUCKETS[0]: few, BUCKETS[1]: few}).sizes == (8, 16, 64)
    assert RowArtifact(Variant(Counting(), 100), {BUCKETS[0]: few}).sizes == ()


@pytest.mark.parametrize("backend", ["torch", "torchscript"])
def test_answers_are_equal_in_bits_in_all_variants(by_rows, forest, backend):
    one = hbconv.convert(forest, backend, strategy="tree_traversal")
    model = hbconv.convert(forest, backend)
    for count in (*ROWS, *ROWS):  # the second time by fast calls
        x = rows(count)
        np.testing.assert_array_equal(model.predict_proba(x), one.predict_proba(x))
        np.testing.assert_array_equal(model.predict(x), forest.predict(x))
    assert variants_of(model) == [0, 1, 0, 3]


@pytest.mark.parametrize("count", [None, 1, 5, 16, 40])
def test_bound_calls_take_the_form_of_their_rows(by_rows, forest, count):
    model = hbconv.convert(forest, "torch", sample=rows(2))
    x = rows(count or 3)
    found = model.bind("predict_proba", count)(x)
    np.testing.assert_array_equal(found, model.predict_proba(x))


def test_explain_shows_the_plan_of_each_bucket(by_rows, forest):
    explanation = hbconv.convert(forest, "torch").explain()
    assert [plan["rows"] for plan in explanation.to_dict()["row_plans"]] == [
        [1, 1],
        [2, 16],
        [17, 1000],
    ]
    assert "Calls of 2 to 16 rows have a program of their own" in str(explanation)
    assert "Calls of 2 to 16 rows" in str(hbconv.convert(forest, "torch").explain("planned"))


def test_other_backends_have_one_plan(by_rows, forest):
    explanation = hbconv.convert(forest, "reference").explain()
    assert explanation.to_dict()["row_plans"] == []
    assert "program of their own" not in str(explanation)


def test_variants_are_saved_once_and_read_again(by_rows, forest, tmp_path):
    model = hbconv.convert(forest, "torchscript", sample=rows(2))
    model.save(tmp_path / "model.hbc")
    ((_, stored), *_) = model.programs.stored().items()
    assert set(stored.files) == {"model.pt", "rows-1-17/model.pt", "rows-2/model.pt"}
    assert set(stored.host.chunks) == {"", "rows-1-17", "rows-2"}
    loaded = hbconv.load(tmp_path / "model.hbc", trusted=True)
    for count in (1, 16, 17, 1001):
        np.testing.assert_array_equal(loaded.predict(rows(count)), forest.predict(rows(count)))
    again = next(iter(loaded.programs.stored().values())).files
    assert set(again) == set(stored.files)


def test_exports_and_modules_hold_one_program(by_rows, forest, tmp_path):
    model = hbconv.convert(forest, "torchscript")
    model.export(tmp_path / "model.pt")
    assert (tmp_path / "model.pt").stat().st_size
    assert model.module is model.module
    assert not model.programs.compiled


def test_files_of_other_versions_buckets_are_left_out():
    stored = {"model.pt": b"", "rows-3/model.pt": b"", "rows-1/model.pt": b""}
    assert own_files(stored) == {"model.pt": b""}
    assert other_files(stored) == [("rows-1", (BUCKETS[0],), {"model.pt": b""})]
