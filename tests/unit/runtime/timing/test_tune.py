"""Tuning: the clock decides, the record decides the next time, and answers do not change."""

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
from fitted import fit, labels, matrix, table
from sklearn.ensemble import RandomForestClassifier

import hbconv
from hbconv.compiler import tune_model
from hbconv.cost_model.tuning_record import BUCKETS
from hbconv.errors import OptionError
from hbconv.model import Model
from hbconv.optimize import contender
from hbconv.runtime.timing.tune import SECONDS, RecordCache, Tuner, read_tune
from hbconv.system.cache import Cache


@pytest.fixture(scope="module")
def forest():
    return RandomForestClassifier(20, max_depth=6, random_state=0).fit(matrix(), labels())


@pytest.fixture
def cache(tmp_path):
    return RecordCache(Cache(tmp_path))


class FakeClock:
    """Measures contenders as it is told: the later in the alphabet, the faster."""

    def __init__(self, *, flat=False):
        self.asked = []
        self.flat = flat

    def __call__(self, calls, seconds):
        for call in calls.values():
            call()
        self.asked.append(sorted(calls))
        slowest_first = sorted(calls)
        if self.flat:
            return dict.fromkeys(calls, 1.0)
        return {label: 1.0 / (1 + slowest_first.index(label)) for label in calls}


def tuned(source, cache, clock, backend="torch", **options):
    """Tune for rows of the dtype that trees read, so that no rule has anything to move."""
    model = hbconv.convert(source, backend, **options)
    dtypes = tuple("float32" if dtype == "float64" else dtype for dtype in model.dtypes)
    tuning = Tuner(model.programs, dtypes, cache=cache, measure=clock).tune()
    return Model(model.parsed, model.target, dtypes, tuning=tuning)


def narrow():
    """Rows of the dtype that trees read."""
    return matrix().astype(np.float32)


def rows(count):
    return np.random.default_rng(count).normal(size=(count, matrix().shape[1]))


def test_the_fastest_by_the_clock_is_taken(forest, cache):
    clock = FakeClock()
    model = tuned(forest, cache, clock)
    fastest = max(clock.asked[0]).rpartition(", ")[2]  # behind the name of a rewrite, if it is one
    assert set(model.plan.strategies) == {fastest}
    assert all(choice.measured for _, choice in model.plan.choices)
    assert f"-> {fastest} (measured" in str(model.plan)
    assert [record.chosen for record in model.tuning.records] == [max(a) for a in clock.asked]


def test_the_predicted_best_is_kept_where_nothing_is_faster(forest, cache):
    untuned = hbconv.convert(forest, "torch")
    model = tuned(forest, cache, FakeClock(flat=True))
    assert model.plan.strategies == untuned.plan.strategies
    assert model.programs.planned(model.dtypes).row_plans == ()


def test_the_next_conversion_reads_the_record(forest, cache):
    first = tuned(forest, cache, FakeClock())
    clock = FakeClock()
    again = RandomForestClassifier(20, max_depth=6, random_state=0).fit(matrix(), labels())
    assert tuned(again, cache, clock).tuning == first.tuning
    assert clock.asked == []


def test_another_machine_measures_for_itself(forest, cache, monkeypatch):
    tuned(forest, cache, FakeClock())
    monkeypatch.setattr(contender, "describe_machine", lambda: {"processor": "another"})
    clock = FakeClock()
    tuned(forest, cache, clock)
    assert clock.asked


def test_records_of_another_machine_leave_predictions_to_decide(forest, cache, monkeypatch):
    model = tuned(forest, cache, FakeClock())
    monkeypatch.setattr(contender, "describe_machine", lambda: {"processor": "another"})
    moved = model.for_target(threads=1)
    assert moved.plan.strategies == hbconv.convert(forest, "torch").plan.strategies
    assert "measured for another target, version or machine" in moved.explain().tuning


def test_a_record_that_names_no_contender_is_measured_anew(forest, cache):
    model = tuned(forest, cache, FakeClock())
    for record in model.tuning.records:
        hostile = dataclasses.replace(record, chosen="os.system", seconds={"os.system": 1e-9})
        cache.write(hostile)
    clock = FakeClock()
    assert tuned(forest, cache, clock).tuning == model.tuning
    assert len(clock.asked) == len(model.tuning.records)


def test_a_hostile_record_of_a_model_is_left_out(forest, cache):
    model = tuned(forest, cache, FakeClock())
    records = [
        dataclasses.replace(record, chosen="x", seconds={"x": 1e-9})
        for record in model.tuning.records
    ]
    model.tuning = dataclasses.replace(model.tuning, records=tuple(records))
    found = model.for_target(threads=1)
    assert found.plan.strategies == hbconv.convert(forest, "torch").plan.strategies
    np.testing.assert_array_equal(found.predict(rows(9)), forest.predict(rows(9)))


def test_a_record_without_what_runs_else_is_measured_anew(forest, cache):
    """Prices may have changed since, and with them the plan of the target's rows."""
    model = tuned(forest, cache, FakeClock())
    own = model.tuning.records[0]
    for record in model.tuning.records[1:]:
        others = {label: 1.0 for label in record.seconds if label != own.chosen}
        poor = dataclasses.replace(record, seconds=others, chosen=min(others))
        cache.write(poor)
        model.tuning = dataclasses.replace(model.tuning, records=(own, poor))
        planned = model.for_target(threads=1).programs.planned(model.dtypes)
        assert list(planned.tuned.records.values()) == [own]
        assert not any(row_plan.measured for row_plan in planned.row_plans)
    clock = FakeClock()
    tuned(forest, cache, clock)
    assert len(clock.asked) == len(BUCKETS) - 1


