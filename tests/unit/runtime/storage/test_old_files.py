"""Files of older formats load and answer as when they were written for the reference backend.

Files of format 1, by hbconv 0.1.0, each have answers of another form. The forest of format 6 has
links and shares as arrays. The neighbours of format 7 hold every array as it is, and each column of texts of
format 8 the schema. ``answers.json`` holds what each method answered then.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import hbconv

FOLDERS = [Path(__file__).parent / "files" / f"format_{n}" for n in (1, 6, 7, 8)]
FILES = {path.stem: path for folder in FOLDERS for path in folder.glob("*.hbc")}
ANSWERS = {
    name: answers
    for folder in FOLDERS
    for name, answers in json.loads((folder / "answers.json").read_text()).items()
}
X = np.array([[0.5, -1.0, 2.0, 0.0], [-0.25, 1.5, 0.0, 3.0], [0.0, 0.75, -1.0, 0.5]])
FRAME = pd.DataFrame(
    {
        "age": np.float32([0.5, -1.0, 2.0]),
        "colour": ["red", "blue", "green"],
        "n": np.int8([3, -2, 9]),
    },
    index=[7, 8, 9],
)
CATEGORIES = np.array([[0.5, 1.0], [-0.5, 2.0], [0.25, np.nan], [-1.0, 3.0]])
TEXTS = ["a red boat", "no", "blue car car"]


def rows(name):
    if name == "categories":
        return [CATEGORIES]
    if name == "grown_forest":
        return [X[:, :3]]
    if name == "text":
        return [TEXTS]
    if name == "sparse_always":
        return [FRAME[["colour"]]]
    if name in ("blocks", "table", "text_columns"):
        return [FRAME]
    if name == "sparse_as_rows":
        return [X, scipy.sparse.csc_matrix(X), scipy.sparse.csr_array(X)]
    return [X, scipy.sparse.csr_matrix(X)]


def described(answer):
    """Return an answer as JSON that tells its class, its dtypes and its values."""
    if isinstance(answer, list | tuple | Iterator):
        kind = "iterator" if isinstance(answer, Iterator) else type(answer).__name__
        return {kind: [described(part) for part in answer]}
    if isinstance(answer, pd.DataFrame):
        columns = {name: described(answer[name].to_numpy()) for name in answer.columns}
        return {"DataFrame": columns, "index": answer.index.tolist()}
    if scipy.sparse.issparse(answer):
        return {type(answer).__name__: described(answer.toarray())}
    values = np.char.mod("%.6g", answer) if answer.dtype.kind == "f" else answer
    return {answer.dtype.str: values.tolist()}


def answered(model, x):
    """Return the answers of all methods; of a refusal its class."""
    found = {}
    for method in model.methods:
        try:
            found[method] = described(getattr(model, method)(x))
        except hbconv.HbconvError as error:
            found[method] = type(error).__name__
    return found


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("name", sorted(ANSWERS))
def test_an_old_file_answers_as_when_it_was_written(name):
    model = hbconv.load(FILES[name])
    assert [answered(model, x) for x in rows(name)] == ANSWERS[name]


def test_an_old_file_is_saved_in_todays_format(tmp_path):
    for name, answers in ANSWERS.items():
        hbconv.load(FILES[name]).save(tmp_path / name)
        model = hbconv.load(tmp_path / name)
        assert [answered(model, x) for x in rows(name)] == answers
