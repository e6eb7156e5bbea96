"""Random pipelines answer as their sources on every backend: a few seeds of each, and that the hunt
sees what it is to see.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import catboost
import hunt.seed
import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from fitted import available_backends
from fresh import run_fresh
from hunt.array_rows import array_rows
from hunt.departures import DEPARTURES, is_known
from hunt.dice import Dice
from hunt.differences import Standard, find_difference
from hunt.draw_pipelines import Fitted, draw_fitted
from hunt.findings import Log
from hunt.judge import Question, judge
from hunt.rounding_noise import is_exact
from hunt.seed import draw, hunt_on
from hunt.tree_thresholds import find_thresholds
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.linear_model import LinearRegression, Perceptron
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import hbconv
from hbconv.errors import InputError

SEEDS = {
    "reference": (104, 8),
    "torch": (0, 5),
    "onnx": (10, 4),
    "torchscript": (18, 2),
    "tvm": (21, 2),
}
"""First seed and number of seeds of each backend: a minute of one core together."""
APART = 100_000
"""Seeds between those of one ``--seed`` and of the next."""

pytestmark = pytest.mark.filterwarnings("ignore")

children = pytest.mark.skipif(
    sys.platform != "linux", reason="the children's memory and time are limited as Linux does it"
)


CHAINS = {"reference": 6, "torch": 2, "onnx": 2, "tvm": 1}
"""Chains of ColumnTransformers that each backend is asked with."""


@children
@pytest.mark.parametrize("backend_name", [name for name in available_backends() if name in CHAINS])
def test_chains_answer_as_their_sources(backend_name, request):
    first = APART * request.config.getoption("--seed", 0)
    count = CHAINS[backend_name]
    seeds = ("--first", str(first), "--count", str(count), "--limit", "10")
    ran = run_fresh("-m", "hunt", "--backend", backend_name, "--draw", "chains", *seeds)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"{backend_name}: {count} seeds" in ran.stdout


@children
@pytest.mark.parametrize(
    ("first", "backend_name"),
    [(SEEDS.get(backend, (0, 1))[0], backend) for backend in available_backends()],
)
def test_random_pipelines_answer_as_their_sources(first, backend_name, request, tmp_path):
    first += APART * request.config.getoption("--seed", 0)
    count = SEEDS.get(backend_name, (0, 1))[1]
    report = tmp_path / "findings.jsonl"
    seeds = ("--first", str(first), "--count", str(count), "--limit", "10")
    ran = run_fresh("-m", "hunt", "--backend", backend_name, *seeds, "--report", str(report))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"{backend_name}: {count} seeds" in ran.stdout
    assert " right" in ran.stdout
    kinds = {json.loads(line)["kind"] for line in report.read_text().splitlines()}
    assert kinds <= {"REFUSES"}


# What the judge finds


X = np.random.default_rng(0).normal(size=(40, 3))
Y = np.array(["low", "high"])[(X[:, 0] + X[:, 1] > 0).astype(int)]
FOREST = RandomForestClassifier(5, max_depth=3, random_state=0).fit(X, Y)
LINEAR = make_pipeline(StandardScaler(), LinearRegression()).fit(X, X @ [1, 2, 3])


def verdict(source, method, change, rows=X, name="plain", **standard):
    """Judge the source's own answer, changed."""

    def answer(asked):
        return change(getattr(source, method)(asked))

    converted = SimpleNamespace(**{method: answer})
    exact = is_exact(source)
    standard = Standard("reference", exact=exact, **standard)
    return judge(Question(source, method, rows, name), converted, standard)


def raises(error):
    def change(answer):
        raise error

    return change


def at_first(value):
    """Change the first entry of an answer."""

    def change(answer):
        changed = answer.copy()
        changed.flat[0] = value(changed.flat[0])
        return changed

    return change


def test_the_source_itself_is_right():
    for source, method in ((FOREST, "predict"), (FOREST, "predict_proba"), (LINEAR, "predict")):
        assert verdict(source, method, lambda answer: answer).kind == "right"


def test_one_other_label_is_wrong():
    found = verdict(FOREST, "predict", at_first(lambda label: "low" if label == "high" else "high"))
    assert (found.kind, found.what) == ("WRONG", "labels")
    assert "1 of 40, rows [0]" in found.detail


