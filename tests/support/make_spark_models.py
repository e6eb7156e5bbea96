"""Fit small models with Spark, and store them with rows and Spark's answers.

Spark and Java are needed here alone::

    python tests/support/make_spark_models.py

The archive that it writes is read by ``tests/unit/parse/spark``.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pyspark.ml import Pipeline, classification, clustering, feature, regression
from pyspark.sql import SparkSession

ARCHIVE = Path(__file__).parents[1] / "unit/parse/spark/models"
NUMBERS = ["height", "weight", "grade"]


def table(n: int, seed: int) -> pd.DataFrame:
    """Rows of numbers and text; some numbers are missing, and some lie on bucket edges."""
    rng = np.random.default_rng(seed)
    height = rng.normal(size=n).round(2)
    height[::9] = np.nan
    return pd.DataFrame(
        {
            "height": height,
            "weight": rng.choice([-1.5, 0.0, 0.25, 1.0, 3.0], n) + rng.integers(0, 2, n) / 8,
            "grade": rng.integers(0, 4, n).astype(float),
            "colour": rng.choice(["red", "green", "blue"], n, p=[0.5, 0.3, 0.2]),
            "label": (rng.normal(size=n) + np.nan_to_num(height) > 0).astype(float),
            "class": rng.integers(0, 3, n).astype(float),
            "value": np.nan_to_num(height) * 2 + rng.normal(size=n),
        }
    )


def prepared(*scalers: Any, start: str = "x") -> list[Any]:
    """Stages from raw columns to a vector."""
    stages = [
        feature.StringIndexer(inputCol="colour", outputCol="colour_n", handleInvalid="keep"),
        feature.OneHotEncoder(inputCols=["colour_n"], outputCols=["colours"]),
        feature.Imputer(inputCols=["height"], outputCols=["height_f"], strategy="median"),
        feature.Bucketizer(
            splits=[-np.inf, 0.0, 1.0, np.inf], inputCol="weight", outputCol="weight_b"
        ),
        feature.VectorAssembler(
            inputCols=["height_f", "weight", "weight_b", "colours"], outputCol="x"
        ),
    ]
    for place, scaler in enumerate(scalers):
        stages.append(scaler.copy({scaler.inputCol: start, scaler.outputCol: f"x{place}"}))
        start = f"x{place}"
    return stages


def pipelines() -> dict[str, list[Any]]:
    """Pipelines by name."""
    c, r = classification, regression
    scaler = feature.StandardScaler(withMean=True)
    column = {"featuresCol": "x"}
    label = {**column, "labelCol": "label"}
    classes = {**column, "labelCol": "class"}
    value = {**column, "labelCol": "value"}
    tree = {"maxDepth": 3, "seed": 1}
    plain = [feature.VectorAssembler(inputCols=["weight", "grade"], outputCol="x")]
    positive = [*plain, feature.MinMaxScaler(inputCol="x", outputCol="x0", max=3.0)]
    return {
        "scaled": prepared(scaler, feature.MinMaxScaler(min=-1.0), feature.MaxAbsScaler()),
        "projected": prepared(scaler, feature.PCA(k=2)),
        "logistic": [*prepared(), c.LogisticRegression(**label, maxIter=5, threshold=0.45)],
        "multinomial": [*prepared(), c.LogisticRegression(**classes, maxIter=5)],
        "linear": [*prepared(), r.LinearRegression(**value)],
        "svc": [*prepared(), c.LinearSVC(**label, maxIter=4)],
        "bayes": [*positive, c.NaiveBayes(featuresCol="x0", labelCol="class")],
        "perceptron": [
            *plain,
            c.MultilayerPerceptronClassifier(**classes, layers=[2, 4, 3], seed=1),
        ],
        "tree": [*prepared(), c.DecisionTreeClassifier(**classes, **tree)],
        "tree of numbers": [*prepared(), r.DecisionTreeRegressor(**value, **tree)],
        "forest": [*prepared(), c.RandomForestClassifier(**classes, numTrees=4, **tree)],
        "forest of numbers": [*prepared(), r.RandomForestRegressor(**value, numTrees=4, **tree)],
        "boosting": [*prepared(), c.GBTClassifier(**label, maxIter=3, **tree)],
        "boosting of numbers": [*prepared(), r.GBTRegressor(**value, maxIter=3, **tree)],
        "clusters": [*plain, clustering.KMeans(featuresCol="x", k=3, seed=1)],
        "names": [
            *prepared(),
            c.DecisionTreeClassifier(**classes, **tree),
            feature.IndexToString(
                inputCol="prediction", outputCol="name", labels=["low", "middle", "high"]
            ),
        ],
    }


def main() -> None:
    """Fit all, and write the archive."""
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    train = spark.createDataFrame(table(120, 0).astype(object).where(table(120, 0).notna(), None))
    rows = table(60, 1)
    rows.loc[7, "colour"] = "mauve"
    asked = spark.createDataFrame(rows)
    folder = Path(tempfile.mkdtemp())
    answers = {}
    for name, stages in pipelines().items():
        model = Pipeline(stages=stages).fit(train)
        model.write().save(str(folder / name))
        answers[name] = _answers(model.transform(asked).toPandas())
    spark.stop()
    for clutter in (*folder.rglob("*.crc"), *folder.rglob("_SUCCESS")):
        clutter.unlink()
    stored = {"rows": rows.to_dict("list"), "answers": answers}
    (folder / "answers.json").write_text(json.dumps(stored))
    shutil.make_archive(str(ARCHIVE), "zip", folder)


def _answers(frame: pd.DataFrame) -> dict[str, Any]:
    """Return the columns that models make, or the last one; Spark drops no row here."""
    made = [c for c in ("prediction", "probability", "rawPrediction", "name") if c in frame]
    last = made or [frame.columns[-1]]
    return {name: np.array(frame[name].tolist()).tolist() for name in last}


if __name__ == "__main__":
    main()
