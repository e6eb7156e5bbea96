"""SQLite, PostgreSQL and Spark give every primitive its meaning, as DuckDB does beside the backends."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from primitive_cases import CASES, Case, equal, same_bits
from sql_engines import ask

from hbconv.backends import find_backend
from hbconv.backends.reference import evaluate
from hbconv.backends.sql.artifact import write_program
from hbconv.backends.sql.dialects import find_dialect
from hbconv.backends.sql.elementwise import convert
from hbconv.backends.sql.writer import FINITE, Cell, SelectWriter, fill
from hbconv.errors import BackendError
from hbconv.target import Target
from hbconv.tensor import TensorProgram, verify_program
from hbconv.tensor.types import FLOATS

N_ROWS = 64
RUNS = [pytest.param(case, dtype, id=f"{case}-{dtype}") for case in CASES for dtype in case.dtypes]
REFUSED = "cannot run|columns at most|longer than|has no remainder"


@pytest.mark.parametrize("engine", ["sqlite", "postgres", "spark"])
@pytest.mark.parametrize(("case", "dtype"), RUNS)
@pytest.mark.share("case")
def test_primitive(case: Case, dtype: str, engine: str) -> None:
    backend, program = find_backend("sql"), verify_program(case.program(dtype))
    try:
        query = write(backend.prepare(program, Target("sql")), engine)
    except BackendError as error:
        if re.search(REFUSED, str(error)):
            return
        raise
    inputs = case.rows(N_ROWS, dtype)
    if engine == "sqlite":  # It stores -0.0 as 0.
        inputs = {name: x + x.dtype.type(0) if is_float(x) else x for name, x in inputs.items()}
    wanted = evaluate(program, inputs)
    if engine == "postgres" and str(case) == "add-an input given back":
        with pytest.raises(AssertionError, match="out of range: overflow"):
            ask(engine, query, table(inputs))
        return
    answer = ask(engine, query, table(inputs))
    for name, want in wanted.items():
        entries = [f"{name}_{i}" for i in range(int(np.prod(want.shape[1:])))]
        got = answer[entries].to_numpy().reshape(want.shape)
        assert is_float(want) or not pd.isna(got).any()
        # A sum of SQLite has no sign of zero either.
        agrees = equal if engine == "sqlite" and case.agrees is same_bits else case.agrees
        agrees(
            got.astype(float).astype(want.dtype) if is_float(want) else got.astype(want.dtype), want
        )


def is_float(x: np.ndarray[Any, Any]) -> bool:
    return x.dtype.kind == "f"


def table(inputs: dict[str, np.ndarray[Any, Any]]) -> pd.DataFrame:
    """Return a column for each entry of a row, of floats in float64."""
    columns = {"id": np.arange(N_ROWS)}
    for name, x in inputs.items():
        wide = x.astype(float) if is_float(x) else x
        columns |= {f"{name}_{i}": column for i, column in enumerate(wide.reshape(N_ROWS, -1).T)}
    return pd.DataFrame(columns)


def write(program: TensorProgram, engine: str) -> str:
    """Write a program over such a table."""
    dialect = find_dialect(engine)
    w = SelectWriter(dialect, "rows", ["id"], ["id", "rows"])

    def read(name: str, dtype: str) -> Cell:
        if dtype in FLOATS:
            wide = w.store(Cell(dialect.apply("numbers", name), depth=1))
            return convert(w, wide, "float64", dtype)
        cell = Cell(name if dtype == "bool" else dialect.cast(name, dtype), depth=1, known=FINITE)
        return w.store(cell)

    inputs = {}
    for given in program.inputs:
        names = [f"{given.name}_{i}" for i in range(int(np.prod(given.type.shape)))]
        cells = [w.store(read(dialect.quote(name), given.type.dtype)) for name in names]
        inputs[given.name] = fill(cells, given.type.shape)
    values = write_program(w, program, inputs)
    return w.select(
        {f"{n}_{i}": cell for n, cells in values.items() for i, cell in enumerate(cells.flat)}
    )
