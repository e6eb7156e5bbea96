"""Pipelines and unions."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import lightgbm
from matrix.case import Case
from matrix.data import table_rows
from matrix.fitting import fit
from matrix.tables import encode, fit_mixed
from matrix.texts import documents, fit_texts, mappings, tables, text_beside_numbers
from sklearn import feature_extraction
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.ensemble import RandomForestClassifier
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.feature_extraction import text
from sklearn.feature_selection import SelectKBest, chi2
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    MinMaxScaler,
    StandardScaler,
)
from sklearn.svm import LinearSVC


def models() -> Iterator[Case]:
    """Models behind vectorizers: linear ones read the entries alone, others the rows written
    out.
    """
    case = partial(Case, "sklearn.pipeline.Pipeline", rows=documents)
    weighed = text.TfidfVectorizer
    yield case(
        "text, logistic regression", fit_texts(make_pipeline(weighed(), LogisticRegression()))
    )
    yield case(
        "text, sgd, two classes",
        fit_texts(
            make_pipeline(
                text.HashingVectorizer(n_features=2**18),
                SGDClassifier(loss="log_loss", random_state=0),
            ),
            y="two",
        ),
    )
    selected = make_pipeline(
        weighed(sublinear_tf=True),
        SelectKBest(chi2, k=9),
        StandardScaler(with_mean=False),
        LinearSVC(random_state=0),
    )
    yield case("text, selected and scaled, linear svc", fit_texts(selected))
    yield case(
        "counts, weighed apart",
        fit_texts(
            make_pipeline(text.CountVectorizer(), text.TfidfTransformer(), LogisticRegression())
        ),
    )
    yield case(
        "text, projected", fit_texts(make_pipeline(weighed(), TruncatedSVD(3, random_state=0)))
    )
    yield case(
        "text, trees",
        fit_texts(
            make_pipeline(
                text.CountVectorizer(), RandomForestClassifier(5, max_depth=4, random_state=0)
            )
        ),
        kind="trees",
    )
    union = FeatureUnion(
        [
            ("words", weighed()),
            ("characters", text.CountVectorizer(analyzer="char", ngram_range=(2, 2))),
        ],
        transformer_weights={"words": 3.0},
    )
    yield case("texts read twice", fit_texts(make_pipeline(union, LogisticRegression())))
    yield case(
        "mappings",
        fit_texts(
            make_pipeline(feature_extraction.DictVectorizer(), LogisticRegression()), mappings
        ),
        rows=mappings,
    )
    parts = text_beside_numbers()
    yield case(
        "text beside numbers",
        fit_texts(make_pipeline(ColumnTransformer(parts), LogisticRegression()), tables),
        rows=tables,
    )


def pipelines() -> Iterator[Case]:
    """Pipelines."""
    name = "sklearn.pipeline.Pipeline"
    yield Case(
        name,
        "scale, logistic",
        fit(make_pipeline(StandardScaler(), LogisticRegression()), "three_text"),
    )
    long = make_pipeline(SimpleImputer(), MinMaxScaler(), SelectKBest(k=4), LogisticRegression())
    yield Case(name, "impute, scale, select, logistic", fit(long, "two", missing=True))
    yield Case(
        name,
        "pca, forest",
        fit(
            make_pipeline(
                PCA(3, random_state=0), RandomForestClassifier(5, max_depth=3, random_state=0)
            ),
            "two_text",
        ),
    )
    yield Case(
        name, "passthrough", fit(Pipeline([("scale", StandardScaler()), ("none", "passthrough")]))
    )
    impute_scale = make_pipeline(SimpleImputer(), StandardScaler())
    booster = lightgbm.LGBMClassifier(n_estimators=5, num_leaves=7, verbosity=-1, n_jobs=1)
    yield Case(
        name,
        "table, logistic",
        fit_mixed(make_pipeline(encode(impute_scale), LogisticRegression()), "two_text"),
        rows=table_rows,
    )
    yield Case(
        name,
        "table, boosting",
        fit_mixed(
            make_pipeline(encode("passthrough").set_output(transform="default"), booster), "three"
        ),
        rows=table_rows,
    )


def unions() -> Iterator[Case]:
    """Unions of features."""
    name = "sklearn.pipeline.FeatureUnion"
    yield Case(
        name,
        "pca, scale",
        fit(FeatureUnion([("pca", PCA(2, random_state=0)), ("scale", StandardScaler())])),
    )
    parts = [
        ("a", make_pipeline(StandardScaler(), TruncatedSVD(2, random_state=0))),
        ("b", "passthrough"),
        ("c", "drop"),
    ]
    yield Case(name, "weights, pipeline", fit(FeatureUnion(parts, transformer_weights={"a": 2.0})))


CASES = (*models(), *pipelines(), *unions())
