"""No rows, by every door of every artifact.

Doors of arrays and frames answer as the source does, which of XGBoost has one dimension. Tables and
servers give the columns that they give to rows.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import orjson
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from fitted import available_backends
from pairwise import failing, pairs_covered
from scipy.sparse import csr_matrix
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sources import ask
from xgboost import XGBClassifier

import hbconv
import hbconv.engines.polars
from hbconv.cli import main
from hbconv.engines.pandas import score_frame
from hbconv.serve.protocol.bodies import read_records, read_v2, write_records, write_v2
from hbconv.serve.protocol.grpc_service import message, read_message, write_message
from hbconv.serve.protocol.tensors import pack_texts
from hbconv.serve.served_model import compute, warm
from hbconv.serve.signature import DTYPES

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 3))
FRAME = pd.DataFrame(
    {"age": X[:, 0], "city": rng.choice(["Rome", "Oslo"], 60), "visits": rng.integers(0, 9, 60)}
)
TEXTS = np.array(["one two", "two three", "three one one"] * 20, object)
CODES = np.digitize(X[:, 0], [-0.5, 0.5])
CLASSES = np.array(["low", "middle", "top"])[CODES]


def _mixed() -> Any:
    encode = make_column_transformer(
        (StandardScaler(), ["age", "visits"]), (OneHotEncoder(), ["city"])
    )
    return make_pipeline(encode, LogisticRegression()).fit(FRAME, CLASSES)


def _targets() -> Any:
    forest = RandomForestClassifier(2, max_depth=2, random_state=0)
    return forest.fit(X, np.stack([CLASSES, CLASSES[::-1]], axis=1))


SOURCES: dict[str, tuple[Callable[[], Any], Any]] = {
    "linear": (lambda: LogisticRegression().fit(X, CLASSES), X),
    "trees": (lambda: XGBClassifier(n_estimators=2, max_depth=2).fit(X, CODES), X),
    "targets": (_targets, X),
    "mixed": (_mixed, FRAME),
    "one-hot": (lambda: OneHotEncoder().fit(FRAME[["city"]]), FRAME[["city"]]),
    "texts": (
        lambda: make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(TEXTS, CLASSES),
        TEXTS,
    ),
}
_folder = cache(lambda: Path(mkdtemp()))


@cache
def source(name: str) -> Any:
    """Return a fitted estimator."""
    return SOURCES[name][0]()


@cache
def saved(name: str, backend: str) -> Path:
    """Return the file of its model."""
    path = _folder() / f"{name}-{backend}.hbc"
    model(name, backend, "fresh").save(path)
    return path


@cache
def model(name: str, backend: str, state: str) -> Any:
    """Return its model: as converted, or as read from a file."""
    if state == "fresh":
        return hbconv.convert(source(name), backend=backend, sample=SOURCES[name][1][:3])
    return hbconv.load(saved(name, backend), trusted=state == "trusted")


FACTORS = {
    "name": [*SOURCES],
    "backend": available_backends(),
    "state": ("fresh", "loaded", "trusted"),
}


def form(answer: Any) -> Any:
    """Return class, shape and dtype of an answer."""
    if isinstance(answer, list | tuple | Iterator):
        return type(answer).__name__, [form(part) for part in answer]
    return type(answer).__name__, answer.shape, answer.dtype


def expected(name: str, method: str) -> Any:
    """Return the form of the source's answer to no rows; where it refuses, of none of two."""
    rows = SOURCES[name][1]
    try:
        return form(ask(source(name), method, rows[:0]))
    except Exception:
        found = ask(source(name), method, rows[:2])
        return form([part[:0] for part in found] if isinstance(found, list) else found[:0])


def framed(rows: Any) -> pd.DataFrame:
    """Return rows as a frame."""
    return rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(rows, columns=["a", "b", "c"])


def arrow(rows: Any) -> pa.Table:
    """Return rows as an Arrow table."""
    return pa.Table.from_pandas(framed(rows), preserve_index=False)


ANY: dict[str, Callable[[Any], Any]] = {
    "as fitted": lambda rows: rows,
    "list": lambda rows: [],
    "tuple": lambda rows: (),
}
ARRAYS: dict[str, Callable[[Any], Any]] = {
    "float32": lambda rows: rows.astype(np.float32),
    "sparse": csr_matrix,
}
TABLES: dict[str, Callable[[Any], Any]] = {
    "JSON": lambda rows: "[]",
    "columns": lambda rows: {name: [] for name in framed(rows)},
    "frame": framed,
    "Arrow": arrow,
    "polars": lambda rows: pl.from_pandas(framed(rows)),
}
FORMS = ANY | ARRAYS | TABLES


def _is_taken(name: str, backend: str, state: str, given: str) -> bool:
    """Whether the model reads rows in this form; a trusted one has programs of float64 alone."""
    if given in ARRAYS:
        return name in ("linear", "trees", "targets") and (state, given) != ("trusted", "float32")
    return name != "texts" or given in ANY


