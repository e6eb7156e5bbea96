"""Figures of the Hummingbird paper (Nakandala et al., OSDI'20), as ratios to scikit-learn.

Times are of six cores of an Intel E5-2690 v4, with the versions of 2020. Ratios above one are
faster than the source library.
"""

from __future__ import annotations

__all__ = ["FIGURES", "NOT_RUN", "TABLE_7", "TABLE_8", "TABLE_10", "TABLE_11", "TABLE_12", "ratio"]

Seconds = tuple[float, float, float]

TABLE_7: dict[str, Seconds] = {
    "RF fraud": (2.5, 7.8, 3.0),
    "RF epsilon": (9.8, 13.9, 6.6),
    "RF year": (1.9, 7.7, 1.4),
    "RF covtype": (5.9, 16.5, 6.8),
    "RF higgs": (102.4, 314.5, 118.0),
    "LGBM fraud": (3.4, 7.6, 1.7),
    "LGBM epsilon": (10.5, 14.5, 4.0),
    "LGBM year": (5.0, 7.6, 1.6),
    "LGBM covtype": (51.06, 79.5, 27.2),
    "LGBM higgs": (198.2, 292.2, 69.3),
    "XGB fraud": (1.9, 7.6, 1.6),
    "XGB epsilon": (7.6, 14.8, 4.2),
    "XGB year": (3.1, 7.6, 1.6),
    "XGB covtype": (42.3, 79.0, 26.4),
    "XGB higgs": (126.4, 301.7, 66.0),
}
"""Batches of 10,000 rows, seconds of the test set: the source, TorchScript, TVM."""

TABLE_8: dict[str, Seconds] = {
    "RF fraud": (1688, 75.5, 11.6),
    "RF epsilon": (2945, 134, 20.4),
    "RF year": (1153, 74.2, 9.13),
    "RF covtype": (3389, 158, 34.1),
    "LGBM fraud": (354, 84.6, 10.2),
    "LGBM epsilon": (40.7, 149, 17.3),
    "LGBM year": (770, 74.1, 9.27),
    "LGBM covtype": (135, 823, 42.9),
    "XGB fraud": (80.0, 84.6, 10.2),
    "XGB epsilon": (121, 149, 17.4),
    "XGB year": (98.7, 74.6, 9.25),
    "XGB covtype": (135, 818, 43.7),
}
"""One row a call."""

TABLE_10: dict[str, tuple[float, float]] = {
    "RF fraud": (0.58, 102),
    "RF epsilon": (2.67, 109),
    "LGBM year": (6.15, 8.35),
    "LGBM covtype": (23.1, 26.4),
    "XGB epsilon": (25.9, 113),
    "XGB year": (23.5, 110),
}
"""Seconds of converting 500 trees: TorchScript, TVM."""

TABLE_11: dict[str, Seconds] = {
    "LogisticRegression": (970, 260, 47),
    "SGDClassifier": (180, 270, 49),
    "LinearSVC": (110, 260, 51),
    "NuSVC": (3240, 2800, 3000),
    "SVC": (1690, 1520, 1560),
    "BernoulliNB": (280, 290, 65),
    "MLPClassifier": (930, 910, 1430),
    "DecisionTreeClassifier": (59, 560, 35),
    "Binarizer": (98, 39, 59),
    "MinMaxScaler": (92, 78, 57),
    "Normalizer": (94, 83, 97),
    "PolynomialFeatures": (4030, 6380, 3130),
    "StandardScaler": (150, 77, 58),
}
"""Operators, a million rows of 20 columns, milliseconds: scikit-learn, TorchScript, TVM."""

TABLE_12: dict[str, Seconds] = {
    "NuSVC": (0.086, 4.1, 0.14),
    "SVC": (0.086, 2.3, 0.12),
    "PolynomialFeatures": (1.2, 0.5, 0.1),
    "DecisionTreeClassifier": (0.087, 0.44, 0.12),
}
"""The same for one row."""

FIGURES = {
    "figure 9": "3 at the least features, 2 at the most",
    "figure 10": "up to 3 where most weights are zero",
    "figure 12": "about 60 % of 2,317 pipelines faster; from 60 times slower to 1,200 times faster",
}
"""What the text of the paper says of its figures, which have no table."""

NOT_RUN = {
    "table 7, columns of GPUs": "needs a GPU",
    "table 11, columns of GPUs": "needs a GPU",
    "figure 6, generations of GPUs": "needs a GPU",
    "table 7, airline": "115 million rows",
    "table 9, memory": "benchmarks/memory.py measures it",
    "figure 11": "no figure of it is at hand",
    "figure 12, pipelines of OpenML": "benchmarks/pipelines.py draws others, without a network",
}
"""What is not measured here, and why."""


def ratio(found: Seconds | None, backend: str) -> float | None:
    """Return the published ratio of a backend, where there is one.

    >>> ratio((10.0, 20.0, 5.0), "tvm")
    2.0
    """
    if found is None or backend not in ("torchscript", "tvm"):
        return None
    return found[0] / found[1 if backend == "torchscript" else 2]