@pytest.mark.parametrize(
    ("source", "method", "apart", "only_trees"),
    [
        (FOREST, "predict_proba", 1e-11, True),
        (FOREST, "predict_proba", 1e-8, False),
        (LINEAR, "predict", 1e-8, False),
    ],
)
def test_a_value_beyond_the_tolerance_is_wrong(source, method, apart, only_trees):
    found = verdict(source, method, at_first(lambda value: value + apart), only_trees=only_trees)
    assert (found.kind, found.what) == ("WRONG", "values")
    near = verdict(source, method, at_first(lambda value: value + 1e-16), only_trees=only_trees)
    assert near.kind == "right"


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_wrong(value):
    found = verdict(LINEAR, "predict", at_first(lambda _: value))
    assert (found.kind, found.what) == ("WRONG", "not finite")


def test_another_shape_is_wrong():
    assert verdict(LINEAR, "predict", lambda answer: answer[:, None]).what == "shape"


def test_another_dtype_or_class_is_another_form():
    narrow = verdict(LINEAR, "predict", lambda answer: answer.astype(np.float32), narrow=True)
    assert (narrow.kind, narrow.detail) == ("FORM", "ndarray of float32 for ndarray of float64")
    framed = verdict(FOREST, "predict_proba", pd.DataFrame)
    assert framed.kind == "FORM"


def test_an_error_without_a_name_is_found():
    found = verdict(FOREST, "predict", raises(KeyError("column")))
    assert (found.kind, found.what) == ("UNNAMED", "KeyError")
    assert "test_hunt.py" in found.detail


def test_a_refusal_is_told_and_is_no_fault():
    found = verdict(FOREST, "predict", raises(InputError("X is not liked.")))
    assert (found.kind, found.detail) == ("REFUSES", "X is not liked.")


def test_a_source_that_never_answers_is_refused_by_both(monkeypatch):
    """Soft votes of members that have no probabilities can be fitted."""
    members = [("a", KNeighborsClassifier()), ("b", Perceptron())]
    source = VotingClassifier(members, voting="soft").fit(X, Y)
    fitted = Fitted(source, X, "matrix", Dice(0, 0))
    monkeypatch.setattr(hunt.seed, "draw_fitted", lambda *asked: fitted)
    stream = StringIO()
    assert draw(0, "reference", Log(stream)) is None
    assert json.loads(stream.getvalue().splitlines()[-1]) == [
        "ends",
        [{"pipelines": 1, "both refuse": 1}],
    ]


def test_an_answer_where_the_source_refuses_is_found():
    wide = np.ones((3, 7))
    source = SimpleNamespace(predict=raises(ValueError("X has 7 features.")))
    asked = Question(source, "predict", wide, "wide"), SimpleNamespace(predict=len)
    assert judge(*asked, Standard("tvm")).kind == "ANSWERS"
    both = SimpleNamespace(predict=raises(InputError("X has 7 columns.")))
    asked = Question(source, "predict", wide, "wide"), both
    assert judge(*asked, Standard("tvm")).kind == "both refuse"


def test_scores_of_trees_are_held_to_units():
    scores = np.array([1.0, 2.0])
    beside = np.nextafter(scores, 3)
    for backend, alike in (("tvm", False), ("torch", True)):
        standard = Standard(backend, only_trees=True)
        found = find_difference(standard, "raw_scores", X[:2], beside, scores)
        assert (found is None) == alike


def test_decisions_of_an_exact_model_are_not_excused():
    """A row on a threshold that goes the other way: a nudge of the row explains it of a projection
    before the tree, and nothing does of a scaler.
    """
    labels = (X[:, 0] > 0).astype(int)
    for step, kind in ((StandardScaler(), "WRONG"), (PCA(3), "moves")):
        source = make_pipeline(step, DecisionTreeClassifier(max_depth=1)).fit(X, labels)
        row = _on_the_threshold(source)
        found = verdict(source, "predict", lambda answer: 1 - answer, rows=row)
        assert found.kind == kind


