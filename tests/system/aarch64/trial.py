"""What the guest is asked: ``python -m aarch64.trial FOLDER``, which ends with an error where an
answer is another.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import joblib
import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import hbconv

__all__ = ["LIBRARY", "SOURCE", "foreign_model"]

SOURCE, LIBRARY = "foreign.joblib", "foreign.so"
X, Y = make_classification(300, 8, random_state=0)
HOSTILE = np.vstack([X[:70], np.full(8, -0.0), np.full(8, 1e30), np.full(8, 5e-324)])


def foreign_model() -> tuple[Any, np.ndarray]:
    """Return a forest, and rows that another machine predicted."""
    return RandomForestClassifier(20, max_depth=6, random_state=0).fit(X, Y), HOSTILE


def models() -> Iterator[tuple[Any, float]]:
    """Yield fitted models, and by how much an answer may differ: trees by nothing."""
    from catboost import CatBoostClassifier
    from lightgbm import LGBMClassifier
    from xgboost import XGBClassifier

    yield RandomForestClassifier(20, random_state=0).fit(X, Y), 0.0
    yield HistGradientBoostingClassifier(max_iter=20, random_state=0).fit(X, Y), 1e-15
    yield LGBMClassifier(n_estimators=20, verbose=-1, random_state=0).fit(X, Y), 1e-15
    yield XGBClassifier(n_estimators=20, random_state=0).fit(X, Y), 2e-7
    yield CatBoostClassifier(20, verbose=0, allow_writing_files=False).fit(X, Y), 1e-15
    yield make_pipeline(StandardScaler(), LogisticRegression()).fit(X, Y), 1e-12
    yield KNeighborsClassifier(3).fit(X, Y), 0.0
    yield make_pipeline(StandardScaler(), SVC()).fit(X, Y), 1e-9


def require_alike(found: np.ndarray, wanted: np.ndarray, bound: float) -> None:
    """Raise AssertionError where an answer differs by more."""
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=bound, atol=bound)


def ask(model: Any, bound: float, folder: Path) -> None:
    """Compare a converted model with its source, and with itself saved and loaded."""
    method = "predict_proba" if hasattr(model, "predict_proba") else "decision_function"
    converted = hbconv.convert(model, "tvm", sample=X[:2])
    converted.save(folder / "guest.hbc")
    loaded = hbconv.load(folder / "guest.hbc", trusted=True)
    for rows in (HOSTILE, HOSTILE[:1], HOSTILE[:0]):
        found = getattr(converted, method)(rows)
        if len(rows):
            require_alike(found, getattr(model, method)(rows), bound)
            np.testing.assert_array_equal(converted.predict(rows), model.predict(rows))
        np.testing.assert_array_equal(getattr(loaded, method)(rows), found)
    last = model[-1] if isinstance(model, Pipeline) else model
    print(f"{type(last).__name__} answers as its source, and as saved and loaded", flush=True)


@contextmanager
def hidden(*names: str) -> Iterator[None]:
    """Hide modules. What is imported meanwhile stays: twice imported, a class is two classes."""
    held = {name: sys.modules[name] for name in names if name in sys.modules}
    sys.modules.update(dict.fromkeys(names))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in names:
            del sys.modules[name]
        sys.modules.update(held)


def answer_stored(file: Path, rows: np.ndarray) -> np.ndarray:
    """Answer by the programs of a file alone: nothing can be compiled, and nothing is kept."""
    with (
        hidden("tvm", "tvm_ffi", "torch"),
        mock.patch.dict(os.environ, {"HBCONV_CACHE": "0"}),
        warnings.catch_warnings(),
    ):
        # Without a program for this machine the reference would answer, with a warning.
        warnings.simplefilter("error")
        return hbconv.load(file, trusted=True).predict_proba(rows)


def ask_foreign(folder: Path) -> None:
    """Compare what another machine wrote with what it answered: bit by bit."""
    source, answered = joblib.load(folder / SOURCE)
    rows = np.ascontiguousarray(HOSTILE)
    file = (folder / SOURCE).with_suffix(".hbc")
    for count in (len(rows), 1):
        np.testing.assert_array_equal(answer_stored(file, rows[:count]), answered[:count])
    np.testing.assert_array_equal(hbconv.convert(source, "tvm").predict_proba(rows), answered)
    found = np.empty_like(answered)
    run = ctypes.CDLL(str(folder / LIBRARY)).foreign_predict_proba
    status = run(
        ctypes.c_int64(len(rows)),
        ctypes.c_void_p(rows.ctypes.data),
        ctypes.c_void_p(found.ctypes.data),
    )
    assert status == 0
    np.testing.assert_array_equal(found, answered)
    print("The model, file and C library of another machine answer as there", flush=True)


if __name__ == "__main__":
    place = Path(sys.argv[1])
    print(f"Python {platform.python_version()} on {platform.machine()}", flush=True)
    ask_foreign(place)
    for fitted, most in models():
        ask(fitted, most, place)
