"""What a prompt shows of hbconv's values is short, and says how to see the rest."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression

import hbconv
from hbconv.errors import OptionError
from hbconv.markup import html_table
from hbconv.names import MOST_LINES, abridge

ROWS = np.random.default_rng(0).normal(size=(60, 30))


@pytest.fixture(scope="module")
def source():
    return RandomForestClassifier(20, random_state=0).fit(ROWS, ROWS[:, 0] > 0)


@pytest.fixture(scope="module")
def model(source):
    return hbconv.convert(source, backend="reference")


def test_values_are_shown_in_few_lines(source, model):
    report = hbconv.verify(source, model, ROWS)
    for value in (model, model.explain(), model.graph, model.plan, model.schema, report):
        shown = repr(value)
        assert len(shown.splitlines()) <= MOST_LINES
        assert len(shown) < 5000
    assert "predict_proba" in repr(model.graph)
    assert "30 float64" in repr(model.schema)
    assert "answers as its source" in repr(report)


def test_long_texts_end_in_how_many_lines_are_left():
    lines = abridge("\n".join("x" * MOST_LINES * 3)).splitlines()
    assert len(lines) == MOST_LINES
    assert lines[-1] == f"... {MOST_LINES * 2 + 1} more lines: print it"


def test_a_model_does_not_offer_to_be_fitted(model):
    assert "fit" not in dir(model)
    assert "predict" in dir(model)


def test_misspelt_options_are_answered_with_the_nearest(source):
    with pytest.raises(OptionError, match="Did you mean 'backend'"):
        hbconv.convert(source, bakend="torch")


def test_verify_tells_its_arguments_apart(source, model):
    with pytest.raises(OptionError, match="is a RandomForestClassifier, not a converted model"):
        hbconv.verify(model, source, ROWS)


def test_notebooks_show_tables(source, model):
    report = hbconv.verify(source, model, ROWS)
    page = report._repr_html_()
    assert "60 rows on backend reference" in page
    assert "The model answers as its source does." in page
    assert page.count("<tr>") == 1 + len(report.differences)
    plan = hbconv.convert(source, backend="torch").plan
    assert plan._repr_html_().count("<tr>") == sum(
        1 + len(choice.costs) + len(choice.refusals) for _, choice in plan.choices
    )


def test_a_plan_without_trees_says_so():
    linear = LinearRegression().fit(ROWS, ROWS[:, 0])
    assert "No trees" in hbconv.convert(linear, backend="reference").plan._repr_html_()


def test_names_do_nothing_in_a_table():
    found = html_table("<b>\x1b", ["<i>"], [["<script>"]])
    assert not any(mark in found for mark in ("<b>\x1b", "<i>", "<script>", "\x1b"))


def test_a_picture_goes_to_a_file(model, tmp_path):
    picture = model.explain().to_svg(tmp_path / "m.svg")
    assert (tmp_path / "m.svg").read_text(encoding="utf-8") == picture


def test_shares_are_of_what_is_asked(model):
    explanation = model.explain()
    assert "predicted time of predict, predict_proba<" in explanation.to_svg()
    assert "predicted time of contributions<" in explanation.to_svg(methods=["contributions"])
    with pytest.raises(OptionError, match="Did you mean 'predict'"):
        explanation.to_svg(methods=["predct"])