def _on_the_threshold(source):
    """Return a row that two neighbours in the last place send to both sides."""
    low, high = X[[0]] * 0 - 9, X[[0]] * 0 + 9
    below = source.predict(low)
    while (np.abs(high - low) > 1e-15 * np.abs(low)).any():
        middle = (low + high) / 2
        if source.predict(middle) == below:
            low = middle
        else:
            high = middle
    return low


def test_ties_of_neighbours_are_excused():
    points = np.repeat([[0.0], [1.0]], 10, axis=0)
    labels = np.tile([0, 1], 10)
    source = KNeighborsClassifier(1).fit(points, labels)
    assert verdict(source, "predict", lambda answer: 1 - answer, rows=points).kind == "moves"
    apart = KNeighborsClassifier(1).fit(np.arange(20.0)[:, None], labels)
    rows = np.arange(20.0)[:, None] + 0.1
    assert verdict(apart, "predict", lambda answer: 1 - answer, rows=rows).kind == "WRONG"


# What is drawn


def test_a_seed_draws_the_same_each_time():
    for seed in range(4):
        first, again = draw_fitted(seed), draw_fitted(seed)
        assert repr(first.model) == repr(again.model)
        pd.testing.assert_frame_equal(pd.DataFrame(first.rows), pd.DataFrame(again.rows))


@pytest.mark.parametrize(
    "model",
    [
        DecisionTreeClassifier(max_depth=1),
        HistGradientBoostingClassifier(max_iter=1, min_samples_leaf=5),
        lightgbm.LGBMClassifier(n_estimators=1, num_leaves=2, min_child_samples=5, verbose=-1),
        xgboost.XGBClassifier(n_estimators=1, max_depth=1),
        catboost.CatBoostClassifier(iterations=1, depth=1, verbose=0, allow_writing_files=False),
        make_pipeline(StandardScaler(), RandomForestClassifier(1, max_features=None, max_depth=1)),
    ],
    ids=lambda model: type(model).__name__,
)
def test_thresholds_of_every_library_are_found(model):
    """The label is whether the second number is positive."""
    splits = find_thresholds(model.fit(X, (X[:, 1] > 0).astype(int)))
    assert splits
    assert all(column == 1 and abs(threshold) < 0.3 for column, threshold in splits)


def test_rows_lie_on_the_thresholds_and_beside():
    column, threshold = find_thresholds(FOREST)[0]
    named = dict(array_rows(Dice(0), X, FOREST))
    values = named["thresholds float64"][:, column]
    near = values[np.abs(values - threshold) < 1e-12]
    assert set(np.sign(near - threshold)) == {-1, 0, 1}
    assert np.isinf(named["hard float64"]).any()
    assert np.isnan(named["hard float64"]).any()


def test_every_departure_has_a_page():
    root = Path(hbconv.__file__).parents[1]
    for known in DEPARTURES:
        page = known.reason.rpartition("(")[2].rstrip(")")
        assert (root / page).is_file()
    assert is_known("ANSWERS", "no rows", "Found array with 0 sample(s)", LINEAR)
    assert not is_known("ANSWERS", "wide", "X has 7 features", LINEAR)
    assert not is_known("FORM", "float32", "ndarray of float64 for ndarray of float32", LINEAR)


# What the runner sees


