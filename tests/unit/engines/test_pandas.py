import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

import hbconv
import hbconv.engines.pandas


def test_answers_have_the_index_of_the_rows(rows, source, model):
    rows = rows.set_index(pd.Index([f"r{i}" for i in rows.id], name="row"))
    found = rows.hbconv.score(model, ["predict", "predict_proba"], keep=["id"])
    assert found.index.equals(rows.index)
    assert list(found) == ["id", "predict", "predict_proba_goes", "predict_proba_stays"]
    assert found.id.equals(rows.id)
    assert found.predict.tolist() == source.predict(rows).tolist()
    np.testing.assert_allclose(found.iloc[:, 2:], source.predict_proba(rows), rtol=1e-9)


def test_short_forms(rows, source, path):
    assert rows.hbconv.predict(path).tolist() == source.predict(rows).tolist()
    assert list(rows.hbconv.predict_proba(path)) == ["predict_proba_goes", "predict_proba_stays"]


@pytest.mark.parametrize("count", [0, 1])
def test_few_rows_have_the_dtypes_of_many(rows, model, count):
    found = rows.head(count).hbconv.score(model, ["predict", "predict_proba"])
    assert len(found) == count
    many = rows.hbconv.score(model, ["predict", "predict_proba"])
    assert found.dtypes.equals(many.dtypes)
    assert isinstance(rows.head(count).hbconv.predict(model), pd.Series)


def test_several_targets_are_a_frame():
    x = pd.DataFrame(np.eye(3), columns=list("abc"))
    source = LinearRegression().fit(x, np.arange(6.0).reshape(3, 2))
    found = x.hbconv.predict(hbconv.convert(source, backend="reference"))
    assert list(found) == ["predict_0", "predict_1"]
    np.testing.assert_allclose(found, source.predict(x), atol=1e-12)


def test_equal_index_labels_stay(rows, source, model):
    rows = rows.set_axis(np.zeros(len(rows), int))
    found = rows.hbconv.score(model, "predict", keep=["id"])
    assert found.predict.tolist() == source.predict(rows).tolist()
    assert found.id.tolist() == rows.id.tolist()


def test_answers_may_be_written_to(rows, model):
    found = rows.hbconv.predict_proba(model)
    found.iloc[0, 0] = 2.0
    assert found.iloc[0, 0] == 2.0


def test_missing_columns_and_refused_rows(rows, model):
    with pytest.raises(hbconv.InputError, match="income"):
        rows.drop(columns="income").hbconv.predict(model)
    with pytest.raises(hbconv.InputError, match="infinity"):
        rows.assign(income=np.inf).hbconv.predict(model)
