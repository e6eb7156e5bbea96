"""Ask a function, or a class of users' own: is its model right, refused by name, or wrong?

Rows that the model was not traced with are asked at once and in another order, and hostile ones
one by one. A model may refuse a row by name; what it answers is what the source answers.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import is_regressor
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OrdinalEncoder
from tracing import (
    columns,
    competitions,
    dates,
    elementwise,
    models,
    notebooks,
    other_rows,
    tables,
    targets,
    texts,
    transformers,
)

import hbconv
from hbconv.errors import HbconvError, InputError, UnsupportedError
from hbconv.sources.sklearn_estimator import explain_absence

METHODS = ("transform", "predict", "predict_proba", "decision_function")
ODD = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 5e-324, 1e300, -1e5, 18.0, 0.25, 2.0**53)
ODD_TEXTS = (None, "", " ", "Oslo ", "OSLO", "basic", "1", "Ünder", "B-", "Mrs. x, y. z")


@dataclass(frozen=True)
class Asked:
    """A subject of one theme, and whether the answer for a row is of that row alone."""

    theme: str
    name: str
    subject: Any
    is_own: bool = True

    def __str__(self) -> str:
        return f"{self.theme}.{self.name}"


def all_asked() -> list[Asked]:
    """Return all subjects."""
    found = []
    for module in (
        elementwise,
        columns,
        tables,
        dates,
        texts,
        notebooks,
        competitions,
        targets,
    ):
        theme = module.__name__.rpartition(".")[2]
        found += [Asked(theme, name, f) for name, f in module.ROWS.items()]
    for theme, subjects in (("arrays", other_rows.ARRAYS), ("tables", other_rows.TABLES)):
        named = subjects.items()
        found += [Asked(f"other_rows_{theme}", n, f, is_own=False) for n, f in named]
    for module in (transformers, models):
        theme = module.__name__.rpartition(".")[2]
        found += [Asked(theme, c.__name__, c) for c in module.ARRAYS]
        found += [Asked(theme, c.__name__, c, is_own=False) for c in module.OTHER_ROWS]
    classes = (*transformers.TABLES, *notebooks.CLASSES, *competitions.CLASSES)
    found += [Asked("own_tables", c.__name__, c) for c in classes]
    return found


def draw_array(seed: int, n_rows: int, *, missing: float = 0.0) -> np.ndarray:
    """Draw rows: a number of any sign, an age, a size, a small gap, and a flag."""
    rng = np.random.default_rng(seed)
    rows = np.column_stack([
        rng.normal(size=n_rows), rng.integers(10, 90, n_rows), rng.gamma(2, 3, n_rows),
        rng.normal(0, 0.1, n_rows), rng.integers(0, 2, n_rows),
    ])  # fmt: skip
    return np.where(rng.random(rows.shape) < missing, np.nan, rows)


def draw_table(seed: int, n_rows: int) -> pd.DataFrame:
    """Draw customers of a plan."""
    rng = np.random.default_rng(seed)
    titles = rng.choice(["Mr", "Mrs", "Miss", "Dr"], n_rows)
    joined = pd.Timestamp("2019-03-01") + pd.to_timedelta(rng.integers(0, 10**8, n_rows), "s")
    stays = pd.to_timedelta(rng.integers(-5, 1500, n_rows), "D")
    seen = pd.Timestamp("2018-01-01") + pd.to_timedelta(rng.integers(0, 3000, n_rows), "D")
    cities = np.array(["Oslo", "Bergen", "Rome", "Lima", None], object)
    return pd.DataFrame({
        "income": np.where(rng.random(n_rows) < 0.1, np.nan, rng.gamma(2, 2_000, n_rows)),
        "debt": rng.gamma(1, 3_000, n_rows),
        "age": rng.integers(12, 95, n_rows).astype(float),
        "kids": rng.integers(0, 5, n_rows),
        "score": np.where(rng.random(n_rows) < 0.4, np.nan, rng.random(n_rows)),
        "active": rng.random(n_rows) < 0.5,
        "city": rng.choice(cities, n_rows),
        "plan": rng.choice(["basic", "plus", "max"], n_rows),
        "name": [f"Berg{i % 17}, {t}. Ann{' Li' * (i % 3)}" for i, t in enumerate(titles)],
        "code": [f"{'ABC'[i % 3]}-{i % 29}" for i in rng.integers(0, 10**6, n_rows)],
        "seen": seen.strftime("%Y-%m-%d"),
        "joined": joined.astype("datetime64[ns]"),
        "left": (joined + stays).where(rng.random(n_rows) > 0.2).astype("datetime64[ns]"),
    })  # fmt: skip


def hostile_rows(rows: Any) -> Iterator[Any]:
    """Yield rows of one, each with something odd in one place, or in all."""
    if isinstance(rows, np.ndarray):
        for i, odd in enumerate(ODD):
            changed = rows[i : i + 2].copy()
            changed[0, i % rows.shape[1]] = odd
            changed[1] = odd
            yield from (changed[:1], changed[1:])
        return
    numbers = [c for c in rows if rows[c].dtype == np.float64]
    words = [c for c in rows if isinstance(rows[c].iloc[0], str) and c != "seen"]
    for i, odd in enumerate(ODD):
        yield rows.iloc[i : i + 1].assign(**{numbers[i % len(numbers)]: odd})
    for i, odd in enumerate(ODD_TEXTS):
        row = rows.iloc[i : i + 1]
        column = words[i % len(words)]
        yield row.assign(**{column: pd.Series([odd], row.index, dtype=rows[column].dtype)})
    yield rows.iloc[:1].assign(joined=pd.NaT)
    yield rows.iloc[:1].assign(left=pd.Timestamp("1969-12-31 23:59:59"))


def _function_with_encoder(function: Any, table: pd.DataFrame) -> Any:
    """Return a function as a transformer, with an encoder of the texts that it returns."""
    transformer = FunctionTransformer(function)
    try:
        made = function(table.copy())
    except Exception:
        return transformer
    return _with_encoder(transformer, made)


def _with_encoder(transformer: Any, made: Any) -> Any:
    if not isinstance(made, pd.DataFrame):
        return transformer
    words = [c for c in made if made[c].dtype.kind not in "biuf"]
    if not words:
        return transformer
    encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    return make_pipeline(
        transformer, ColumnTransformer([("texts", encoder, words)], remainder="passthrough")
    )


def fit(asked: Asked) -> tuple[Any, Any, Any]:
    """Return a fitted source, rows to ask, and hostile ones."""
    table, fresh_table = draw_table(0, 200), draw_table(1, 60)
    rows, fresh = draw_array(0, 200, missing=0.03), draw_array(1, 60, missing=0.05)
    rng = np.random.default_rng(2)
    labels = (rng.random(200) < 0.4).astype(int)
    if asked.theme in ("elementwise", "columns", "other_rows_arrays"):
        return FunctionTransformer(asked.subject).fit(rows), rows, fresh
    if asked.theme in (
        "tables",
        "dates",
        "texts",
        "notebooks",
        "competitions",
        "other_rows_tables",
    ):
        return _function_with_encoder(asked.subject, table).fit(table), table, fresh_table
    if asked.theme == "own_tables":
        transformer = asked.subject()
        made = asked.subject().fit(table, labels).transform(table.copy())
        return _with_encoder(transformer, made).fit(table, labels), table, fresh_table
    full, fresh_full = draw_array(0, 200), draw_array(1, 60)
    amounts = 5 + np.abs(full @ [3.0, 0.5, 2.0, 1.0, 4.0])
    if asked.theme == "targets":
        func, inverse = asked.subject
        func = func or (lambda y: y)
        source = TransformedTargetRegressor(
            LinearRegression(), func=func, inverse_func=inverse, check_inverse=False
        )
        return source.fit(full, amounts), full, fresh_full
    if asked.theme == "models":
        model = asked.subject()
        return model.fit(full, amounts if is_regressor(model) else labels), full, fresh_full
    return asked.subject().fit(rows, labels), rows, fresh


def ask(asked: Asked, backend: str = "reference") -> tuple[str, str]:
    """Return "right", "refused" or "WRONG", and why."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        source, rows, fresh = fit(asked)
        try:
            model = hbconv.convert(source, backend, sample=rows[:5])
        except HbconvError as error:
            is_named = isinstance(error, UnsupportedError | InputError)
            return ("refused" if is_named else "WRONG"), str(error)
        for method in METHODS:
            if hasattr(source, method):
                what = _difference(source, model, method, fresh)
                if what:
                    return what
        return ("right", "") if asked.is_own else ("WRONG", "It is answered.")