FAULTS = """
import ctypes, os, runpy, signal, sys, time
from types import SimpleNamespace
import numpy as np
import hbconv
import hunt.seed as asking
from hunt.judge import Verdict
from hunt.runner import Limits, hunt

SEED = 2

def answering(fault):
    return lambda model, backend: SimpleNamespace(predict=fault)

def forever(rows):
    while True:
        pass

def refused(model, backend):
    raise hbconv.UnsupportedError("Forest", "final")

def tell(name, convert=hbconv.convert, seconds=60, wall_seconds=600, **options):
    limits = Limits(seconds, wall_seconds)
    (hunted,) = hunt([SEED], ["reference"], convert=convert, limits=limits, **options).backends
    kinds = sorted({f"{found.kind} {found.what} {found.method}" for found in hunted.findings})
    print(*(found.detail for found in hunted.findings if found.kind == "SIGNAL"), file=sys.stderr)
    print(name, "|", ", ".join(kinds), "|", hunted.fails, "|", dict(hunted.counts), flush=True)

tell("crash in convert", lambda model, backend: ctypes.string_at(0))
tell("crash in predict", answering(lambda rows: ctypes.string_at(0)))
tell("hang", answering(forever), seconds=1)
tell("wait", answering(lambda rows: time.sleep(600)), wall_seconds=6)
tell("flood", answering(lambda rows: bytearray(8 << 30)))
tell("exit", answering(lambda rows: sys.exit(0)))
tell("nameless", lambda model, backend: {}["model"])
tell("refused", refused)
tell("late", deadline=time.monotonic() - 1)

def crash(rows):
    ctypes.string_at(0)

def crash_on_torch(model, backend):
    return SimpleNamespace(predict={"reference": np.zeros_like, "torch": crash}[backend])

for hunted in hunt([SEED], ["torch", "reference"], convert=crash_on_torch).backends:
    kinds = {f"{found.kind} {found.backend}" for found in hunted.findings}
    print(hunted.backend, "|", ", ".join(sorted(kinds)), "|", hunted.fails, "|", hunted.seeds, flush=True)

draw = asking.draw_fitted
asking.draw_fitted = lambda seed, counts, drawing: os.kill(os.getpid(), signal.SIGSEGV)
tell("crash of the source")

asking.draw_fitted = draw
asking.judge = lambda *asked: Verdict("WRONG", "values")
sys.argv = ["hunt", "--backend", "reference", "--first", str(SEED), "--count", "1"]
runpy.run_module("hunt", run_name="__main__")
"""


@children
def test_the_runner_sees_deaths_hangs_and_errors_without_a_name():
    """A death on one backend leaves the others their answers. The last is a whole run of the
    command, which fails.
    """
    ran = run_fresh("-c", FAULTS)
    *lines, sources, summary, wrong = ran.stdout.splitlines()
    told = [line.split(" | ") for line in lines]
    assert {fault: (found, fails) for fault, found, fails, _ in told} == {
        "crash in convert": ("SIGNAL SIGSEGV convert", "True"),
        "crash in predict": ("SIGNAL SIGSEGV predict", "True"),
        "hang": ("SIGNAL out of time predict", "True"),
        "wait": ("SIGNAL waits forever predict", "True"),
        "flood": ("UNNAMED MemoryError predict", "True"),
        "exit": ("SIGNAL exit 1 predict", "True"),
        "nameless": ("UNNAMED KeyError convert", "True"),
        "refused": ("REFUSES UnsupportedError convert", "False"),
        "late": ("", "False"),
        "torch": ("SIGNAL torch", "True"),
        "reference": ("ANSWERS reference, WRONG reference", "True"),
        "crash of the source": ("", "False"),
    }, ran.stderr
    counts = {fault: count for fault, _, _, count in told}
    assert counts["late"] == "{}"
    assert counts["crash of the source"] == "{'source SIGSEGV': 1}"
    assert sources.startswith("The sources were fitted, parsed and asked in")
    assert summary.startswith("reference: 1 seeds in")
    assert " x WRONG: seed 2, reference, predict of plain: values" in wrong
    assert ran.returncode == 1


def test_a_falsified_model_is_found_with_its_rows():
    """The label of one row in a whole hunt of a seed: what a line of the report says of it."""

    def falsified(model, backend):
        converted = hbconv.convert(model, backend)
        first, second = model.classes_[:2]

        def predict(rows):
            labels = converted.predict(rows)
            return np.where(labels == first, second, labels)

        return SimpleNamespace(predict=predict)

    stream = StringIO()
    hunt_on(draw(2, "reference", Log(stream), falsified), "reference", Log(stream))
    events = [json.loads(line) for line in stream.getvalue().splitlines()]
    found = [value for event, value in events if event == "finds"]
    wrong = next(value for value in found if value["kind"] == "WRONG")
    told = {"seed": 2, "backend": "reference", "method": "predict", "what": "labels"}
    assert told.items() <= wrong.items()
    assert wrong["pipeline"].startswith("ExtraTreesClassifier")
    assert events[-1][0] == "ends"
    assert Counter(value["kind"] for value in found).items() <= events[-1][1][0].items()
