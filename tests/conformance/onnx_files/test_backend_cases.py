"""The cases of onnx's own backend test are answered, or refused by name."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numpy as np
import pytest
from onnx.backend.test.loader import load_model_tests

import hbconv

ML = (
    "binarizer", "label_encoder_string_int", "label_encoder_string_int_no_default",
    "label_encoder_tensor_mapping", "label_encoder_tensor_value_only_mapping",
    "tree_ensemble_single_tree", "tree_ensemble_set_membership",
)  # fmt: skip


@cache
def cases() -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the cases overflow on purpose
        found = load_model_tests(kind="node")
    return {case.name: case for case in found if case.model is not None}


def require_as_expected(case: Any) -> None:
    converted = hbconv.convert(case.model, backend="reference")
    names = [given.name for given in case.model.graph.input]
    for inputs, outputs in case.data_sets:
        found = converted.run(None, dict(zip(names, inputs, strict=True)))
        for a, b in zip(outputs, found, strict=True):
            expected = np.asarray(a)
            assert b.shape == expected.shape
            if expected.dtype.kind in "OUib":
                assert np.array_equal(b.astype(str), expected.astype(str))
            else:
                np.testing.assert_allclose(b, expected, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("name", ML)
def test_operators_of_machine_learning(name: str):
    require_as_expected(cases()[f"test_ai_onnx_ml_{name}"])


def test_rows_are_not_read_at_the_positions_of_all_rows():
    case = cases()["test_ai_onnx_ml_array_feature_extractor"]
    with pytest.raises(hbconv.UnsupportedError, match="positions of all rows"):
        hbconv.convert(case.model, backend="reference")


def test_all_others_are_answered_or_refused():
    answered = 0
    for case in cases().values():
        try:
            require_as_expected(case)
            answered += 1
        except hbconv.HbconvError as error:
            assert str(error)  # noqa: PT017
    assert answered >= 80
