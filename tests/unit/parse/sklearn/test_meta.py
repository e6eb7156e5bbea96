"""Estimators around others: what the matrix cannot say. Refusals, ties, members that know less,
sparse rows.
"""

import warnings

import numpy as np
import pandas as pd
import pytest
import xgboost
from scipy.sparse import csr_matrix
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import (
    RandomForestClassifier,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.feature_selection import RFE
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeClassifier
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier, OutputCodeClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.semi_supervised import SelfTrainingClassifier
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sources import compared, dense, methods, quietly

import hbconv
from hbconv.errors import InputError, UnsupportedError

RNG = np.random.default_rng(0)
X = RNG.standard_normal((120, 4))
ROWS = RNG.standard_normal((60, 4))
VALUE = X[:, 0] - X[:, 1] + 0.5 * RNG.standard_normal(120)
THREE = np.array(["ash", "birch", "cedar"])[np.digitize(VALUE, [-1, 1])]
CODES = np.digitize(VALUE, [-1, 1])
TWO = np.where(VALUE > 0, "yes", "no")
LABELS = np.stack([VALUE > 0, X[:, 2] > 0.5], axis=1).astype(int)
STUMP = DecisionTreeClassifier(max_depth=1)


def fit(model, x, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(x, y)


def assert_agrees(model, rows=ROWS):
    """Every method the model has answers as the source does; returns the converted model."""
    converted = hbconv.convert(model, backend="reference")
    for method in compared(converted):
        want = quietly(model, method, rows)
        got = getattr(converted, method)(rows)
        assert (isinstance(got, list), hasattr(got, "toarray")) == (
            isinstance(want, list),
            hasattr(want, "toarray"),
        )
        want = dense(want)
        got = dense(got)
        assert (got.shape, got.dtype) == (want.shape, want.dtype), method
        if want.dtype.kind == "f":
            np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12, err_msg=method)
        else:
            np.testing.assert_array_equal(got, want, err_msg=method)
    return converted


def test_voting_in_blocks_is_refused_where_transform_is_asked() -> None:
    """Everything else is answered."""
    source = VotingClassifier([("a", STUMP), ("b", STUMP)], voting="soft", flatten_transform=False)
    model = hbconv.convert(source.fit(X, THREE), "reference")
    assert np.array_equal(model.predict(X), source.predict(X))
    np.testing.assert_allclose(model.predict_proba(X), source.predict_proba(X), rtol=1e-12)
    with pytest.raises(AttributeError, match="VotingClassifier with flatten_transform=False"):
        _ = model.transform
    behind = make_pipeline(source, LogisticRegression())
    behind.steps[1][1].fit(X, THREE)
    with pytest.raises(hbconv.UnsupportedError, match="flatten_transform=False"):
        hbconv.convert(behind, "reference")


REFUSED = [
    (
        VotingClassifier([("a", STUMP), ("b", STUMP)], weights=[1, -1]),
        THREE,
        r"VotingClassifier with weights=\[1, -1\]",
    ),
    (
        VotingClassifier([("a", FrozenEstimator(fit(LogisticRegression(), X, THREE)))]),
        THREE,
        r"with voting='hard'.*labels such as \['ash', 'birch'\]",
    ),
    (
        VotingClassifier([("a", RidgeClassifier())], voting="soft"),
        THREE,
        r"with voting='soft'.*must have predict_proba",
    ),
    (
        VotingRegressor([("a", LinearRegression()), ("b", Ridge())], weights=[1, -1]),
        VALUE,
        r"with weights=\[1, -1\].*sum to zero",
    ),
    (
        DummyClassifier(strategy="stratified"),
        THREE,
        r"DummyClassifier with strategy='stratified'.*at random",
    ),
    (DummyClassifier(), csr_matrix(LABELS), r"DummyClassifier with sparse_output_=True"),
    (
        TransformedTargetRegressor(func=np.cbrt, inverse_func=lambda y: y - y.min()),
        VALUE,
        r"FunctionTransformer .*with inverse_func=<function",
    ),
    (
        TransformedTargetRegressor(
            transformer=OneHotEncoder(handle_unknown="ignore", sparse_output=False),
            check_inverse=False,
        ),
        VALUE,
        r"TransformedTargetRegressor.*inverts to labels",
    ),
    (
        GridSearchCV(Ridge(), {"alpha": [1.0]}, cv=2, refit=False),
        VALUE,
        r"GridSearchCV with refit=False",
    ),
    (
        OneVsOneClassifier(SVC(kernel="precomputed")),
        THREE,
        r"OneVsOneClassifier with estimator='SVC'.*precomputed kernel",
    ),
]


@pytest.mark.parametrize(
    ("model", "y", "message"), REFUSED, ids=[message[:40] for _, _, message in REFUSED]
)
def test_refuses_by_name(model, y, message):
    fitted = fit(model, X @ X.T if "precomputed" in message else X, y)
    with pytest.raises(UnsupportedError, match=message.replace(" .*with", r".*with")):
        hbconv.convert(fitted, backend="reference")


def test_names_the_member_that_is_not_supported():
    class Odd(LogisticRegression):
        def predict_proba(self, X):
            return super().predict_proba(X) / len(X)

    voting = VotingClassifier(
        [("plain", LogisticRegression()), ("odd", make_pipeline(StandardScaler(), Odd()))],
        voting="soft",
    )
    with pytest.raises(
        UnsupportedError, match=r"Odd.*predict_proba computes with the number of rows"
    ):
        hbconv.convert(voting.fit(X, THREE))


def test_text_is_not_passed_through_a_stack():
    table = pd.DataFrame({"tree": THREE.astype(object), "size": VALUE})
    encode = ColumnTransformer([("text", OneHotEncoder(), ["tree"])], remainder="passthrough")
    final = make_pipeline(
        ColumnTransformer([("answers", "passthrough", [0])]), LogisticRegression()
    )
    stack = StackingClassifier(
        [("a", make_pipeline(encode, LogisticRegression()))], final, cv=2, passthrough=True
    )
    with pytest.raises(
        UnsupportedError,
        match=r"StackingClassifier with passthrough=True.*encode the text before stacking",
    ):
        hbconv.convert(stack.fit(table, TWO))
    assert_agrees(
        stack.set_params(passthrough=False, final_estimator=LogisticRegression()).fit(table, TWO),
        table,
    )


def test_constants_have_a_dtype_of_their_own():
    model = DummyClassifier(strategy="constant", constant="low").fit(
        X, np.where(VALUE > 0, "low", "very high")
    )
    converted = assert_agrees(model)
    assert converted.classes_.tolist() == ["low", "very high"]
    assert_agrees(
        DummyClassifier(strategy="constant", constant=1).fit(X, np.where(VALUE > 0, 1.0, 2.0))
    )


@pytest.mark.parametrize("strategy", ["prior", "most_frequent", "constant"])
@pytest.mark.parametrize("cast", [object, "U9", str])
def test_a_constant_text_is_no_longer_than_it_is(strategy, cast):
    """The source makes an array of the labels chosen: texts, where the classes are objects."""
    several = np.stack([THREE, TWO], axis=1)
    for labels in (THREE.astype(cast), several.astype(cast)):
        constant = labels[0] if labels.ndim == 2 else labels[:1]
        assert_agrees(DummyClassifier(strategy=strategy, constant=constant).fit(X, labels))


def test_constants_of_several_types_become_those_of_one_array():
    labels = np.stack([THREE.astype(object), CODES.astype(object)], axis=1)
    for y in (labels, labels[:, 1], labels[:, :1], labels[:, [1, 1]]):
        assert_agrees(DummyClassifier(strategy="most_frequent").fit(X, y))


@pytest.mark.parametrize("form", ["one_vs_rest", "one_vs_one"])
def test_a_process_decodes_objects_as_the_source(form):
    """np.where and one-against-the-rest make texts of them; one-against-one keeps objects."""
    for labels in (TWO.astype(object), THREE.astype(object), THREE.astype("U9"), TWO == "yes"):
        process = GaussianProcessClassifier(optimizer=None, multi_class=form)
        assert_agrees(process.fit(X[:40], labels[:40]))


@pytest.mark.parametrize("passthrough", [False, True])
def test_a_stack_may_end_in_a_constant(passthrough):
    """It reads none of the columns that the members make."""
    members = [("a", LinearRegression()), ("b", Ridge())]
    stack = StackingRegressor(members, DummyRegressor(), cv=2, passthrough=passthrough)
    assert_agrees(stack.fit(X, VALUE))


@pytest.mark.parametrize("backend", ["reference", "torch", "torchscript", "onnx", "tvm"])
def test_a_dummy_answers_for_text_that_it_does_not_read(backend):
    table = pd.DataFrame({"tree": THREE.astype(object)})
    voting = VotingClassifier(
        [("a", DummyClassifier()), ("b", make_pipeline(OneHotEncoder(), LogisticRegression()))],
        voting="soft",
    )
    for model in (DummyClassifier(), voting):
        converted = hbconv.convert(model.fit(table, TWO), backend=backend)
        for rows in (table, table[:1], table[:0]):
            assert converted.predict_proba(rows).shape == (len(rows), 2)
        np.testing.assert_allclose(
            converted.predict_proba(table), model.predict_proba(table), rtol=1e-12
        )


TEXTS = np.array(
    ["red apple", "green pear", "blue sky red", "apple pie", "sky is blue", "green green"] * 20,
    dtype=object,
)
OF_TEXTS = [
    VotingClassifier(
        [
            ("a", make_pipeline(TfidfVectorizer(), LogisticRegression())),
            ("b", make_pipeline(CountVectorizer(), STUMP)),
        ],
        voting="soft",
    ),
    StackingClassifier([("a", make_pipeline(TfidfVectorizer(), LogisticRegression()))], cv=2),
    make_pipeline(
        TfidfVectorizer(), StackingClassifier([("a", LogisticRegression())], cv=2, passthrough=True)
    ),
    make_pipeline(TfidfVectorizer(), OneVsOneClassifier(LinearSVC())),
    make_pipeline(TfidfVectorizer(), OutputCodeClassifier(LinearSVC(), random_state=0)),
    CalibratedClassifierCV(make_pipeline(TfidfVectorizer(), LinearSVC()), cv=2),
    make_pipeline(TfidfVectorizer(), SelfTrainingClassifier(LogisticRegression())),
]


@pytest.mark.parametrize(
    "model",
    OF_TEXTS,
    ids=lambda model: "-".join(
        type(step).__name__ for _, step in getattr(model, "steps", [("", model)])
    ),
)
def test_texts(model):
    assert_agrees(fit(model, TEXTS, np.arange(120) % 3), TEXTS[:10])


@pytest.mark.parametrize("weights", [None, [1, 1], [0.1, 0.1], [0, 0]], ids=str)
def test_votes_that_tie_go_to_the_first_class(weights):
    """One member always says the first class, the other always the last."""
    members = [
        ("first", DummyClassifier(strategy="constant", constant=0)),
        ("last", DummyClassifier(strategy="constant", constant=2)),
    ]
    model = assert_agrees(VotingClassifier(members[::-1], weights=weights).fit(X, THREE))
    assert set(model.predict(ROWS)) == {"ash"}


def test_codes_that_tie_go_to_the_first_class():
    """Half the codes are the same."""
    model = OutputCodeClassifier(STUMP, code_size=0.5, random_state=3).fit(
        X, np.digitize(VALUE, [-2, -1, 0, 1, 2])
    )
    assert len(np.unique(model.code_book_, axis=0)) < len(model.classes_)
    assert_agrees(model)


def test_averages_follow_the_members_dtypes():
    members = [("a", Ridge()), ("b", LinearRegression())]
    for weights in (None, [1, 2], np.array([1, 2], np.float32), np.array([0.1, 2])):
        model = VotingRegressor(members, weights=weights).fit(
            X.astype(np.float32), VALUE.astype(np.float32)
        )
        converted = hbconv.convert(model, backend="reference")
        for rows in (ROWS, ROWS.astype(np.float32), (10 * ROWS).astype(np.int64)):
            assert converted.predict(rows).dtype == model.predict(rows).dtype
            np.testing.assert_allclose(converted.predict(rows), model.predict(rows), rtol=1e-6)


def test_pairs_that_know_some_classes():
    """Folds without a class: its probability is 0, and of two classes the score of the first of
    them is calibrated.
    """
    known = [np.flatnonzero(missing != CODES) for missing in (0, 1, 2)]
    splits = [(train, np.arange(120)) for train in known]
    for method in ("sigmoid", "isotonic"):
        assert_agrees(
            fit(CalibratedClassifierCV(LogisticRegression(), cv=splits, method=method), X, THREE)
        )
    four = np.digitize(VALUE, [-1, 0, 1])
    assert_agrees(
        fit(
            CalibratedClassifierCV(
                LogisticRegression(), cv=[(np.flatnonzero(four != 1), np.arange(120))]
            ),
            X,
            four,
        )
    )


def test_temperature_looks_at_each_row_alone():
    """A row of scores that happens to look like probabilities is taken for some, as where the
    source is given it alone.
    """
    model = fit(
        CalibratedClassifierCV(
            FrozenEstimator(fit(LogisticRegression(), X, THREE)), method="temperature"
        ),
        X,
        THREE,
    )
    inner = model.calibrated_classifiers_[0].estimator
    wanted = np.array([0.2, 0.3, 0.5]) - inner.intercept_
    row = np.linalg.lstsq(inner.coef_, wanted - wanted.mean(), rcond=None)[0][None]
    assert_agrees(model, row)
    assert_agrees(model)


def test_a_class_that_all_rows_or_none_have():
    """The stand-in of scikit-learn answers for it; where it comes first, all scores are
    compared as probabilities are.
    """
    for labels in (
        np.stack([LABELS[:, 0], np.ones(120, int), np.zeros(120, int)], axis=1),
        np.stack([np.ones(120, int), LABELS[:, 0]], axis=1),
    ):
        for member in (LogisticRegression(), STUMP):
            assert_agrees(fit(OneVsRestClassifier(member), X, labels))
    assert_agrees(fit(OneVsRestClassifier(LogisticRegression()), X, np.full(120, "ash")))


def test_rows_that_no_class_claims():
    """Probabilities of 0 stay 0 where each class is decided by itself."""
    x = np.repeat(np.arange(4.0), 30)[:, None]
    model = fit(
        OneVsRestClassifier(DecisionTreeClassifier(max_features=1)), x, np.repeat([0, 1, 2, 0], 30)
    )
    for member in model.estimators_:
        member.tree_.value[:, 0, 1] = 0.0
    assert not model.predict_proba(x).any()
    assert_agrees(model, x)


def test_a_dummy_that_draws_labels_has_probabilities():
    """They are equal; labels are refused where they are asked."""
    source = DummyClassifier(strategy="uniform", random_state=0).fit(X, THREE)
    model = hbconv.convert(source, "reference")
    np.testing.assert_array_equal(model.predict_proba(X), source.predict_proba(X))
    np.testing.assert_array_equal(model.predict_log_proba(X), source.predict_log_proba(X))
    with pytest.raises(AttributeError, match="by the row's place among those of the call"):
        model.predict(X)


def test_thresholds_are_rounded_as_numpy_rounds_them():
    """A Python number is float32 beside XGBoost's probabilities, a numpy number is not."""
    inner = fit(
        xgboost.XGBClassifier(n_estimators=1, max_depth=1, n_jobs=1), X, (VALUE > 0).astype(int)
    )
    for p in np.unique(inner.predict_proba(ROWS)[:, 1]):
        for threshold in (
            float(p),
            float(np.nextafter(np.float64(p), 1)),
            np.nextafter(np.float64(p), 1),
        ):
            model = fit(
                FixedThresholdClassifier(FrozenEstimator(inner), threshold=threshold),
                X,
                (VALUE > 0).astype(int),
            )
            np.testing.assert_array_equal(
                hbconv.convert(model, backend="reference").predict(ROWS), model.predict(ROWS)
            )


def test_has_no_methods_that_the_source_does_not_pass_on():
    forest = RandomForestClassifier(2, max_depth=2, random_state=0)
    frozen = FrozenEstimator(fit(xgboost.XGBClassifier(n_estimators=1, n_jobs=1), X, CODES))
    for model in (
        RFE(forest, n_features_to_select=2),
        GridSearchCV(forest, {"max_depth": [2]}, cv=2),
        frozen,
    ):
        fit(model, X, CODES)
        converted = hbconv.convert(model, backend="reference")
        assert set(compared(converted)) == set(methods(model))
        assert "contributions" in converted.methods


def test_chains_have_probabilities_of_two_classes_alone():
    """A member of three classes has no single probability: the source fails when it is asked
    for it.
    """
    model = ClassifierChain(STUMP).fit(X, np.stack([CODES, LABELS[:, 0]], axis=1))
    assert_agrees(model)
    with pytest.raises(ValueError):
        model.predict_proba(ROWS)
    assert hbconv.convert(model, backend="reference").methods == ("predict",)


def test_a_stack_of_several_labels_has_the_probabilities_that_the_source_can_take_apart():
    """Of a list it takes the first class of each label; of one array it takes nothing."""
    of_list = fit(
        StackingClassifier([("a", STUMP)], DecisionTreeClassifier(max_depth=2), cv=2), X, LABELS
    )
    of_array = fit(
        StackingClassifier([("a", STUMP)], OneVsRestClassifier(LogisticRegression()), cv=2),
        X,
        LABELS,
    )
    assert "predict_proba" in assert_agrees(of_list).methods
    with pytest.raises(IndexError):
        of_array.predict_proba(ROWS)
    assert assert_agrees(of_array).methods == ("predict", "decision_function", "transform")


def test_labels_that_are_no_numbers_enter_no_chain():
    """Text that reads as a number is one to the source."""
    texts = np.where(LABELS == 1, "1", "0")
    model = ClassifierChain(STUMP).fit(X, texts)
    with pytest.raises(
        UnsupportedError,
        match=r"computes with the labels of an inner estimator, such as \['0', '1'\]",
    ):
        hbconv.convert(model, backend="reference")


@pytest.mark.parametrize("passthrough", [False, True])
def test_sparse_rows(passthrough):
    """What passes the input through is sparse where the input is."""
    rows = csr_matrix(np.where(ROWS > 0, ROWS, 0))
    encoder = make_pipeline(
        StandardScaler(with_mean=False),
        StackingRegressor([("a", Ridge()), ("b", Ridge(2.0))], cv=2, passthrough=passthrough),
    )
    model = fit(encoder, csr_matrix(X), VALUE)
    np.testing.assert_allclose(
        hbconv.convert(model, backend="reference").predict(rows), model.predict(rows), rtol=1e-10
    )


def test_predictions_are_checked_before_they_are_inverted():
    """The source refuses infinite predictions where it validates them."""
    model = TransformedTargetRegressor(LinearRegression(), func=np.log, inverse_func=np.exp).fit(
        X, np.exp(9 * VALUE)
    )
    converted = hbconv.convert(model, backend="reference")
    rows = np.concatenate([ROWS, [[1e308, 0, 0, 0]]])
    with pytest.raises(ValueError, match="infinity"):
        quietly(model, "predict", rows)
    with pytest.raises(InputError, match="infinity"):
        converted.predict(rows)
    assert_agrees(model)


def test_labels_of_several_types():
    for labels in (
        LABELS.astype(bool),
        LABELS.astype(np.int8),
        np.where(LABELS == 1, "long", "a"),
        np.where(LABELS == 1, "y", "n").astype(object),
    ):
        assert_agrees(fit(MultiOutputClassifier(STUMP), X, labels))
    for labels in (
        TWO,
        TWO == "yes",
        np.where(TWO == "yes", 2, 1),
        np.where(TWO == "yes", 2.0, 1.0),
        TWO.astype(object),
    ):
        for model in (
            VotingClassifier([("a", STUMP)]),
            StackingClassifier([("a", STUMP)], cv=2),
            OneVsRestClassifier(STUMP),
            OneVsOneClassifier(STUMP),
        ):
            assert_agrees(fit(model, X, labels))
