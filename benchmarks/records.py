"""Time one row in each form that a request gives it, beside the source model.

    taskset -c 0 python benchmarks/records.py [--backend tvm] [--seconds 2] [--json FILE]

The rows have two columns of text and four of numbers. The model encodes, imputes and boosts 100
trees. Answers are compared with the source's before anything is timed. Figures are the least
processor time of a call, in microseconds.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from results import figure, parse_options, save
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from timing import least_processor_seconds, many

import hbconv

ROWS = 2000
CALLS = 50
"""Calls of one reading of the clock."""
TEXTS = ["sex", "port"]
NUMBERS = ["age", "fare", "sibsp", "parch"]


def people() -> pd.DataFrame:
    """Draw passengers."""
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "sex": rng.choice(["female", "male"], ROWS),
            "age": rng.integers(1, 80, ROWS) + 0.5,
            "sibsp": rng.integers(0, 5, ROWS).astype(float),
            "parch": rng.integers(0, 4, ROWS).astype(float),
            "fare": rng.gamma(2, 20, ROWS).round(2),
            "port": rng.choice(["S", "C", "Q"], ROWS),
        }
    )


def mixed(rows: pd.DataFrame) -> Any:
    """Fit the pipeline of texts and numbers."""
    encode = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    columns = ColumnTransformer([("t", encode, TEXTS), ("n", SimpleImputer(), NUMBERS)])
    labels = (rows["age"] + rows["fare"] + 20 * (rows["sex"] == "male") > 70).astype(int)
    return make_pipeline(columns, HistGradientBoostingClassifier(max_iter=100)).fit(rows, labels)


def forms(row: pd.DataFrame) -> dict[str, Any]:
    """Return one row in each form."""
    (record,) = row.to_dict("records")
    return {
        "record": record,
        "list of one record": [record],
        "JSON text": json.dumps(record),
        "dict of lists": row.to_dict("list"),
        "pandas": row,
        "pandas objects": row.astype(dict.fromkeys(TEXTS, object)),
        "polars": pl.from_pandas(row),
        "Arrow": pa.Table.from_pandas(row),
    }


Contenders = dict[str, tuple[Callable[[Any], Any], Any]]


def tables(backend: str) -> Contenders:
    """Return the calls for one row of a table with their rows, once their answers are right."""
    rows = people()
    source = mixed(rows)
    row = rows[:1]
    model = hbconv.convert(source, backend, sample=rows[:5])
    expected = source.predict_proba(row)
    calls: Contenders = {}
    for name, given in forms(row).items():
        np.testing.assert_allclose(model.predict_proba(given), expected, rtol=1e-12)
        calls[name] = (model.predict_proba, given)
    (record,) = row.to_dict("records")
    bound = model.bind("predict_proba", rows=1)
    np.testing.assert_allclose(bound(record), expected, rtol=1e-12)
    calls["record, bound"] = (bound, record)
    calls["scikit-learn, pandas"] = (source.predict_proba, row)
    return calls


def arrays(backend: str) -> Contenders:
    """Return the calls for one row of an array, of a model fitted on names and of one without.

    They are timed apart: scikit-learn makes Python forget which warnings it showed, and the first
    model warns that the array has no names.
    """
    rows = people()
    numbers = rows[NUMBERS]
    calls: Contenders = {}
    for name, fitted in (("named", numbers), ("unnamed", numbers.to_numpy())):
        trees = HistGradientBoostingClassifier(max_iter=100).fit(fitted, rows["age"] > 40)
        call = hbconv.convert(trees, backend, sample=fitted[:5]).predict_proba
        calls[f"numpy, fitted on {name} columns"] = (call, numbers.to_numpy()[:1])
    return calls


def main() -> None:
    """Time every form and print a line for each."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--backend", default="tvm")
    options.add_argument("--seconds", type=float, default=2.0)
    options.add_argument("--json", type=Path)
    chosen = parse_options(options, seconds=0.5)
    times: dict[str, float] = {}
    for calls in (tables(chosen.backend), arrays(chosen.backend)):
        timed = {name: many(*of, CALLS) for name, of in calls.items()}
        times |= least_processor_seconds(timed, chosen.seconds)
    micro = {name: seconds / CALLS * 1e6 for name, seconds in times.items()}
    for name, found in micro.items():
        print(f"{name:32} {found:10.1f}")
    source = "scikit-learn, pandas"
    own = {f"hbconv, {name}": found for name, found in micro.items() if name != source}
    save(
        [
            figure("one row", 1, name, [found * 1e-6])
            for name, found in ({source: micro[source]} | own).items()
        ],
        chosen,
    )


if __name__ == "__main__":
    main()