@pytest.mark.parametrize("backend", ["torch", "torchscript", "tvm"])
def test_answers_are_equal_in_bits(forest, cache, backend):
    plain = hbconv.convert(forest, backend)
    model = tuned(forest, cache, FakeClock(), backend)
    row_plans = model.programs.planned(model.dtypes).row_plans
    assert {str(row_plan.bucket) for row_plan in row_plans} <= {str(b) for b in BUCKETS}
    for count in (1, 8, 16, 17, 500, 1001):
        x = rows(count)
        np.testing.assert_array_equal(model.predict_proba(x), plain.predict_proba(x))
        np.testing.assert_array_equal(model.predict(x), forest.predict(x))


def test_times_count_for_columns_of_other_dtypes(forest, cache):
    model = tuned(forest, cache, FakeClock())
    x = rows(9)
    model.predict(x)
    planned = model.programs.planned(("float64",) * x.shape[1])
    assert planned.plan.strategies == model.plan.strategies
    assert planned.tuned is not None


def test_explain_shows_the_times(forest, cache):
    explanation = tuned(forest, cache, FakeClock()).explain()
    assert "\nTuned\n-----\n" in str(explanation)
    assert "ms against" in explanation.tuning
    assert explanation.to_dict()["tuning"] == explanation.tuning.splitlines()
    assert "Tuned" not in str(hbconv.convert(forest, "torch").explain())


def test_a_saved_model_keeps_its_times(forest, cache, tmp_path):
    model = tuned(forest, cache, FakeClock())
    model.save(tmp_path / "model.hbc")
    for loaded in (hbconv.load(tmp_path / "model.hbc"), hbconv.load(tmp_path / "model.hbc", "tvm")):
        assert loaded.tuning == model.tuning
    assert hbconv.load(tmp_path / "model.hbc").plan == model.plan


def test_convert_tunes_on_the_real_clock(forest):
    model = hbconv.convert(forest, "torch", tune=0.01)
    near = {label for record in model.tuning.records for label in record.seconds}
    assert set(model.plan.strategies) <= near
    np.testing.assert_array_equal(model.predict(rows(50)), forest.predict(rows(50)))
    again = hbconv.convert(forest, "torch", tune=True)
    assert again.tuning == model.tuning


@pytest.mark.parametrize("tune", [None, False])
def test_without_tune_no_record_is_read(forest, tune):
    hbconv.convert(forest, "torch", tune=0.01)
    assert hbconv.convert(forest, "torch", tune=tune).tuning is None


def test_rows_are_timed_with(monkeypatch):
    seen = []
    monkeypatch.setenv("HBCONV_CACHE", "0")
    monkeypatch.setattr(
        "hbconv.runtime.timing.tune.repeat_rows",
        lambda inputs, rows: seen.append(inputs) or {k: v[:1] for k, v in inputs.items()},
    )
    model = hbconv.convert(fit("mixed"), "torch", tune=table())
    assert {len(array) for inputs in seen for array in inputs.values()} == {len(table())}
    assert model.tuning.records
    assert list(model.predict(table())) == list(fit("mixed").predict(table()))


@pytest.mark.parametrize("backend", ["reference", "onnx"])
def test_where_nothing_is_open_explain_says_so(forest, backend):
    model = hbconv.convert(forest, backend, tune=narrow())
    assert model.tuning.records == ()
    assert f"backend '{backend}' leaves nothing to choose" in model.explain().tuning


def test_a_model_without_trees_says_so():
    model = hbconv.convert(fit("linear"), "torch", tune=narrow())
    assert "the model has no trees" in str(model.explain())


@pytest.mark.parametrize("tune", [0, -1.0, float("nan"), float("inf"), 0.0])
def test_seconds_must_be_positive(forest, tune):
    with pytest.raises(OptionError, match=r"tune=.* must be a positive number of seconds"):
        hbconv.convert(forest, "torch", tune=tune)


def test_a_forced_strategy_leaves_nothing_to_tune(forest):
    with pytest.raises(OptionError, match="strategy='gemm' leaves tune= nothing to choose"):
        hbconv.convert(forest, "torch", strategy="gemm", tune=True)


def test_no_rows_are_refused(forest):
    with pytest.raises(OptionError, match="given no rows"):
        tune_model(hbconv.convert(forest, "torch", rows=7, precision="fast"), rows(0))


def test_the_three_forms_of_tune():
    x = rows(2)
    assert read_tune(True, x) == (SECONDS, x)
    assert read_tune(2, None) == (2.0, None)
    assert read_tune(x, None) == (SECONDS, x)


def test_sparse_rows_are_timed_as_they_are_answered():
    x = sp.random(99, 8, 0.3, format="csr", random_state=0)
    source = RandomForestClassifier(9, max_depth=4, random_state=0).fit(x, np.arange(99) % 2)
    model = hbconv.convert(source, "torch", tune=x)
    assert model.tuning.records
    np.testing.assert_array_equal(model.predict(x), source.predict(x))