def _difference(source: Any, model: Any, method: str, fresh: Any) -> tuple[str, str] | None:
    if method not in model.methods:
        return "refused", explain_absence(model, method)
    fresh = _answered(model, method, fresh)
    try:
        getattr(model, method)(fresh)
    except InputError as error:
        return "refused", f"rows: {error}"  # such as texts, for a function of dates
    order = np.random.default_rng(3).permutation(len(fresh))
    mixed = fresh[order] if isinstance(fresh, np.ndarray) else fresh.iloc[order]
    for asked in (fresh, mixed, fresh[:1]):
        want, got = getattr(source, method)(asked.copy()), getattr(model, method)(asked)
        what = _compare(want, got, asked, model.backend)
        if what:
            return "WRONG", f"{method}: {what}"
    for row in hostile_rows(fresh):
        try:
            got = getattr(model, method)(row)
        except InputError:
            continue
        try:
            want = getattr(source, method)(row.copy())
        except Exception as error:
            return "WRONG", f"{method} of {row!r} answers, and the source raises {error}"
        what = _compare(want, got, row, model.backend)
        if what:
            return "WRONG", f"{method} of {row!r}: {what}"
    return None


def _answered(model: Any, method: str, fresh: Any) -> Any:
    """Return the rows without those of missing numbers, where the model refuses such rows."""
    try:
        getattr(model, method)(fresh)
    except InputError:
        is_missing = pd.DataFrame(fresh).select_dtypes("number").isna().any(axis=1)
        return fresh[~is_missing.to_numpy()]
    return fresh