def _answers(name: str, backend: str, state: str, given: str) -> None:
    made = model(name, backend, state)
    rows = FORMS[given](SOURCES[name][1][:0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names, where the source has none
        for method in made.parsed.exported:
            assert form(getattr(made, method)(rows)) == expected(name, method)


def test_answers_have_the_form_of_the_source() -> None:
    table = pairs_covered({**FACTORS, "given": [*FORMS]}, _is_taken)
    assert failing(_answers, table) == {}


def _bound(name: str, backend: str, state: str) -> None:
    made = model(name, backend, state)
    for method in made.parsed.exported:
        for rows in (SOURCES[name][1][:0], []):
            assert form(made.bind(method)(rows))[1:] == expected(name, method)[1:]


def test_bound_calls_answer_no_rows() -> None:
    named = [name for name in SOURCES if name != "texts"]
    assert failing(_bound, pairs_covered({**FACTORS, "name": named})) == {}


def _command(name: str, backend: str, state: str, rows: Any) -> Any:
    """Score a parquet file in this process."""
    given, out = _folder() / "rows.parquet", _folder() / "answers.parquet"
    pq.write_table(arrow(rows), given)
    command = ["score", str(saved(name, backend)), str(given), "-o", str(out), "--force"]
    assert main(command + ["--trusted"] * (state == "trusted")) == 0
    return pq.read_schema(out).remove_metadata()


def _scorer(name: str, backend: str, state: str, rows: Any) -> Any:
    made = model(name, backend, state)
    scorer = hbconv.Scorer(made, made.parsed.exported)
    table = arrow(rows)
    return scorer.schema(table.schema) if not table.num_rows else scorer(table).schema


def _pandas(name: str, backend: str, state: str, rows: Any) -> Any:
    return score_frame(framed(rows), hbconv.Scorer(model(name, backend, state))).dtypes.to_dict()


def _polars(name: str, backend: str, state: str, rows: Any) -> Any:
    frame = pl.from_pandas(framed(rows))
    return frame.select(pl.struct(pl.all()).hbconv.score(model(name, backend, state))).schema


def _tensors(name: str, backend: str, state: str, rows: Any) -> Any:
    served = warm("m", "1", model(name, backend, state))
    inputs = [
        {"name": name, "datatype": kind, "shape": values.shape, "data": values.ravel().tolist()}
        for name, kind, values in _inputs(served, rows)
    ]
    asked = read_v2(json.dumps({"inputs": inputs}).encode(), None, served.signature, 9)
    found = compute(served.model, served.signature, asked.rows, asked.wanted)
    outputs = orjson.loads(b"".join(write_v2("m", "1", asked, found)[0]))["outputs"]
    return [(one["name"], one["datatype"], one["shape"][1:]) for one in outputs]


def _grpc(name: str, backend: str, state: str, rows: Any) -> Any:
    served = warm("m", "1", model(name, backend, state))
    request = message("ModelInferRequest")()
    for name, kind, values in _inputs(served, rows):
        request.inputs.add(name=name, datatype=kind, shape=values.shape)
        raw = pack_texts(values) if kind == "BYTES" else values.astype(DTYPES[kind]).tobytes()
        request.raw_input_contents.append(raw)
    asked = read_message(request, served.signature, 9)
    found = compute(served.model, served.signature, asked.rows, asked.wanted)
    answer = message("ModelInferResponse").FromString(write_message("m", "1", asked, found))
    return [(one.name, one.datatype, list(one.shape)[1:]) for one in answer.outputs]


def _inputs(served: Any, rows: Any) -> Iterator[tuple[str, str, Any]]:
    for taken in served.signature.inputs:
        is_column = isinstance(rows, pd.DataFrame)
        yield taken.name, taken.datatype, rows[taken.name].to_numpy(object) if is_column else rows


DOORS = {
    "command": _command,
    "scorer": _scorer,
    "pandas": _pandas,
    "polars": _polars,
    "tensors": _tensors,
    "gRPC": _grpc,
}


def _door(name: str, backend: str, state: str, door: str) -> None:
    rows = SOURCES[name][1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [DOORS[door](name, backend, state, rows[:count]) for count in (0, 2)]
    assert found[0] == found[1]


def test_tables_and_tensors_of_no_rows_have_the_columns_of_rows() -> None:
    served = ("tensors", "gRPC")
    table = pairs_covered(
        {**FACTORS, "door": [*DOORS]},
        lambda name, backend, state, door: name != "texts" or door in served,
    )
    assert failing(_door, table) == {}


def _records(name: str, backend: str, state: str) -> None:
    served = warm("m", "1", model(name, backend, state))
    for document in ([], {"instances": []}):
        asked = read_records(document, served.signature, 9)
        found = compute(served.model, served.signature, asked.rows, asked.wanted)
        assert orjson.loads(b"".join(write_records(asked, found))) == {"predictions": []}


def test_no_records_give_no_predictions() -> None:
    assert failing(_records, pairs_covered(FACTORS)) == {}


def test_a_column_without_a_type_has_no_texts() -> None:
    """As of a CSV file that has a header alone."""
    score = hbconv.Scorer(model("texts", "reference", "fresh"))
    typeless = score(pa.table({"text": pa.array([], pa.null())}))
    assert typeless.schema == score(pa.table({"text": ["one"]})).schema
