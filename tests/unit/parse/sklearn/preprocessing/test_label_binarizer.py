"""Binarizers of labels and TargetEncoder: what the matrix does not say."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import LabelBinarizer, MultiLabelBinarizer, TargetEncoder

import hbconv
from hbconv.errors import InputError


def same(source: object, y: object) -> np.ndarray:
    """Assert that a converted model transforms y as the source does."""
    got = hbconv.convert(source, backend="reference").transform(y)
    want = source.transform(y)
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    np.testing.assert_array_equal(got, want)
    return got


def test_text_labels() -> None:
    """Text in a list, unknown text among it; two classes share a column."""
    assert (
        same(
            LabelBinarizer().fit(["b", "a", "c"]), np.array(["c", "a", "zz", "b"], dtype=object)
        ).sum()
        == 3
    )
    same(
        LabelBinarizer(pos_label=5).fit(["no", "yes"]), np.array(["yes", "no", "yes"], dtype=object)
    )


def test_bool_labels() -> None:
    """Labels that are bools."""
    same(LabelBinarizer().fit([True, False]), np.array([True, False, True]))


def test_unseen_label_of_two() -> None:
    """Among unseen labels the source makes a second column of two classes; a model has one
    width.
    """
    source = LabelBinarizer().fit([0, 1])
    assert (source.transform([0, 1, 2]).shape, source.transform([0, 2]).shape) == ((3, 2), (2, 1))
    with pytest.raises(InputError, match="unseen"):
        hbconv.convert(source, backend="reference").transform(np.array([0, 1, 2]))


@pytest.mark.parametrize("y", [[0.0, 0.5], [np.nan, 1.0], [np.inf, 1.0]])
def test_no_labels(y: list[float]) -> None:
    """Numbers with a fraction, NaN and infinity are no labels."""
    source = LabelBinarizer().fit([0, 1, 2])
    with np.errstate(invalid="ignore"), pytest.raises(ValueError):
        source.transform(np.array(y))
    with pytest.raises(InputError):
        hbconv.convert(source, backend="reference").transform(np.array(y))


def test_target_encoder_of_missing_values() -> None:
    """NaN and None are categories where they were seen, unknown where not."""
    x = pd.DataFrame({"text": ["a", "b", None, "a"] * 9, "number": [1.0, 2.0, np.nan, 3.0] * 9})
    source = TargetEncoder(smooth=0.5).fit(x, np.arange(36) % 7)
    same(
        source, pd.DataFrame({"text": ["b", None, "zz", np.nan], "number": [np.nan, 2.0, 9.0, 1.0]})
    )
    same(
        TargetEncoder(smooth=0.5).fit(x[:2], [0.0, 1.5]),
        pd.DataFrame({"text": ["b", None], "number": [np.nan, 2.0]}),
    )


@pytest.mark.filterwarnings("ignore:unknown class")
def test_sets_of_labels() -> None:
    """Sets, lists and tuples of texts or numbers; a text alone is refused, whose letters the
    source takes.
    """
    same(
        MultiLabelBinarizer().fit([{"b", "a"}, {"c"}]),
        [{"a", "c"}, set(), ["b", "b", "zz"], ("c",)],
    )
    source = MultiLabelBinarizer().fit([[1, 2], [7]])
    same(source, [[7, 1], [3], [2.0]])
    with pytest.raises(InputError, match="single string"):
        hbconv.convert(source, backend="reference").transform(["12"])
