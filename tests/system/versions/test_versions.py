"""The table of versions: its floors, its page, and the battery in the environment at hand."""

from __future__ import annotations

import dataclasses
import json
import tomllib

import pytest
from fresh import run_fresh
from matrix.estimators import cases_of
from packaging.requirements import Requirement
from packaging.version import Version
from versions.answer import BACKENDS, Answer
from versions.battery import judge_case
from versions.table import PAGE, ROOT, SHOWN, read_rows, write_page

ROWS = read_rows()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def floors():
    """Return the oldest version that the project accepts of each package, by its name."""
    optional = PROJECT["optional-dependencies"]
    lists = [PROJECT["dependencies"], *(optional[name] for name in optional if name != "test")]
    requirements = [Requirement(line) for lines in lists for line in lines]
    return {
        requirement.name: {part.version for part in requirement.specifier if part.operator == ">="}
        for requirement in requirements
    }


def test_the_first_row_is_what_the_project_accepts_at_least():
    accepted = floors()
    oldest = dict(requirement.split("==") for requirement in ROWS[0].packages)
    shared = oldest.keys() & accepted.keys()
    assert shared >= {"scikit-learn", "numpy", "lightgbm", "xgboost", "catboost", "onnxruntime"}
    assert {name: {Version(oldest[name])} for name in shared} == {
        name: set(map(Version, accepted[name])) for name in shared
    }


def test_no_library_that_is_read_has_an_upper_bound():
    bounds = [
        requirement
        for lines in PROJECT["optional-dependencies"].values()
        for requirement in map(Requirement, lines)
        if requirement.name in SHOWN
        and any(part.operator != ">=" for part in requirement.specifier)
    ]
    assert bounds == []


def test_the_page_has_every_row():
    page = PAGE.read_text("utf-8")
    for row in ROWS:
        versions = " | ".join(row.version(package) for package in SHOWN)
        assert f"| {row.name} | {row.python} | {versions} |" in page


def test_the_page_has_a_line_for_what_ends_alike_in_several_rows():
    refused = Answer("first case", "A[b]", "onnx", "refused", "Not | supported.")
    agrees = Answer("pipeline", "3", "onnx", "agrees")
    page = write_page({row.name: [refused, agrees] for row in ROWS[:2]}, ROWS[:2])
    first, second = (row.name for row in ROWS[:2])
    for name in (first, second):
        assert (
            f"| {name} | 0 | not measured | 1 refused | not measured | not measured | 1 agrees |"
            in page
        )
    assert f"| `A[b]` | onnx | refused | Not / supported. | {first}, {second} |" in page


def test_a_case_and_a_pipeline_agree_here():
    ran = run_fresh("-m", "versions.battery", "--only", "SimpleImputer", "--seeds", "1")
    answers = [Answer(**json.loads(line)) for line in ran.stdout.splitlines()]
    asked = [(answer.kind, answer.backend, answer.verdict) for answer in answers]
    assert asked == [
        *(("first case", backend, "agrees") for backend in BACKENDS),
        ("pipeline", "reference", "agrees"),
    ], ran.stderr


def unfit():
    raise TypeError("no such parameter")


@pytest.mark.parametrize(
    ("changed", "verdict"),
    [
        ({"fit": unfit}, "absent"),
        ({"fit": dict}, "refused"),
        ({"ask": lambda estimator, method, x: getattr(estimator, method)(x) + 1}, "differs"),
    ],
    ids=["absent", "refused", "differs"],
)
def test_each_verdict_is_reached(changed, verdict):
    case = dataclasses.replace(cases_of("sklearn.impute")[0], **changed)
    (answer,) = judge_case(case, ["reference"])
    assert answer.verdict == verdict
