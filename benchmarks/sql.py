"""Time queries that DuckDB answers: hbconv's, orbital's, and hbconv's function in the database.

    taskset -c 0 python benchmarks/sql.py --orbital /tmp/orbital/bin/python --json sql.json

orbital is in an environment of its own, with the same scikit-learn. Without it, hbconv is timed
alone. All answer the same table, in one thread, by turns.

Answers are compared with scikit-learn's on 3,000 rows. A third of them lie on thresholds or values
of training rows, a third one float64 above, and a third on their float32. A row is wrong where a
probability differs by more than 1e-6.
"""

from __future__ import annotations

import argparse
import json
import pickle
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier
from timing import machine, versions

import hbconv
from hbconv.engines.duckdb import create_function

NUMBERS = [f"x{i}" for i in range(8)]
WRONG = 1e-6
MAKE_QUERY = """
import pickle, sys
import orbital, orbital.types as types
source, numbers, texts = pickle.load(open(sys.argv[1], "rb"))
columns = {name: types.DoubleColumnType() for name in numbers}
columns |= {name: types.StringColumnType() for name in texts}
parsed = orbital.parse_pipeline(source, features=columns)
print(orbital.export_sql("people", parsed, dialect="duckdb"))
"""


def main() -> None:
    """Fit a few pipelines, and time and judge each contender."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--turns", type=int, default=3, help="calls of each contender")
    parser.add_argument("--orbital", help="interpreter of an environment that has orbital")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    train = table(5000, 1)
    labels = (train.x0 * train.x1 + train.x2 + (train.colour == "red") > 0.3).astype(int)
    database = duckdb.connect(config={"threads": 1, "max_expression_depth": 100_000})
    found = [
        measure(name, source.fit(train, labels), database, options)
        for name, source in pipelines().items()
    ]
    if options.json:
        record = {"machine": machine(), "versions": versions(), "rows": options.rows}
        options.json.write_text(json.dumps({**record, "found": found}, indent=1))


def table(count: int, seed: int) -> pd.DataFrame:
    """Return normal numbers and a text."""
    draw = np.random.default_rng(seed)
    frame = pd.DataFrame(draw.normal(size=(count, len(NUMBERS))), columns=NUMBERS)
    return frame.assign(colour=draw.choice(["red", "green", "blue"], count))


def pipelines() -> dict[str, Any]:
    """Return what orbital writes too: linear models and trees behind steps for columns."""
    one_hot = (OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["colour"])
    scaled = (make_pipeline(SimpleImputer(), StandardScaler()), NUMBERS)
    trees = {
        "tree of depth 6": DecisionTreeClassifier(max_depth=6, random_state=0),
        "boosting, 100 x 8 leaves": GradientBoostingClassifier(random_state=0),
        "forest, 20 of depth 6": RandomForestClassifier(20, max_depth=6, random_state=0),
    }
    plain = {
        name: make_pipeline(make_column_transformer(("passthrough", NUMBERS), one_hot), model)
        for name, model in trees.items()
    }
    linear = make_pipeline(make_column_transformer(scaled, one_hot), LogisticRegression())
    return {"logistic regression": linear, **plain}


def measure(name: str, source: Any, database: Any, options: argparse.Namespace) -> dict[str, Any]:
    """Judge the contenders on hostile rows, then time them by turns."""
    model = hbconv.convert(source, sample=table(3, 0))
    queries = {"hbconv": model.to_sql("duckdb", "people", methods="predict_proba")}
    if options.orbital:
        queries["orbital"] = orbital_query(source, options.orbital)
    create_function(database, "chances", model, "predict_proba")
    arguments = ", ".join([*NUMBERS, "colour"])
    queries["function"] = f"SELECT unnest(chances({arguments})) FROM people"
    rows = hostile(source)
    want = source.predict_proba(rows)
    wrong = {who: count_wrong(database, query, rows, want) for who, query in queries.items()}
    fill(database, table(options.rows, 2))
    plans = {who: processor_seconds(database, f"EXPLAIN {q}") for who, q in queries.items()}
    times: dict[str, list[float]] = {who: [] for who in queries}
    for _ in range(options.turns):
        for who, query in queries.items():
            written = f"CREATE OR REPLACE TEMP TABLE answers AS {query}"
            times[who].append(processor_seconds(database, written))
    database.remove_function("chances")
    facts = {
        who: {
            "kB": len(query) / 1000,
            "plan_s": plans[who],
            "rows_a_second": options.rows / min(times[who]),
            "seconds": times[who],
            "wrong_of_3000": wrong[who],
        }
        for who, query in queries.items()
    }
    for who, fact in facts.items():
        print(
            f"{name:26} {who:9} {fact['kB']:6.0f} kB  plan {fact['plan_s']:.2f} s  "
            f"{fact['rows_a_second']:12,.0f} rows/s  wrong {fact['wrong_of_3000']}",
            flush=True,
        )
    return {"model": name, "contenders": facts}


def orbital_query(source: Any, interpreter: str) -> str:
    """Return orbital's query, written in its own environment."""
    with tempfile.NamedTemporaryFile(suffix=".pickle") as file:
        file.write(pickle.dumps((source, NUMBERS, ["colour"])))
        file.flush()
        done = subprocess.run(
            [interpreter, "-W", "ignore", "-c", MAKE_QUERY, file.name],
            check=True,
            capture_output=True,
            text=True,
        )
    return done.stdout


def hostile(source: Any, count: int = 3000) -> pd.DataFrame:
    """Return rows whose numbers lie on thresholds, or one float beside."""
    rows, draw = table(count, 3), np.random.default_rng(4)
    model = source[-1]
    trees = np.ravel(getattr(model, "estimators_", [model])).tolist()
    tests = [
        (int(feature), float(threshold))
        for tree in trees
        if hasattr(tree, "tree_")
        for feature, threshold in zip(tree.tree_.feature, tree.tree_.threshold, strict=True)
        if 0 <= feature < len(NUMBERS)
    ] or [(i, value) for i in range(len(NUMBERS)) for value in table(100, 1)[NUMBERS[i]]]
    numbers = rows[NUMBERS].to_numpy(copy=True)
    for row, at in enumerate(draw.integers(0, len(tests), count)):
        feature, value = tests[at]
        beside = (value, np.nextafter(value, np.inf), float(np.float32(value)))
        numbers[row, feature] = beside[row % 3]
    return pd.DataFrame(numbers, columns=NUMBERS).assign(colour=rows.colour)


def fill(database: Any, rows: pd.DataFrame) -> None:
    """Make these rows the table."""
    database.register("given", rows)
    database.execute("CREATE OR REPLACE TABLE people AS SELECT * FROM given")


def count_wrong(database: Any, query: str, rows: pd.DataFrame, want: Any) -> int:
    """Count rows whose probabilities are not the source's."""
    fill(database, rows)
    got = database.execute(query).df().select_dtypes("float").to_numpy(float)
    # orbital gives the label beside them, which is an integer.
    return int((~(np.abs(got - want).max(axis=1) <= WRONG)).sum())


def processor_seconds(database: Any, query: str) -> float:
    """Return the processor time of a statement, which neighbours do not change."""
    began = time.process_time()
    database.execute(query).fetchall()
    return time.process_time() - began


if __name__ == "__main__":
    main()
