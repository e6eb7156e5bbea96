"""Doors: all ways by which a row reaches a model, from a frame to a server's message.

A door takes a model, the path where it lies, and records whose missing values are spelled in one
way. It returns what ``transform`` answers.
"""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import dask
import dask.dataframe as dd
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

import hbconv
from hbconv.cli import main
from hbconv.engines.dask import score_frames
from hbconv.engines.duckdb import create_function
from hbconv.engines.pandas import score_frame
from hbconv.errors import InputError
from hbconv.serve.inference import form_input
from hbconv.serve.protocol.bodies import read_records, read_v2
from hbconv.serve.protocol.grpc_service import message, read_message
from hbconv.serve.protocol.tensors import NON_FINITE
from hbconv.serve.signature import ModelSignature

__all__ = ["ABSENT", "DOORS", "TELLS_NAN", "UNCHECKED", "Asked"]

ABSENT = object()
"""The value of a key that a record has not."""
MOST_ROWS = 100

Record = dict[str, Any]


class Asked(NamedTuple):
    """A model, where it is saved, and rows for it."""

    model: hbconv.Model
    path: Path
    records: Sequence[Record]

    @property
    def given(self) -> list[Record]:
        """The records without what is absent."""
        return [{k: v for k, v in one.items() if v is not ABSENT} for one in self.records]

    @property
    def columns(self) -> dict[str, list[Any]]:
        """The values by their columns; NA is None, as it is in other libraries than pandas."""
        names = list(dict.fromkeys(name for one in self.given for name in one))
        values = {name: [one.get(name) for one in self.given] for name in names}
        return {name: [None if v is pd.NA else v for v in own] for name, own in values.items()}

    @property
    def json(self) -> str:
        """The records as JSON text, in which NaN is a token of its own."""
        return json.dumps([{k: _plain(v) for k, v in one.items()} for one in self.given])

    @property
    def table(self) -> Any:
        """The records as an Arrow table."""
        return pa.table({name: _typed(values) for name, values in self.columns.items()})


def _typed(values: list[Any]) -> list[Any]:
    """Return values for a column of one type: bools have no NaN."""
    has_bools = any(isinstance(v, bool) for v in values)
    return [None if v != v and has_bools else v for v in values]


def _plain(value: Any) -> Any:
    if value is pd.NA:
        return None
    return value.isoformat() if hasattr(value, "isoformat") else value


def _bound(asked: Asked) -> Any:
    return asked.model.bind("transform")(asked.given)


def _bound_row(asked: Asked) -> Any:
    call = asked.model.bind("transform", rows=1)
    return np.concatenate([np.array(call(record)) for record in asked.given])


def _row_by_row(asked: Asked) -> Any:
    """Ask for each record twice: the second time the row call knows its kind."""
    for _ in range(2):
        found = [np.array(asked.model.transform(record)) for record in asked.given]
    return np.concatenate(found)


def _scored(asked: Asked, suffix: str, write: Callable[[Path], object]) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        rows, out = Path(folder, f"rows{suffix}"), Path(folder, "out.parquet")
        write(rows)
        told = io.StringIO()
        argv = ["score", str(asked.path), str(rows), "-o", str(out), "--method", "transform"]
        with contextlib.redirect_stderr(told), contextlib.redirect_stdout(told):
            code = main([*argv, "--quiet"])
        if code:
            raise InputError(told.getvalue())
        return _matrix(pq.read_table(out))


def _matrix(table: Any) -> Any:
    return np.column_stack([column.to_numpy() for column in table.columns])


def _parquet(asked: Asked) -> Any:
    return _scored(asked, ".parquet", lambda path: pq.write_table(asked.table, path))


def _csv(asked: Asked) -> Any:
    return _scored(
        asked, ".csv", lambda path: pd.DataFrame(asked.columns).to_csv(path, index=False)
    )


def _json_lines(asked: Asked) -> Any:
    lines = [json.dumps(one) for one in json.loads(asked.json)]
    return _scored(asked, ".jsonl", lambda path: path.write_text("\n".join(lines)))


def _duckdb(asked: Asked) -> Any:
    read = [name for name in hbconv.Scorer(asked.model).inputs().names if name in asked.columns]
    names = ", ".join(f'"{name}" := "{name}"' for name in read)
    with duckdb.connect() as link:
        link.register("rows", asked.table)
        create_function(link, "f", asked.model, "transform")
        try:
            found = link.sql(f"SELECT unnest(f({names})) FROM rows").to_arrow_table()
        except duckdb.Error as error:
            raise InputError(str(error)) from error
    return _matrix(found)


