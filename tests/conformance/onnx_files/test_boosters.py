"""Files of LightGBM, XGBoost and CatBoost, and hbconv's own, answer as onnxruntime does."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from exported_files import table
from onnxruntime import InferenceSession
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import hbconv
from hbconv.sources.verification import TOLERANCE

onnxmltools = pytest.importorskip("onnxmltools")


def _lightgbm(data: str, **options: Any) -> Any:
    import lightgbm
    from onnxmltools.convert.common.data_types import FloatTensorType

    x, y = table(data)
    kind = lightgbm.LGBMRegressor if data in ("number", "ones") else lightgbm.LGBMClassifier
    model = kind(n_estimators=5, num_leaves=7, verbose=-1, n_jobs=1, **options).fit(x, y)
    given = [("X", FloatTensorType([None, x.shape[1]]))]
    return onnxmltools.convert_lightgbm(model, initial_types=given, target_opset=15)


def _xgboost(data: str, **options: Any) -> Any:
    import xgboost
    from onnxmltools.convert.common.data_types import FloatTensorType

    x, y = table(data)
    kind = xgboost.XGBRegressor if data in ("number", "ones") else xgboost.XGBClassifier
    model = kind(n_estimators=5, max_depth=3, n_jobs=1, **options).fit(x, y)
    given = [("X", FloatTensorType([None, x.shape[1]]))]
    return onnxmltools.convert_xgboost(model, initial_types=given, target_opset=15)


def _catboost(data: str, **options: Any) -> Any:
    import catboost
    import onnx

    x, y = table(data)
    kind = catboost.CatBoostRegressor if data in ("number", "ones") else catboost.CatBoostClassifier
    quiet = {"verbose": 0, "thread_count": 1, "allow_writing_files": False}
    model = kind(iterations=5, depth=3, **quiet, **options)
    model.fit(x, y)
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        path = str(Path(folder) / "m.onnx")
        model.save_model(path, format="onnx")
        return onnx.load(path)


LIBRARIES = {"lightgbm": _lightgbm, "xgboost": _xgboost, "catboost": _catboost}


OBJECTIVES = (
    ("lightgbm", "ones", {"objective": "gamma"}),
    ("lightgbm", "two", {"boosting_type": "rf", "bagging_freq": 1, "bagging_fraction": 0.6}),
    ("lightgbm", "three", {"objective": "multiclassova"}),
    ("xgboost", "ones", {"objective": "reg:tweedie"}),
    ("xgboost", "two", {"objective": "binary:hinge"}),
    ("xgboost", "three", {"objective": "multi:softmax"}),
    ("catboost", "three", {"loss_function": "MultiClassOneVsAll"}),
    ("catboost", "ones", {"loss_function": "Tweedie:variance_power=1.5"}),
)


@cache
def file_of(library: str, data: str) -> Any:
    return LIBRARIES[library](data)


def plain(values: Any) -> Any:
    rows = isinstance(values, list)
    return np.array([list(row.values()) for row in values]) if rows else np.asarray(values)


def require_as_runtime(model: Any, rows: Any) -> None:
    session = InferenceSession(model.SerializeToString())
    feeds = {session.get_inputs()[0].name: rows}
    converted = hbconv.convert(model, backend="reference")
    for a, b in zip(session.run(None, feeds), converted.run(None, feeds), strict=True):
        expected = plain(a)
        if expected.dtype.kind in "OUi":
            assert np.array_equal(plain(b), expected)
            continue
        size = TOLERANCE["float32"]
        np.testing.assert_allclose(plain(b), expected, rtol=size, atol=size)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("data", ["two", "three", "number"])
def test_files_of_boosters(library: str, data: str):
    require_as_runtime(file_of(library, data), table(data)[0])


@pytest.mark.parametrize(("library", "data", "options"), OBJECTIVES, ids=str)
def test_objectives_of_boosters(library: str, data: str, options: dict[str, Any]):
    require_as_runtime(LIBRARIES[library](data, **options), table(data)[0])


@pytest.mark.parametrize("data", ["three", "number"])
def test_own_files_come_back(data: str, tmp_path: Path):
    import lightgbm
    import onnx

    x, y = table(data)
    kind = lightgbm.LGBMRegressor if data in ("number", "ones") else lightgbm.LGBMClassifier
    source = kind(n_estimators=5, verbose=-1, n_jobs=1).fit(x, y)
    hbconv.convert(source, "onnx", sample=x[:3]).export(tmp_path / "m.onnx")
    require_as_runtime(onnx.load(tmp_path / "m.onnx"), x)


def test_own_files_with_checks_of_a_whole_batch_are_refused(tmp_path: Path):
    x, y = table("three")
    source = make_pipeline(StandardScaler(), LogisticRegression()).fit(x, y)
    hbconv.convert(source, "onnx", sample=x[:3]).export(tmp_path / "m.onnx")
    with pytest.raises(hbconv.UnsupportedError, match="A reduction of the rows"):
        hbconv.convert(tmp_path / "m.onnx")
