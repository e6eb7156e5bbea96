"""Model cards: what is written is read again, and what anyone wrote executes nothing."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

import hbconv
from hbconv.engines.model_card import CARD, read_card, write_card
from hbconv.errors import OptionError, StoreError

PEOPLE = pd.DataFrame({"age": [20.0, 31, 42, 53], "<img|`x`>\n": [9.0, 3, 8, 2]})
SOURCE = LogisticRegression().fit(PEOPLE, ["goes", "goes", "stays", "stays"])


@pytest.fixture
def written(tmp_path):
    more = {"license": "apache-2.0", "tags": ["churn"]}
    write_card(hbconv.convert(SOURCE), tmp_path / "churn", title="Churn", metadata=more)
    return tmp_path / "churn"


def test_what_is_written_is_read(written):
    card = read_card(written)
    np.testing.assert_array_equal(card.load().predict(PEOPLE), SOURCE.predict(PEOPLE))
    assert card.metadata["pipeline_tag"] == "tabular-classification"
    assert (card.metadata["license"], card.metadata["tags"]) == ("apache-2.0", ["churn"])
    own = card.metadata["hbconv"]
    assert own["columns"] == [{"name": n, "dtype": "float64"} for n in PEOPLE]
    assert own["methods"]["predict_proba"] == ["predict_proba_goes", "predict_proba_stays"]
    assert card.text.startswith("# Churn\n")


def test_names_of_columns_are_no_markdown(written):
    text = read_card(written).text
    assert "<img" not in text
    assert "| &#60;img&#124;&#96;x&#96;&#62;&#10; | float64 |" in text


def test_a_transformer_has_no_task(tmp_path):
    scaler = StandardScaler().fit(np.eye(3))
    card = write_card(hbconv.convert(scaler), tmp_path / "a/b")
    assert card == read_card(tmp_path / "a/b")
    assert "pipeline_tag" not in card.metadata


def test_nothing_is_overwritten(written):
    model = hbconv.convert(SOURCE)
    before = (written / CARD).read_bytes()
    with pytest.raises(OptionError, match="already"):
        write_card(model, written)
    with pytest.raises(OptionError, match="made from the model"):
        write_card(model, written / "new", metadata={"hbconv": {}})
    assert (written / CARD).read_bytes() == before
    assert not (written / "new").exists()


@pytest.mark.parametrize("name", ["../model.hbc", "/etc/passwd", "", "..", None, ["a"]])
def test_a_card_names_a_file_of_its_folder(written, name):
    (written / CARD).write_text(f"---\nhbconv: {{file: {json.dumps(name)}}}\n---\n")
    with pytest.raises(StoreError, match="names no model"):
        read_card(written).load()


@pytest.mark.parametrize(
    "content",
    ["", "# Title\n", "---\n- a\n---\n", "---\na: [\n---\n", "---\na: !!python/object/apply:os.getcwd []\n---\n",
     "---\nhbconv: 3\n"],
    ids=["empty", "no head", "a list", "broken", "an object", "no end"],
)  # fmt: skip
def test_what_is_no_card_is_refused(tmp_path, content):
    (tmp_path / CARD).write_text(content)
    with pytest.raises(StoreError):
        read_card(tmp_path)
    with pytest.raises(StoreError, match="cannot be read"):
        read_card(tmp_path / "missing")