def _polars(asked: Asked) -> Any:
    import hbconv.engines.polars  # noqa: F401  (it adds a namespace)

    frame = pl.from_arrow(asked.table)
    try:
        found = frame.select(pl.struct(pl.all()).hbconv.score(asked.model, "transform"))
    except pl.exceptions.PolarsError as error:
        raise InputError(str(error)) from error
    return found.unnest("score").to_numpy()


def _dask(asked: Asked) -> Any:
    frame = asked.table.to_pandas(types_mapper=pd.ArrowDtype)
    with dask.config.set(scheduler="sync"):
        rows = dd.from_pandas(frame, npartitions=1)
        return score_frames(rows, asked.model, "transform").compute().to_numpy()


def _pandas_scorer(asked: Asked) -> Any:
    score = hbconv.Scorer(asked.model, "transform")
    return score_frame(asked.table.to_pandas(types_mapper=pd.ArrowDtype), score).to_numpy()


def _served(asked: Asked, read: Callable[[ModelSignature], Any]) -> Any:
    signature = ModelSignature.of(asked.model)
    return asked.model.transform(form_input(signature, read(signature).rows))


def _v1(asked: Asked) -> Any:
    document = _without_nan(json.loads(asked.json))
    return _served(asked, lambda signature: read_records(document, signature, MOST_ROWS))


def _without_nan(records: list[Record]) -> list[Record]:
    """Write NaN as a text: JSON of HTTP has no word for it."""
    return [{k: "NaN" if v != v else v for k, v in one.items()} for one in records]


def _v2(asked: Asked) -> Any:
    def read(signature: ModelSignature) -> Any:
        inputs = [
            {"name": one.name, "datatype": one.datatype, "shape": [len(data)], "data": data}
            for one in signature.inputs
            if (data := _listed(asked, one.name)) is not None
        ]
        body = json.dumps({"inputs": inputs, "outputs": [{"name": "transform"}]}).encode()
        return read_v2(body, None, signature, MOST_ROWS)

    return _served(asked, read)


def _listed(asked: Asked, name: str) -> list[Any] | None:
    values = asked.columns.get(name)
    if values is None:
        return None
    plain = [float(v) if isinstance(v, bool) else _plain(v) for v in values]
    return ["NaN" if v != v else v for v in plain]


def _grpc(asked: Asked) -> Any:
    def read(signature: ModelSignature) -> Any:
        request = message("ModelInferRequest")(model_name="m")
        for one in signature.inputs:
            data = _listed(asked, one.name)
            if data is None:
                continue
            tensor = request.inputs.add(name=one.name, datatype=one.datatype, shape=[len(data)])
            if one.datatype == "BYTES":
                tensor.contents.bytes_contents.extend(value.encode() for value in data)
            else:
                numbers = [NON_FINITE.get(value, value) for value in data]
                tensor.contents.fp64_contents.extend(numbers)
        request.outputs.add(name="transform")
        return read_message(request, signature, MOST_ROWS)

    return _served(asked, read)


DOORS: dict[str, Callable[[Asked], Any]] = {
    "records": lambda asked: asked.model.transform(asked.given),
    "records, one by one": _row_by_row,
    "JSON": lambda asked: asked.model.transform(asked.json),
    "lists": lambda asked: asked.model.transform(asked.columns),
    "arrays": lambda asked: asked.model.transform(
        {name: np.array([*values, None], object)[:-1] for name, values in asked.columns.items()}
    ),
    "bound": _bound,
    "bound, one by one": _bound_row,
    "polars": lambda asked: asked.model.transform(pl.from_arrow(asked.table)),
    "Arrow": lambda asked: asked.model.transform(asked.table),
    "loaded": lambda asked: hbconv.load(asked.path).transform(asked.given),
    "score of parquet": _parquet,
    "score of CSV": _csv,
    "score of JSON lines": _json_lines,
    "Scorer": lambda asked: _matrix(hbconv.Scorer(asked.path, "transform")(asked.table)),
    "Scorer on DuckDB": _duckdb,
    "Scorer on Polars": _polars,
    "Scorer on Dask": _dask,
    "serve v1": _v1,
    "serve v2": _v2,
    "serve gRPC": _grpc,
}
UNCHECKED = ("bound", "bound, one by one")
"""Doors that look at no values: for a row that the source refuses they give some answer."""
TELLS_NAN = ("records", "records, one by one", "JSON", "lists", "arrays", "loaded", *UNCHECKED)
"""Doors that take NaN beside texts."""
