"""Rows of other dtypes go to a program that is there, where the source answers them alike."""

from __future__ import annotations

import logging
import pickle
from functools import cache

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import hbconv
from hbconv.errors import InputError, OptionError

NAMES = ["a", "b", "c"]
ROWS = np.random.default_rng(0).integers(-9, 9, (40, 3)).astype(float)
FRAME = pd.DataFrame(ROWS + 0.5, columns=NAMES)


@cache
def source(kind):
    made = (
        RandomForestClassifier(5, random_state=0)
        if kind == "forest"
        else make_pipeline(StandardScaler(), Ridge())
    )
    return made.fit(FRAME, np.arange(40) % 3)


def model(kind, on_new_dtypes="compile", backend="reference"):
    return hbconv.convert(source(kind), backend, on_new_dtypes=on_new_dtypes)


def dtypes(found):
    return [program.dtypes for program in found.compiled]


NARROW = {
    "ints": pd.DataFrame(ROWS.astype(int), columns=NAMES),
    "int8 among floats": pd.DataFrame(ROWS, columns=NAMES).astype({"b": "int8"}),
    "bools": pd.DataFrame(ROWS > 0, columns=NAMES),
    "nullable": pd.DataFrame(ROWS.astype(int), columns=NAMES).astype("Int64"),
    "objects": pd.DataFrame(ROWS.astype(int), columns=NAMES).astype(object),
    "a record": {"a": 1, "b": 2.5, "c": True},
}


@pytest.mark.parametrize("order", [1, -1], ids=["floats first", "floats last"])
@pytest.mark.parametrize("kind", ["forest", "linear"])
@pytest.mark.parametrize("rows", NARROW.values(), ids=NARROW)
def test_one_program_answers_ints_and_floats(rows, kind, order):
    found = model(kind)
    for given in [FRAME, rows][::order]:
        frame = given if isinstance(given, pd.DataFrame) else pd.DataFrame([given])
        np.testing.assert_allclose(
            found.predict(given), source(kind).predict(frame), rtol=1e-12, atol=1e-12
        )
    assert dtypes(found) == [("float64",) * 3]


def test_float32_goes_to_trees_of_float64_but_not_to_a_scaler():
    forest, linear = model("forest"), model("linear")
    for found, kind in ((forest, "forest"), (linear, "linear")):
        found.predict(FRAME)
        rows = FRAME.astype("float32")
        np.testing.assert_allclose(found.predict(rows), source(kind).predict(rows), rtol=1e-6)
    assert dtypes(forest) == [("float64",) * 3]
    assert dtypes(linear) == [("float64",) * 3, ("float32",) * 3]


def test_rows_are_converted_where_that_is_allowed(caplog):
    found = model("linear", "convert")
    found.predict(FRAME)
    rows = FRAME.astype("float32")
    with caplog.at_level(logging.WARNING, "hbconv"):
        answers = found.predict(rows)
    np.testing.assert_array_equal(answers, found.predict(rows.astype("float64")))
    assert dtypes(found) == [("float64",) * 3]
    assert "rows of float32 are converted to float64" in caplog.text


@pytest.mark.parametrize("on_new_dtypes", ["convert", "refuse"])
def test_rows_that_no_program_holds_are_refused(on_new_dtypes):
    found = model("linear", on_new_dtypes)
    narrow, wide = (FRAME.astype(dtype) for dtype in ("float32", "float64"))
    found.predict(narrow)
    with pytest.raises(InputError, match=r"rows are of float64, .* compiled for float32"):
        found.predict(wide)
    found.compile(wide)
    np.testing.assert_allclose(found.predict(wide), source("linear").predict(wide))


def test_ints_that_float64_does_not_hold_have_a_program_of_their_own_or_are_refused():
    rows = pd.DataFrame(np.full((2, 3), 2**53 + 1), columns=NAMES)
    found, strict = model("forest"), model("forest", "refuse")
    for each in (found, strict):
        each.predict(FRAME)
    np.testing.assert_array_equal(found.predict(rows), source("forest").predict(rows))
    assert dtypes(found) == [("float64",) * 3, ("int64",) * 3]
    with pytest.raises(InputError, match=r"Column 'a' holds ints beyond 2\*\*53"):
        strict.predict(rows)


def test_a_fast_call_refuses_the_first_int_that_float64_does_not_hold():
    forest = RandomForestClassifier(5, random_state=0).fit(ROWS, np.arange(40) % 3)
    strict = hbconv.convert(forest, "tvm", on_new_dtypes="refuse", sample=ROWS)
    for count in (1, 1, 1):  # the first call finds the fast one
        ints = ROWS[:count].astype(int)
        np.testing.assert_array_equal(strict.predict(ints), forest.predict(ints))
    with pytest.raises(InputError, match=r"Column 0 holds ints beyond 2\*\*53"):
        strict.predict(np.array([[2**53 + 1, 0, 0]]))
    assert strict.predict(np.array([[2**53, 0, 0]])) == forest.predict([[2**53, 0, 0]])


def test_a_loaded_service_compiles_nothing_for_new_dtypes(tmp_path):
    path = tmp_path / "model.hbc"
    hbconv.convert(source("linear"), "onnx", sample=FRAME).save(path)
    rows = FRAME.astype("float32")
    loaded = hbconv.load(path, trusted=True)
    np.testing.assert_allclose(loaded.predict(FRAME), source("linear").predict(FRAME))
    with pytest.raises(InputError, match="on_new_dtypes='compile'"):
        loaded.predict(rows)
    assert {program.dtypes for program in loaded.compiled} == {("float64",) * 3}
    asked = hbconv.load(path, on_new_dtypes="compile")
    np.testing.assert_allclose(asked.predict(rows), source("linear").predict(rows), rtol=1e-5)
    again = pickle.loads(pickle.dumps(asked))
    np.testing.assert_allclose(again.predict(rows), source("linear").predict(rows), rtol=1e-5)


def test_a_compilation_is_logged(caplog):
    with caplog.at_level(logging.INFO, "hbconv"):
        model("forest").predict(FRAME)
    assert "compiled predict for 3 columns (3 float64) on reference in" in caplog.text


def test_programs_are_listed():
    found = model("forest")
    assert found.compiled == ()
    found.compile(FRAME)
    listed = {str(program) for program in found.compiled}
    assert listed == {f"{method} of float64" for method in found.parsed.exported}


def test_an_unknown_option_is_refused():
    with pytest.raises(OptionError, match="Did you mean 'convert'"):
        model("forest", "converts")


def test_an_array_warns_each_time_where_the_source_was_fitted_on_names():
    found = model("forest", backend="torch")
    for _ in range(3):
        with pytest.warns(
            UserWarning, match="RandomForestClassifier was fitted with feature names"
        ):
            answers = found.predict(FRAME.to_numpy()[:1])
        np.testing.assert_array_equal(answers, source("forest").predict(FRAME[:1]))
    assert found._methods["predict"]._plans[np.dtype("float64")] is not None