def _compare(want: Any, got: Any, rows: Any, backend: str) -> str | None:
    if getattr(want, "shape", None) != getattr(got, "shape", None):
        return f"shapes are {np.shape(want)} and {np.shape(got)}"
    names = [list(answer.columns) for answer in (want, got) if isinstance(answer, pd.DataFrame)]
    if len(names) == 2 and names[0] != names[1]:
        return f"columns are {names}"
    want, got = np.asarray(want), np.asarray(got)
    if want.dtype.kind not in "biuf":
        same = want.tolist() == got.tolist() or _are_numbers(want, got)
        return None if same else f"{want[:3]} and {got[:3]}"
    try:
        np.testing.assert_allclose(
            got.astype(float), want.astype(float), rtol=_slack(want), atol=_scale(rows, backend)
        )
    except AssertionError as error:
        return " ".join(str(error).split())[:300]
    return None


def _are_numbers(want: np.ndarray, got: np.ndarray) -> bool:
    try:
        return np.allclose(want.astype(float), got.astype(float), equal_nan=True)
    except (TypeError, ValueError):
        return False


def _scale(rows: Any, backend: str) -> float:
    """Return what sums of terms that cancel may differ by.

    Other backends than reference add in another order, at 1e300 too.
    """
    most = 1e6 if backend == "reference" else np.finfo(np.float64).max
    numbers = np.abs(pd.DataFrame(rows).select_dtypes("number").to_numpy(np.float64))
    return 1e-15 * float(np.clip(np.nanmax(numbers, initial=0.0), 1e3, most))


def _slack(want: np.ndarray) -> float:
    return 1e-5 if want.dtype == np.float32 else 1e-9


REFUSED = Path(__file__).with_name("refused.txt")
"""Names of the subjects whose answers are of a row alone, and that are refused."""

if __name__ == "__main__":
    statuses = {str(asked): ask(asked)[0] for asked in all_asked() if asked.is_own}
    refused = sorted(name for name, status in statuses.items() if status != "right")
    REFUSED.write_text("\n".join(refused) + "\n", encoding="utf-8")
    print(len(statuses), "asked,", len(refused), "refused")
