"""The pytest plugin in runs of its own: what it finds, what it leaves alone, what it prints and
writes.
"""

import json
import os
import subprocess
import sys
from collections import Counter

import pytest

SUITE = """
import pytest, warnings
import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.impute import SimpleImputer

X = np.random.RandomState(0).randn(30, 3)
y = (X[:, 0] > 0).astype(int)

def test_nested_calls_count_once():
    model = make_pipeline(StandardScaler(), RandomForestClassifier(3, n_jobs=2)).fit(X, y)
    assert model.score(X, y) > 0.5
    with pytest.raises(ValueError, match="NaN|features"):
        model.predict(X[:, :2])

def test_refusals_have_reasons():
    imputer = SimpleImputer(add_indicator=True).fit(X)
    imputer.inverse_transform(X)
    KNeighborsClassifier(weights=lambda d: 1 / (d + 1)).fit(X, y).predict(X)

class Own(RegressorMixin, BaseEstimator):
    def fit(self, X, y=None):
        self.fitted_ = True
        return self
    def predict(self, X):
        return X[:, 0]
    def __getattribute__(self, name):
        return super().__getattribute__(name)

def test_own_models_are_skipped():
    make_pipeline(StandardScaler(), Own()).fit(X, X[:, 0]).predict(X)
"""

POISON = """
import hbconv.model
original = hbconv.model.Model._method
def poisoned(self, name):
    method = original(self, name)
    if self.parsed.traits.estimator != "StandardScaler":
        return method
    def answer(X):
        {what}
    return answer
hbconv.model.Model._method = poisoned
"""


def run(folder, *arguments, suite=SUITE, poison=""):
    """Run a suite with the plugin in a process of its own; return its last lines and its
    outcomes.
    """
    (folder / "test_suite.py").write_text(suite)
    (folder / "conftest.py").write_text(poison and POISON.format(what=poison))
    (folder / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    file = folder / "outcomes.jsonl"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "hbconv.testing",
        "-p",
        "no:cacheprovider",
        f"--hbconv-report={file}",
        *arguments,
    ]
    done = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    outcomes = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    return done.returncode, done.stdout + done.stderr, outcomes


def kinds(outcomes):
    return Counter(outcome["kind"] for outcome in outcomes)


@pytest.mark.parametrize("arguments", [(), ("-n", "2")], ids=["one process", "xdist"])
def test_outermost_calls_are_judged_and_counted(tmp_path, arguments):
    code, printed, outcomes = run(tmp_path, *arguments)
    assert code == 0, printed
    assert kinds(outcomes) == {"right": 3, "refused": 2, "skipped": 1}
    assert "6 answers asked of hbconv" in printed
    assert "no method inverse_transform" in printed
    assert "KNeighborsClassifier with weights" in printed
    assert {outcome["test"] for outcome in outcomes if outcome["kind"] == "skipped"} == {
        "test_suite.py::test_own_models_are_skipped"
    }


SCALED = """
import numpy as np
from sklearn.preprocessing import StandardScaler
def test_scaled():
    assert abs(StandardScaler().fit_transform(np.eye(3)).sum()) < 1e-9
    try:
        StandardScaler().fit(np.eye(3)).transform(np.eye(3))
    except Exception:
        assert False, "the test sees nothing of it"
"""


@pytest.mark.parametrize(
    ("poison", "kind", "told"),
    [
        ("return method(X) + 1e-9", "wrong", "other values"),
        (
            "return method(X).astype('float32')",
            "wrong",
            "ndarray (3, 3) float32 instead of ndarray (3, 3) float64",
        ),
        ("raise IndexError('tuple index out of range')", "error", "IndexError"),
    ],
    ids=["value", "form", "error"],
)
def test_a_defect_fails_the_test_that_met_it(tmp_path, poison, kind, told):
    code, printed, outcomes = run(tmp_path, suite=SCALED, poison=poison)
    assert (code, kinds(outcomes)) == (1, {kind: 1})
    assert told in printed + str(outcomes)
    assert "1 failed" in printed


FIXTURES = """
import numpy as np, pytest
from sklearn.preprocessing import StandardScaler
scaler = StandardScaler().fit(np.eye(3))
@pytest.fixture
def before():
    return scaler.transform(np.eye(3))
@pytest.fixture
def after():
    yield
    scaler.transform(np.eye(3))
def test_before(before):
    pass
def test_after(after):
    pass
def test_neither():
    pass
"""


def test_a_defect_that_a_fixture_met_fails_its_test(tmp_path):
    code, printed, outcomes = run(tmp_path, suite=FIXTURES, poison="return -method(X)")
    assert (code, [o["test"] for o in outcomes]) == (
        1,
        ["test_suite.py::test_before", "test_suite.py::test_after"],
    )
    assert "1 failed, 2 passed, 1 error" in printed


def test_reports_alone_fail_nothing(tmp_path):
    code, printed, outcomes = run(
        tmp_path, "--hbconv-report-only", suite=SCALED, poison="return -method(X)"
    )
    assert (code, kinds(outcomes)) == (0, {"wrong": 1})
    assert "another answer than the source's" in printed


def test_several_backends_are_asked(tmp_path):
    code, _, outcomes = run(
        tmp_path, "--hbconv-backend=reference", "--hbconv-backend=torch", suite=SCALED
    )
    assert (code, [outcome["backend"] for outcome in outcomes]) == (0, ["reference", "torch"])
