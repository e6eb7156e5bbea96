"""Functions of numpy over bools and narrow ints, which it computes in narrow types."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from tolerances import FUNCTION, assert_units

import hbconv
from hbconv.errors import InputError

FRAME = pd.DataFrame({"flag": np.array([1, 0, 1], np.int8), "amount": [1.0, 2.5, 3.0]})


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16", "uint16"])
@pytest.mark.parametrize("function", [np.log1p, np.tanh])
def test_rows_that_numpy_rounds_are_refused(function, dtype):
    source = FunctionTransformer(function).fit(np.ones((3, 2)))
    model = hbconv.convert(source, sample=np.ones((3, 2)))
    rows = np.array([[1, 0], [1, 1]]).astype(dtype)
    assert source.transform(rows).dtype in (np.float16, np.float32)
    for _ in range(2):
        with pytest.raises(InputError, match="Give float64"):
            model.transform(rows)


def test_what_wraps_around_is_refused():
    source = FunctionTransformer(np.negative).fit(np.ones((3, 2)))
    model = hbconv.convert(source, sample=np.ones((3, 2)))
    rows = np.array([[1, 2]])
    np.testing.assert_array_equal(model.transform(rows.astype(np.int8)), [[-1, -2]])
    with pytest.raises(InputError, match="Give float64"):
        model.transform(rows.astype(np.uint8))


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "float32"])
def test_other_rows_are_answered(dtype):
    source = FunctionTransformer(np.log1p).fit(np.ones((3, 2)))
    rows = np.array([[1, 0], [2, 3]]).astype(dtype)
    got, want = hbconv.convert(source, sample=rows).transform(rows), source.transform(rows)
    assert_units("log1p", got, want, FUNCTION)


def test_a_frame_is_computed_column_by_column():
    source = FunctionTransformer(np.log1p).fit(FRAME)
    with pytest.raises(InputError, match="Give float64"):
        hbconv.convert(source, sample=FRAME).transform(FRAME)


PASSED = ColumnTransformer([("all", "passthrough", ["flag", "amount"])])


@pytest.mark.parametrize(
    "source",
    [
        FunctionTransformer(np.log1p, validate=True),
        make_pipeline(PASSED, FunctionTransformer(np.log1p)),
        make_pipeline(PASSED, FunctionTransformer(lambda x: np.log1p(x))),  # noqa: PLW0108
    ],
    ids=["validated", "passed", "traced"],
)
def test_an_array_of_mixed_columns_has_their_common_dtype(source):
    source.fit(FRAME)
    got, want = hbconv.convert(source, sample=FRAME).transform(FRAME), source.transform(FRAME)
    np.testing.assert_array_equal(np.asarray(got), np.asarray(want))
    only_flags = FRAME.assign(amount=FRAME["flag"])
    with pytest.raises(InputError, match="Give float64"):
        hbconv.convert(source, sample=FRAME).transform(only_flags)
