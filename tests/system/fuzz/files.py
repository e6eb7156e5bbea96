"""Damaged model files of other libraries: read by name, in bounded time and memory; what both
sides read, they answer alike.
"""

from __future__ import annotations

import importlib
import io
import json
import re
import warnings
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from fuzz.judge import answers_alike, answers_of, call, in_child
from fuzz.mutate import mutate_array, mutate_bytes, mutate_json, mutate_text
from fuzz.runner import Subject

import hbconv
from hbconv.cli.sources import load_source
from hbconv.errors import ConversionError
from hbconv.parse import parse
from hbconv.sources import library_files
from hbconv.sources.library_files import open_catboost

__all__ = ["FILES", "sized"]

WIDEST = 5000
"""Columns of which rows are made."""
ROWS = 9


def _data() -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 5))
    x[:, 4] = rng.integers(0, 40, 120)
    return x, x[:, 0] + (x[:, 4] % 3), np.digitize(x[:, 0], [-0.5, 0.5])


def _lightgbm(folder: Path) -> None:
    import lightgbm

    x, y, classes = _data()
    quiet = {"verbose": -1, "num_threads": 1, "num_leaves": 6, "min_data_in_leaf": 5}
    for i, (params, target, listed) in enumerate((
        ({"objective": "regression"}, y, "auto"),
        ({"objective": "multiclass", "num_class": 3}, classes, "auto"),
        ({"objective": "binary"}, classes > 0, [4]),
        ({"objective": "regression", "linear_tree": True}, y, "auto"),
        ({"objective": "regression", "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5}, y, "auto"),
    )):  # fmt: skip
        rows = np.where(x > 1.2, np.nan, x) if i % 2 else x
        lightgbm.train(
            {**quiet, **params}, lightgbm.Dataset(rows, target, categorical_feature=listed), 4
        ).save_model(folder / f"{i}.txt")


def _ask_lightgbm(path: Path, x: Any, _: Any) -> Any:
    import lightgbm

    return answers_of(lightgbm.Booster(model_file=path, params={"num_threads": 1}), ("predict",), x)


def _xgboost(folder: Path, suffix: str) -> None:
    import xgboost

    x, y, classes = _data()
    kinds: tuple[tuple[dict[str, Any], Any, Any], ...] = (
        ({"objective": "reg:squarederror"}, y, None),
        ({"objective": "multi:softprob", "num_class": 3}, classes, None),
        ({"objective": "binary:logistic", "booster": "dart", "rate_drop": 0.5}, classes > 0, None),
        ({"objective": "reg:squarederror", "booster": "gblinear"}, y, None),
        ({"objective": "binary:logistic", "max_cat_to_onehot": 1}, classes > 0, ["q"] * 4 + ["c"]),
        ({"multi_strategy": "multi_output_tree"}, np.column_stack([y, y * 2]), None),
    )
    for i, (params, target, types) in enumerate(kinds):
        data = xgboost.DMatrix(x, target, feature_types=types, enable_categorical=types is not None)
        xgboost.train({"max_depth": 3, "nthread": 1, **params}, data, 4).save_model(
            folder / f"{i}.{suffix}"
        )


def _ask_xgboost(path: Path, x: Any, _: Any) -> Any:
    import xgboost

    booster = xgboost.Booster({"nthread": 1}, model_file=path)
    types = booster.feature_types
    data = xgboost.DMatrix(
        x,
        feature_names=booster.feature_names,
        feature_types=types,
        enable_categorical="c" in (types or ()),
    )
    return {"predict": booster.predict(data)}


def _catboost(folder: Path, suffix: str) -> None:
    import catboost

    x, y, classes = _data()
    quiet = {
        "iterations": 4,
        "depth": 3,
        "verbose": 0,
        "thread_count": 1,
        "allow_writing_files": False,
    }
    listed = np.array([[*row[:4], str(int(row[4]) % 3)] for row in x.tolist()], object)
    counted = np.array([[*row[:3], str(int(row[3] * 9) % 4), row[4]] for row in listed], object)
    models = (
        catboost.CatBoostRegressor(**quiet).fit(x, y),
        catboost.CatBoostClassifier(grow_policy="Lossguide", **quiet).fit(x, classes),
        catboost.CatBoostClassifier(one_hot_max_size=5, cat_features=[4], **quiet).fit(
            listed, classes > 0
        ),
        catboost.CatBoostClassifier(
            cat_features=[3, 4], max_ctr_complexity=3, model_size_reg=0, **quiet
        ).fit(counted, classes > 0),
    )
    for i, model in enumerate(models):
        model.save_model(str(folder / f"{i}.{suffix}"), format=suffix)


def _ask_catboost(path: Path, x: Any, methods: Any) -> Any:
    """Ask the class whose methods hbconv found: a file does not say which is to read it."""
    import catboost

    cls = catboost.CatBoostClassifier if "predict_proba" in methods else catboost.CatBoostRegressor
    model = cls().load_model(str(path), format=path.suffix[1:])
    return answers_of(model, ("predict", "predict_proba"), x)


def _skops(folder: Path) -> None:
    import lightgbm
    import xgboost
    from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC
    from skops import io as skops

    x, y, classes = _data()
    scaled = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
    models = (
        RandomForestClassifier(3, max_depth=3, random_state=0),
        scaled,
        KNeighborsClassifier(3),
        SVC(),
        GradientBoostingRegressor(n_estimators=3, random_state=0),
        lightgbm.LGBMClassifier(n_estimators=3, num_leaves=6, n_jobs=1, verbose=-1),
        xgboost.XGBClassifier(n_estimators=3, max_depth=3, n_jobs=1),
    )
    for i, model in enumerate(models):
        skops.dump(model.fit(x, y if i == 4 else classes), folder / f"{i}.skops")


def _ask_skops(path: Path, x: Any, _: Any) -> Any:
    from skops import io as skops

    from hbconv.sources.library_files import BOOSTERS, TRUSTED

    return answers_of(skops.load(path, trusted=[*TRUSTED, *BOOSTERS]), ("predict",), x)


def _mutate_text(data: bytes, rng: np.random.Generator) -> bytes:
    if rng.random() < 0.3:
        return mutate_bytes(data, rng)
    text = mutate_text(data.decode(), rng)
    return (sized(text) if rng.random() < 0.8 else text).encode()


def sized(text: str) -> str:
    """Write the sizes of the trees as they are now, without which LightGBM does not find them."""
    _, *blocks = text.partition("\nend of trees")[0].split("\nTree=")
    sizes = " ".join(
        str(len(f"\nTree={block}".encode("utf-8", "surrogatepass"))) for block in blocks
    )
    return re.sub(r"(?m)^tree_sizes=.*$", f"tree_sizes={sizes}", text, count=1)


def _mutate_json(data: bytes, rng: np.random.Generator) -> bytes:
    if rng.random() < 0.3:
        return mutate_bytes(data, rng)
    return json.dumps(mutate_json(json.loads(data), rng)).encode()


def _mutate_archive(data: bytes, rng: np.random.Generator) -> bytes:
    """Damage an archive of JSON and arrays: its bytes, or what one member holds."""
    if rng.random() < 0.3:
        return mutate_bytes(data, rng)
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as given, zipfile.ZipFile(out, "w") as archive:
        names = given.namelist()
        chosen = names[rng.integers(len(names))] if rng.random() < 0.5 else "schema.json"
        for name in names:
            content = given.read(name)
            archive.writestr(
                name, _mutate_member(name, content, rng) if name == chosen else content
            )
    return out.getvalue()


def _mutate_member(name: str, content: bytes, rng: np.random.Generator) -> bytes:
    if name.endswith(".json"):
        return _mutate_json(content, rng)
    if not name.endswith(".npy"):
        return mutate_bytes(content, rng)
    out = io.BytesIO()
    np.save(out, mutate_array(np.load(io.BytesIO(content)), rng))
    return out.getvalue()


def _attempt(
    path: Path,
    rng: np.random.Generator,
    library: str,
    suffix: str,
    ask: Callable[[Path, Any, Any], Any],
) -> None:
    """Read a file, answer for some rows, and compare with the source where
    it answers too.
    """
    warnings.simplefilter("ignore")
    importlib.import_module(library)  # here, not in each child
    file = path.with_suffix(f".{suffix}")
    path.replace(file)
    with mock.patch.object(library_files, "require_readable", _try_in_a_fork):
        model = hbconv.convert(load_source(file), backend="reference")
    if model.n_features_in_ > WIDEST:
        return
    x = _rows(model, rng)
    ours = call(model, set(model.methods) & {"predict", "predict_proba"}, x)
    answers_alike(in_child(lambda: ask(file, x, model.methods))[1], ours)


def _try_in_a_fork(path: Path) -> None:
    """Do what load_source does in a new process, which would take a second for each file."""
    if not in_child(lambda: parse(open_catboost(path, "cbm")))[0]:
        raise ConversionError(f"{path} is damaged")


def _rows(model: Any, rng: np.random.Generator) -> Any:
    """Rows of numbers, of which one column is of small counts; NaN among them for libraries
    that take it.
    """
    dtypes = model.schema.dtypes
    x = rng.normal(size=(ROWS, len(dtypes)))
    x[:, 4:5] = rng.integers(0, 45, (ROWS, 1)) if x.shape[1] > 4 else 0
    if "string" in dtypes:
        columns = [
            [str(int(abs(v)) % 4) for v in column] if d == "string" else column.tolist()
            for d, column in zip(dtypes, x.T, strict=True)
        ]
        return np.array(columns, object).T
    if not model.parsed.checks:
        x[rng.random(x.shape) < 0.1] = np.nan
    return x


def _subject(name: str, library: str, corpus: Any, mutate: Any, suffix: str, ask: Any) -> Subject:
    return Subject(name, corpus, mutate, partial(_attempt, library=library, suffix=suffix, ask=ask))


FILES = (
    _subject("lightgbm", "lightgbm", _lightgbm, _mutate_text, "txt", _ask_lightgbm),
    _subject(
        "xgboost", "xgboost", partial(_xgboost, suffix="json"), _mutate_json, "json", _ask_xgboost
    ),
    _subject("ubj", "xgboost", partial(_xgboost, suffix="ubj"), mutate_bytes, "ubj", _ask_xgboost),
    _subject(
        "catboost",
        "catboost",
        partial(_catboost, suffix="json"),
        _mutate_json,
        "json",
        _ask_catboost,
    ),
    _subject(
        "cbm", "catboost", partial(_catboost, suffix="cbm"), mutate_bytes, "cbm", _ask_catboost
    ),
    _subject("skops", "skops.io", _skops, _mutate_archive, "skops", _ask_skops),
)
