"""Damaged model files and estimators, a few of each kind: ``make fuzz`` tries many more."""

from __future__ import annotations

import numpy as np
import pytest
from fuzz.estimators import estimators
from fuzz.files import FILES
from fuzz.judge import answers_alike, in_child
from fuzz.runner import Subject, fuzz

FEW = ("StandardScaler", "LogisticRegression", "RandomForestClassifier", "GradientBoostingRegressor", "SVC", "MLPRegressor", "PCA", "AdaBoostClassifier")


@pytest.mark.parametrize("subject", FILES, ids=[subject.name for subject in FILES])
def test_damaged_files(subject):
    report = fuzz(subject, range(12))
    assert not report.findings, str(report)
    assert report.outcomes["ConversionError"], str(report)


def test_damaged_estimators():
    report = fuzz(estimators(FEW), range(40))
    assert not report.findings, str(report)
    assert report.outcomes["ConversionError"], str(report)
    assert report.outcomes["answered"], str(report)


def test_answers_that_differ_and_errors_without_a_name_are_found():
    def attempt(path, rng):
        if rng.random() < 0.5:
            raise KeyError("learner")
        answers_alike({"predict": np.zeros(3)}, {"predict": np.zeros(3) + 1e-3})

    report = fuzz(Subject("poison", lambda folder: (folder / "a").write_bytes(b"a"), lambda data, rng: data, attempt), range(10))
    assert report.outcomes["unnamed"] == 10
    assert {what.partition(":")[0] for what in report.findings.values()} == {"KeyError", "AssertionError"}


def test_a_source_that_dies_answers_nothing():
    import os

    assert in_child(lambda: os.kill(os.getpid(), 9)) == (False, None)
    assert in_child(lambda: 1 / 0) == (True, None)
    assert in_child(lambda: [1, 2]) == (True, [1, 2])
