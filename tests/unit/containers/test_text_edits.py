"""Edited texts are looked up, counted, tested and read as numbers, as Python does it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, TransformerMixin

import hbconv
from hbconv.containers import (
    Cast,
    Codes,
    Concat,
    EditedVocabulary,
    Node,
    TextEdit,
    TextNumber,
)
from hbconv.errors import BackendError, InputError
from hbconv.parse import Step, registry
from hbconv.runtime.storage.codec import decode, encode

Edits = tuple[TextEdit, ...]
KNOWN = ("ab", "straße", "", "7", "é", "x-y")
TEXTS = [
    "ab", " AB ", "Straße", "STRASSE", "", "  ", "x-y-z", "-", "7", "007", "3.25", "-0.0", "1e400", "nan", " inf ",
    "5e-324", "0.1", "1_000", "İ", "é", "e\u0301", "日本-x", "a\0", "ab\n", "12345678901234567890", "-2.5e-310",
]  # fmt: skip


def edit(name: str, *arguments: Any) -> TextEdit:
    return TextEdit(name, arguments)


LOOKED_UP: dict[str, tuple[Edits, Callable[[str], str | None]]] = {
    "as it is": ((), lambda t: t),
    "lower": ((edit("strip"), edit("lower")), lambda t: t.strip().lower()),
    "upper": ((edit("upper"), edit("lower")), lambda t: t.upper().lower()),
    "slice": ((edit("slice", None, 2),), lambda t: t[:2]),
    "pick": ((edit("pick", "-", 1),), lambda t: (t.split("-") + [None] * 2)[1]),
    "last": ((edit("pick", "-", -1),), lambda t: t.split("-")[-1]),
    "zfill": ((edit("zfill", 3), edit("removeprefix", "00")), lambda t: t.zfill(3).removeprefix("00")),
    "replace": ((edit("replace", "-z", ""),), lambda t: t.replace("-z", "")),
    "enclose": ((edit("enclose", "", "b"),), lambda t: t + "b"),
    "ends": ((edit("lstrip"), edit("rstrip", "\n"), edit("removesuffix", "-z")), lambda t: t.lstrip().rstrip("\n").removesuffix("-z")),
    "title": ((edit("title"), edit("capitalize"), edit("lower")), lambda t: t.title().capitalize().lower()),
}  # fmt: skip
COUNTED: dict[str, tuple[Edits, Callable[[str], int]]] = {
    "length": ((edit("strip"), edit("length")), lambda t: len(t.strip())),
    "count": ((edit("count", "-"),), lambda t: t.count("-")),
    "find": ((edit("find", "-"),), lambda t: t.find("-") + 1),
    "contains": ((edit("lower"), edit("contains", "str")), lambda t: "str" in t.lower()),
    "startswith": ((edit("startswith", "x"),), lambda t: t.startswith("x")),
    "endswith": ((edit("endswith", "z"),), lambda t: t.endswith("z")),
}


def number_of(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return np.nan


class TextFeatures(TransformerMixin, BaseEstimator):
    """What the user's own transformer may do with a column of texts; a missing one is -1 or NaN."""

    def fit(self, X: pd.DataFrame, y: Any = None) -> TextFeatures:
        self.feature_names_in_ = np.asarray(X.columns, object)
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X: pd.DataFrame) -> npt.NDArray[np.float64]:
        return np.array([self._features(text) for text in X["t"]], np.float64).reshape(
            len(X), len(LOOKED_UP) + len(COUNTED) + 2
        )

    @staticmethod
    def _features(text: Any) -> list[float]:
        if not isinstance(text, str):
            return [*(-1 for _ in (*LOOKED_UP, *COUNTED)), np.nan, np.nan]
        edited = [function(text) for _, function in LOOKED_UP.values()]
        return [
            *(KNOWN.index(value) if value in KNOWN else -1 for value in edited),
            *(function(text) for _, function in COUNTED.values()),
            number_of(text),
            number_of(text[1:]),
        ]


