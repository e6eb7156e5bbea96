"""Models that cannot be read though nothing is damaged: each error says what it is."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import zipfile

import numpy as np
import pytest
from late import late
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import hbconv
from hbconv.cli.sources import load_source
from hbconv.containers import Affine, Schema
from hbconv.errors import ConversionError, MissingPackageError
from hbconv.parse import registry, soundness

X = np.random.default_rng(0).normal(size=(40, 3))
PIPELINE = make_pipeline(StandardScaler(), SimpleImputer(), LinearRegression()).fit(X, X[:, 0])
BOOSTING = GradientBoostingRegressor(n_estimators=2).fit(X, X[:, 0])


def message(source, error=ConversionError):
    with pytest.raises(error) as caught:
        hbconv.convert(source, "reference")
    assert "damaged" not in str(caught.value)
    return str(caught.value)


def fail(_step):
    return {}["no such key"]


def parser_of(module, parse=fail):
    parse.__module__ = module
    return parse


@pytest.mark.parametrize("error", [TypeError("no"), KeyError("no"), AttributeError("no")])
def test_a_defect_of_hbconv_asks_for_a_report(monkeypatch, error):
    """In a parser, and where a node is lowered or typed."""

    def broken(*_):
        raise error

    entry = registry.find_entry("sklearn.linear_model.LinearRegression")
    own = dataclasses.replace(entry, parse=parser_of("hbconv.parse.sklearn", broken))
    monkeypatch.setattr(registry, "_FOUND", {LinearRegression: own})
    said = message(PIPELINE)
    assert "LinearRegression (step 'linearregression/LinearRegression') cannot be read" in said
    assert "report this as a defect of hbconv" in said
    monkeypatch.setattr(registry, "_FOUND", {})
    for name in ("lower", "infer"):
        with monkeypatch.context() as patch:
            patch.setattr(Affine, name, broken)
            assert "report this as a defect of hbconv" in message(PIPELINE)


def test_a_defect_of_a_third_party_names_its_parser(monkeypatch):
    entry = registry.find_entry("sklearn.linear_model.LinearRegression")
    own = dataclasses.replace(entry, parse=parser_of("their.parsers"))
    monkeypatch.setattr(registry, "_FOUND", {LinearRegression: own})
    said = message(PIPELINE)
    assert "is read by their.parsers.fail, which raised KeyError: 'no such key'" in said


@pytest.mark.parametrize(
    ("source", "at", "attribute", "owner"),
    [
        (PIPELINE, lambda model: model[1], "strategy", "SimpleImputer"),
        (BOOSTING, lambda model: model, "_loss", "GradientBoostingRegressor"),
        (BOOSTING, lambda model: model._loss, "link", "HalfSquaredError"),
    ],
)
def test_an_estimator_of_another_version(source, at, attribute, owner):
    """Versions of a library add attributes, which models of older ones lack."""
    model = copy.deepcopy(source)
    vars(at(model)).pop(attribute)
    said = message(model)
    assert "another version of sklearn than the installed" in said
    assert f"its {owner} has no attribute '{attribute}'" in said


def renamed(data, old, new):
    """Pickled bytes with another name of the same length."""
    assert len(old) == len(new)
    assert data.count(old)
    return data.replace(old, new)


@pytest.mark.parametrize(
    ("module", "error", "says"),
    [
        (b"sklearn.impute._past", ConversionError, "cannot be read.*versions that wrote it"),
        (b"sknotit.impute._base", MissingPackageError, "needs the package 'sknotit'"),
    ],
)
def test_a_pickle_of_another_version_or_library(tmp_path, module, error, says):
    """A class that has moved is no damage, and neither is a library that is not installed."""
    path = tmp_path / "model.pkl"
    path.write_bytes(renamed(pickle.dumps(PIPELINE[1]), b"sklearn.impute._base", module))
    with pytest.raises(error, match=says):
        load_source(path, allow_pickle=True)


def test_a_skops_file_of_another_version(tmp_path):
    path = tmp_path / "model.skops"
    late("skops.io").dump(PIPELINE[1], tmp_path / "whole.skops")
    with zipfile.ZipFile(tmp_path / "whole.skops") as old, zipfile.ZipFile(path, "w") as new:
        for part in old.namelist():
            data = old.read(part)
            new.writestr(part, data.replace(b'"strategy"', b'"procedure"'))
    assert "another version of sklearn than the installed" in message(path)


def test_too_many_columns(monkeypatch):
    monkeypatch.setattr(soundness, "MOST_ROW_VALUES", 5)
    assert "makes 3 numbers of each row, and hbconv takes up to 5" in message(PIPELINE)
    with pytest.raises(ConversionError, match="reads 5000000 columns; hbconv takes 0 to 4194304"):
        Schema.matrix(5_000_000)
