"""What a Model repeats of its estimator, where it can stand in for it, and what it is written
to.
"""

from __future__ import annotations

import copy
import logging
import re

import numpy as np
import pytest
import torch
from fitted import fit, labels, matrix, rows, table
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.metrics import get_scorer
from sklearn.pipeline import Pipeline
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.validation import check_is_fitted

import hbconv


def model(name="linear", backend="reference", **options):
    return hbconv.convert(fit(name), backend, **options)


def test_attributes_are_those_of_the_estimator():
    found = model("mixed")
    np.testing.assert_array_equal(found.classes_, fit("mixed").classes_)
    np.testing.assert_array_equal(found.feature_names_in_, fit("mixed").feature_names_in_)
    assert found.feature_names_in_.dtype == object
    assert found.n_features_in_ == 3
    np.testing.assert_array_equal(
        model("encoder").get_feature_names_out(), fit("encoder").get_feature_names_out()
    )


def test_attributes_that_the_estimator_lacks_are_lacking():
    assert not hasattr(model("linear"), "feature_names_in_")
    assert not hasattr(model("regressor"), "classes_")
    assert not hasattr(model("regressor"), "get_feature_names_out")
    assert {"predict", "predict_proba"} <= set(dir(model("linear")))


def test_the_classes_cannot_be_changed_from_outside():
    found = model("linear")
    found.classes_[0] = "other"
    np.testing.assert_array_equal(found.classes_, fit("linear").classes_)


def test_it_says_what_it_is():
    found = model("forest")
    assert (
        repr(found)
        == "<hbconv.Model of RandomForestClassifier: predict, predict_proba, predict_log_proba, apply; 6 columns; reference on cpu>".replace(
            "predict, predict_proba, predict_log_proba, apply", ", ".join(found.methods)
        )
    )
    explanation = found.explain()
    assert explanation.to_dict()["target"]["backend"] == "reference"
    assert [p["method"] for p in explanation.to_dict()["programs"]] == list(found.methods)
    assert "Graph as parsed" in str(explanation)


def test_it_stands_where_a_fitted_estimator_does():
    found = model("linear")
    check_is_fitted(found)
    assert is_classifier(found)
    assert is_regressor(model("regressor"))
    assert clone(found) is found
    assert get_scorer("accuracy")(found, matrix(), labels()) == get_scorer("accuracy")(
        fit("linear"), matrix(), labels()
    )
    chain = Pipeline([("scale", model("scaler")), ("rest", fit("linear")[-1])])
    np.testing.assert_array_equal(chain.predict(matrix()), fit("linear").predict(matrix()))


def test_copies_are_models_of_their_own():
    found = copy.deepcopy(model("mixed"))
    np.testing.assert_array_equal(found.predict(table()), fit("mixed").predict(table()))


def test_moving_it_keeps_the_model():
    found = model("linear", "torch")
    assert found.to("cpu") is found
    other = found.for_target(backend="reference")
    assert (other.backend, found.backend) == ("reference", "torch")
    np.testing.assert_array_equal(other.predict(matrix()), found.predict(matrix()))


def test_the_module_takes_and_gives_tensors():
    found = model("forest", "torch", sample=matrix()[:2])
    answers = dict(
        zip(found.parsed.exported, found.module(torch.from_numpy(matrix())), strict=True)
    )
    np.testing.assert_array_equal(answers["predict_proba"].numpy(), found.predict_proba(matrix()))
    np.testing.assert_array_equal(
        found.classes_[answers["predict"].numpy()[:, 0]], found.predict(matrix())
    )


def test_the_module_takes_the_dtypes_of_fitting_where_no_sample_said_otherwise():
    found = model("regressor", "torch")
    assert [i.type.dtype for i in found.module.inputs] == ["float64"]
    assert found.module(torch.zeros(0, 6, dtype=torch.float64)).shape == (0, 1)


@pytest.mark.parametrize("suffix", [".pt", ".pt2"])
@pytest.mark.parametrize("count", [0, 1, 5])
def test_torch_files_run_without_hbconv(suffix, count, tmp_path):
    found, x = model("forest", sample=np.float32(matrix()[:2])), np.float32(matrix()[:count])
    found.export(tmp_path / f"m{suffix}")
    if suffix == ".pt":
        with pytest.warns(DeprecationWarning, match="torch.jit"):
            loaded = torch.jit.load(tmp_path / "m.pt")
    else:
        loaded = torch.export.load(tmp_path / "m.pt2").module()
    answers = dict(zip(found.parsed.exported, loaded(torch.from_numpy(x)), strict=True))
    np.testing.assert_array_equal(answers["predict_proba"].numpy(), found.predict_proba(x))


def test_onnx_files_take_named_columns(tmp_path):
    import onnxruntime

    found, x = model("mixed", sample=table()[:2]), table()[:7]
    found.export(tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    answers = session.run(
        ["predict", "predict_proba"],
        {
            i.name: x[[i.name]].to_numpy(object if i.name == "colour" else float)
            for i in session.get_inputs()
        },
    )
    np.testing.assert_array_equal(np.ravel(answers[0]), fit("mixed").predict(x))
    np.testing.assert_allclose(answers[1], fit("mixed").predict_proba(x), atol=1e-6)


def test_an_export_with_the_suffix_of_a_save_is_a_save(tmp_path):
    model("linear").export(tmp_path / "m.hbc")
    np.testing.assert_array_equal(
        hbconv.load(tmp_path / "m.hbc").predict(matrix()), fit("linear").predict(matrix())
    )


def test_infinite_log_probabilities_agree():
    source = DecisionTreeClassifier(max_depth=3).fit(matrix(), labels())
    with np.errstate(divide="ignore"):
        assert np.isneginf(source.predict_log_proba(matrix())).any()
    report = hbconv.verify(source, hbconv.convert(source, "reference"), matrix())
    assert report.ok
    assert report.largest == 0


def test_a_report_tells_what_differs():
    report = hbconv.verify(fit("linear"), model("linear"), matrix())
    assert report.ok
    assert "The model answers as its source does." in str(report)
    other = hbconv.verify(fit("forest"), model("linear"), rows("linear"))
    assert not other.ok
    assert other.flipped > 0
    assert other.to_dict()["methods"]["predict"]["flipped"] == other.flipped
    assert other.largest > 0.01
    assert "DIFFERENT" in str(other)


def test_a_conversion_tells_how_it_goes_on(caplog):
    with caplog.at_level(logging.INFO, "hbconv"):
        hbconv.convert(fit("linear"), "reference", sample=matrix()[:2])
    said = [record.getMessage() for record in caplog.records]
    assert re.fullmatch(r"read \w+ as \d+ nodes in \d+\.\d\d s", said[0])
    assert re.fullmatch(r"optimized \d+ nodes to \d+ in \d+\.\d\d s", said[1])
    assert "compiled predict for" in said[2]
