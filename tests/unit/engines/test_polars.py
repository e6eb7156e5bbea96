import numpy as np
import polars as pl
import pytest

import hbconv
import hbconv.engines.polars

COLUMNS = pl.struct("city", "age", "income")


@pytest.fixture
def frame(rows):
    return pl.from_pandas(rows)


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_lazy_queries_answer_as_the_source(frame, rows, source, model, engine):
    query = frame.lazy().select(
        "id",
        COLUMNS.hbconv.predict(model),
        COLUMNS.hbconv.predict_proba(model).struct.unnest(),
    )
    schema = query.collect_schema()
    found = query.collect(engine=engine).sort("id", descending=True)
    assert found.schema == schema
    assert found["predict"].to_list() == source.predict(rows).tolist()
    chances = found.select("predict_proba_goes", "predict_proba_stays").to_numpy()
    np.testing.assert_allclose(chances, source.predict_proba(rows), rtol=1e-9)


def test_paths_and_scorers_are_taken(frame, rows, source, path):
    scorer = hbconv.Scorer(path, "predict")
    found = frame.select(
        COLUMNS.hbconv.predict(path).alias("a"), COLUMNS.hbconv.score(scorer).alias("b")
    )
    assert found["a"].to_list() == found["b"].to_list() == source.predict(rows).tolist()


@pytest.mark.parametrize("count", [0, 1])
def test_few_rows(frame, rows, source, model, count):
    found = frame.head(count).select(COLUMNS.hbconv.score(model, ["predict", "predict_proba"]))
    assert [field.name for field in found.schema["score"].fields] == [
        "predict", "predict_proba_goes", "predict_proba_stays"
    ]  # fmt: skip
    expected = list(source.predict(rows.head(count))) if count else []
    assert found["score"].struct.field("predict").to_list() == expected


def test_rows_are_filtered_and_grouped_as_others(frame, rows, source, model):
    found = (
        frame.lazy()
        .filter(pl.col("id") % 3 == 0)
        .group_by("city")
        .agg((COLUMNS.hbconv.predict(model) == "goes").sum().alias("goes"))
        .collect()
    )
    kept = rows[rows.id % 3 == 0]
    expected = (source.predict(kept) == "goes").astype(int)
    assert dict(found.iter_rows()) == kept.assign(n=expected).groupby("city").n.sum().to_dict()


def test_a_refused_row_ends_the_query_with_its_reason(frame, model):
    with pytest.raises(Exception, match="infinity"):
        frame.with_columns(income=pl.lit(float("inf"))).select(COLUMNS.hbconv.predict(model))


def test_a_missing_column_is_named(frame, model):
    with pytest.raises(Exception, match="no columns income"):
        frame.select(pl.struct("age", "city").hbconv.predict(model))


def test_methods_that_the_model_lacks_are_refused(frame, model):
    with pytest.raises(Exception, match="has no method 'transform'"):
        frame.select(COLUMNS.hbconv.score(model, "transform"))


def test_a_column_of_texts_is_answered_without_a_struct():
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    texts = ["good day", "bad night", "good night", "bad day"]
    source = make_pipeline(CountVectorizer(), LogisticRegression()).fit(texts, [1, 0, 1, 0])
    model = hbconv.convert(source, backend="reference")
    found = pl.DataFrame({"text": texts}).select(pl.col("text").hbconv.predict(model))
    assert found["predict"].to_list() == source.predict(texts).tolist()


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_refused_rows_tell_their_reason(some_refused, path, check_reasons, engine):
    score = hbconv.Scorer(path, "predict", reasons="why")
    query = pl.from_pandas(some_refused).lazy().select("id", COLUMNS.hbconv.score(score))
    check_reasons(query.unnest("score").collect(engine=engine).to_pandas())