def parse_text_features(step: Step) -> Node:
    schema = step.x.schema
    codes: list[Node] = [
        Codes(schema, 0, EditedVocabulary(KNOWN, edits=edits)) for edits, _ in LOOKED_UP.values()
    ]
    codes += [Codes(schema, 0, EditedVocabulary((), edits=edits)) for edits, _ in COUNTED.values()]
    numbers = (TextNumber.of(schema, 0), TextNumber.of(schema, 0, (edit("slice", 1, None),)))
    return Concat((*(Cast(code, "float64") for code in codes), *numbers))


@pytest.fixture(autouse=True)
def registry_of_this_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_ENTRIES", dict(registry._ENTRIES))
    monkeypatch.setattr(registry, "_FOUND", {})
    hbconv.parses(f"{__name__}.TextFeatures")(parse_text_features)


TABLE = pd.DataFrame({"t": pd.Series([*TEXTS, None, np.nan], dtype=object)})
SOURCE = TextFeatures().fit(TABLE)


def require_equal(got: npt.NDArray[Any], rows: pd.DataFrame) -> None:
    want = SOURCE.transform(rows)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got[:, -2]), np.signbit(want[:, -2]))


@pytest.mark.parametrize("backend", ["reference", "torch", "torchscript", "onnx", "tvm"])
def test_texts_are_edited_as_by_python(backend: str) -> None:
    model = hbconv.convert(SOURCE, backend, sample=TABLE)
    many = TABLE.sample(3000, replace=True, random_state=0).reset_index(drop=True)
    for rows in (TABLE, many, TABLE.iloc[:0], TABLE.astype("string"), TABLE.astype("category")):
        plain = rows.astype(object).where(rows.notna(), np.nan)
        require_equal(np.asarray(model.transform(rows)), plain)
    for row in range(len(TABLE)):
        require_equal(np.asarray(model.transform(TABLE.iloc[[row]])), TABLE.iloc[[row]])
        require_equal(np.asarray(model.transform([{"t": TABLE["t"][row]}])), TABLE.iloc[[row]])


def test_edits_are_stored_with_the_model(tmp_path: Path) -> None:
    path = tmp_path / "model.hbc"
    hbconv.convert(SOURCE, "reference", sample=TABLE).save(path)
    require_equal(np.asarray(hbconv.load(path).transform(TABLE)), TABLE)


def test_files_for_other_runtimes_are_refused(tmp_path: Path) -> None:
    model = hbconv.convert(SOURCE, "onnx", sample=TABLE)
    with pytest.raises(BackendError, match="edited before they are looked up"):
        model.export(tmp_path / "model.onnx")


WRONG = {
    "no edit": edit("exec", "1"),
    "an argument too many": edit("lower", "a"),
    "none too few": edit("zfill"),
    "another type": edit("replace", "a", 1),
    "a bool": edit("zfill", True),
    "too wide": edit("zfill", 2**40),
    "no place": edit("pick", "-", None),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_file_with_another_edit_is_refused(name: str) -> None:
    vocabulary = EditedVocabulary(KNOWN, edits=(WRONG[name],))
    schema = hbconv.convert(SOURCE, "reference", sample=TABLE).parsed.schema
    with pytest.raises(hbconv.StoreError, match=r"edits texts by|holds a TextEdit"):
        decode(*encode(Codes(schema, 0, vocabulary)))


def test_a_number_ends_the_edits() -> None:
    assert "behind a number" in str(
        EditedVocabulary((), edits=(edit("length"), edit("lower"))).misfit
    )
    assert "looks up a number" in str(EditedVocabulary(KNOWN, edits=(edit("length"),)).misfit)


def test_a_text_that_grows_without_end_is_refused() -> None:
    grow = (edit("replace", "a", "a" * 4096),) * 3
    with pytest.raises(InputError, match="grows beyond"):
        _ = EditedVocabulary(KNOWN, edits=grow).codes["aa"]
