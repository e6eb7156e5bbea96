"""Loaders and generators of hbconv_datasets."""

from types import SimpleNamespace

import numpy as np
import pytest

from hbconv_datasets import bundled, generated, originals, texts


@pytest.mark.parametrize("name", bundled.NAMES)
def test_bundled_is_a_named_table(name):
    data = bundled.load(name)
    assert len(data.X) == len(data.y) > 100
    assert all(isinstance(c, str) for c in data.X.columns)


@pytest.mark.parametrize(
    ("name", "width"),
    [
        ("fraud", 28),
        ("year", 90),
        ("covtype", 54),
        ("epsilon", 2000),
        ("higgs", 28),
        ("airline", 13),
    ],
)
def test_generated_has_the_published_shape_and_repeats(name, width):
    first, again, other = (
        generated.make(name, 300, 1),
        generated.make(name, 300, 1),
        generated.make(name, 300, 2),
    )
    assert first.X.shape == (300, width)
    assert first.X.dtype == np.float32
    np.testing.assert_array_equal(first.X, again.X)
    np.testing.assert_array_equal(first.y, again.y)
    assert not np.array_equal(first.X, other.X)


def test_generated_class_shares():
    assert generated.make("fraud", 10_000).y.sum() == 17
    assert np.isclose(np.linalg.norm(generated.make("epsilon", 50).X, axis=1), 1, rtol=1e-5).all()
    assert set(generated.make("covtype", 5000).y) == set(range(1, 8))


def test_mixed_table_has_missing_values_and_text():
    table = generated.mixed_table(1000).X
    assert table["amount_3"].isna().any()
    assert table["carrier"].isna().any()
    assert not table["tier"].isna().any()
    assert "Überflug" in set(table["carrier"])


def test_split_covers_every_row_once():
    train, test = generated.make("higgs", 100).split(0.25)
    assert (len(train.y), len(test.y)) == (75, 25)
    table_train, _ = generated.mixed_table(100).split()
    assert len(table_train.X) == 80


def test_unknown_names_list_the_known():
    for loader in (bundled.load, generated.make, originals.fetch):
        with pytest.raises(ValueError, match="Known: "):
            loader("nope")


def test_fetch_shapes_what_the_server_sends():
    covtype = originals.fetch(
        "covtype",
        fetch_covtype=lambda data_home: SimpleNamespace(
            data=np.ones((3, 54)), target=np.array([1, 2, 7])
        ),
    )
    assert covtype.X.dtype == np.float32
    assert covtype.y.tolist() == [1, 2, 7]
    sent = SimpleNamespace(data=np.arange(60.0).reshape(2, 30), target=np.array(["1", "0"], object))
    fraud = originals.fetch("fraud", fetch_openml=lambda name, **_: sent)
    assert fraud.X.shape == (2, 28)
    assert fraud.y.tolist() == [1, 0]


def test_documents_repeat_and_have_topics():
    first, again, other = (
        texts.documents(200, topics=3, words=1000, length=20, seed=seed) for seed in (1, 1, 2)
    )
    assert first.X.tolist() == again.X.tolist() != other.X.tolist()
    assert set(first.y) == {0, 1, 2}
    assert 15 < np.mean([len(text.split()) for text in first.X]) < 25


def test_listings_have_numbers_categories_texts_and_missing_values():
    table = texts.listings(500).X
    assert {str(dtype) for dtype in table.dtypes} >= {"float64", "float32", "int64", "category"}
    assert all(table[column].isna().any() for column in ("rent", "age", "district"))
    assert table["description"].str.endswith(".").all()
