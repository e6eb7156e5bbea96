"""The table of support: a status that changes unnoticed fails; ``--update-support`` asks anew
and writes the table and its page.
"""

import json
from pathlib import Path
from typing import ClassVar

import pytest
from breadth.support import estimators, refusals, right, statuses
from fitted import available_backends
from matrix.estimators import CaseName, first_names

from hbconv.backends import EXPORTS, Backend
from hbconv.cli import main
from hbconv.cli.support import BACKENDS, count, support_data, support_page
from hbconv.target import Target
from hbconv.tensor import Builder

ROOT = Path(__file__).parents[3]
DATA = ROOT / "hbconv/support.json"
PAGE = ROOT / "docs/support.md"


@pytest.fixture(scope="module", autouse=True)
def _updated(request):
    if request.config.getoption("--update-support"):
        found = {name: _facts(listed) for name, listed in estimators().items()}
        DATA.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        PAGE.write_text(support_page(found), encoding="utf-8")


def _facts(listed):
    if not isinstance(listed, CaseName):
        return {"why": listed}
    case = listed.made()
    name = case.estimator.rpartition(".")[2]
    return {
        "methods": statuses(case),
        "right": right(case),
        "refused": refusals(name) if case.estimator.startswith("sklearn.") else {},
    }


def test_every_estimator_is_listed():
    assert list(support_data()) == list(estimators())
    assert {name: facts["why"] for name, facts in support_data().items() if "why" in facts} == {
        n: c for n, c in estimators().items() if isinstance(c, str)
    }


@pytest.mark.parametrize("case", first_names(), ids=str, indirect=True)
@pytest.mark.share("light")
def test_statuses_are_noticed(case):
    assert statuses(case) == support_data()[case.estimator]["methods"]


def test_the_page_is_of_the_data():
    assert PAGE.read_text(encoding="utf-8") == support_page(support_data())


def test_all_backends_are_columns():
    assert {*available_backends(), *EXPORTS} == set(BACKENDS)


class Poor(Backend):
    """A backend that adds and casts alone, and says why it cannot multiply."""

    name = "poor"
    emits = frozenset({"cast", "add"})
    rewrites: ClassVar = {"neg": lambda b, x: b.op("add", x, x)}
    refuses: ClassVar = {"mul": "it has no multiplier"}

    def emit(self, program, target):
        raise NotImplementedError


@pytest.mark.parametrize(
    ("primitive", "status"),
    [
        ("add", "native"),
        ("neg", "lowered"),
        ("mul", "cannot: it has no multiplier"),
        ("sub", "not yet: sub"),
    ],
)
def test_a_status_says_why(primitive, status):
    b = Builder()
    x = b.input("x", "float64", 2)
    program = b.program({"y": b.op(primitive, x) if primitive == "neg" else b.op(primitive, x, x)})
    assert Poor().status(program, Target("poor")) == status


def test_enough_estimators_are_right():
    right = count(support_data())["sklearn"]
    assert min(right["reference"], right["torch"], right["torchscript"]) >= 175
    assert min(right["onnx"], right["tvm"]) >= 165


def test_the_command_prints_counts_and_rows(capsys):
    assert main(["support"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("estimators right on")
    assert "sklearn.cluster.DBSCAN" in out
    assert "cannot: it labels the rows it was fitted on" in out


def test_the_command_prints_one_estimator(capsys):
    assert main(["support", "columntransformer"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("sklearn.compose.ColumnTransformer\n")
    assert "right on: reference, torch" in out
    assert main(["support", "DBSCAN", "--json"]) == 0
    assert (
        "no rule for others" in json.loads(capsys.readouterr().out)["sklearn.cluster.DBSCAN"]["why"]
    )


def test_the_command_names_near_ones(capsys):
    assert main(["support", "KMean"]) == 2
    assert "Near it: KMeans" in capsys.readouterr().err
