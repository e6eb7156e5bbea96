"""Models to draw, each with what is hard about it."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier, StackingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import hbconv

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 5))
Y = (X[:, 0] + X[:, 1] > 0).astype(int) + (X[:, 2] > 0)
EVIL = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "]]></svg>{{boxes}}&amp;\x00\x1b",
    "日本 \u202egpj.exe",
)
"""Names of columns that would be markup, or break it, if they were not escaped."""


def heads():
    """Return twelve heads of one shape."""
    return make_pipeline(StandardScaler(), OneVsRestClassifier(LogisticRegression())).fit(
        X, RNG.permutation(np.arange(120) % 12)
    )


def stacked():
    """Return members within members, whose lines pass many bands."""
    members = [
        ("tree", DecisionTreeClassifier(max_depth=3, random_state=0)),
        ("near", make_pipeline(PCA(2), KNeighborsClassifier())),
    ]
    stack = StackingClassifier(members, LogisticRegression(), cv=2)
    return make_pipeline(StandardScaler(), CalibratedClassifierCV(stack, cv=2)).fit(X, Y)


def table():
    """Return a model of columns of numbers and of texts, with hostile names."""
    rows = pd.DataFrame(X[:, :3], columns=list(EVIL[:3]))
    rows[EVIL[3]] = RNG.choice(["<b>", "b", "c"], len(rows))
    encode = ColumnTransformer(
        [
            ("<i>num", make_pipeline(SimpleImputer(), StandardScaler()), list(EVIL[:3])),
            ("&cat", OneHotEncoder(handle_unknown="ignore"), [EVIL[3]]),
        ]
    )
    trees = HistGradientBoostingClassifier(max_iter=5, random_state=0)
    return Pipeline([("</title>prep", encode), ("trees", trees)]).fit(rows, Y)


def constant():
    """Return a model that reads no values."""
    return DummyClassifier().fit(X, Y)


MODELS = {"heads": heads, "stacked": stacked, "table": table, "constant": constant}


@cache
def converted(name, backend="torch"):
    """Return the converted model."""
    return hbconv.convert(MODELS[name](), backend)
