"""Databases that answer queries about a table: DuckDB and SQLite; PostgreSQL and Spark where they
are installed.
"""

from __future__ import annotations

import atexit
import contextlib
import csv
import io
import os
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

__all__ = ["ENGINES", "ask"]

Rows = list[tuple[Any, ...]]
Answer = tuple[list[str], Rows]


def ask(engine: str, query: str, rows: pd.DataFrame) -> pd.DataFrame:
    """Answer a query about a table ``rows``, which has a key ``id``, in the order of the keys.

    NaN is a value where the database has one, and None is NULL.
    """
    names, values = ENGINES[engine](query, rows)
    place = names.index("id")
    return pd.DataFrame(
        sorted(values, key=lambda row: int(row[place])), columns=names, dtype=object
    )


def _duckdb(query: str, rows: pd.DataFrame) -> Answer:
    columns = {
        name: pa.array(rows[name].to_numpy(), from_pandas=rows[name].dtype.kind == "O")
        for name in rows
    }
    with duckdb.connect(config={"threads": 1}) as database:
        database.register("given", pa.table(columns))
        database.execute("CREATE TABLE rows AS SELECT * FROM given")
        answer = database.execute(query)
        return [column[0] for column in answer.description], answer.fetchall()


def _table(rows: pd.DataFrame, types: dict[str, str]) -> str:
    quoted = {name: '"' + name.replace('"', '""') + '"' for name in rows}
    columns = ", ".join(f"{quoted[name]} {types[rows[name].dtype.kind]}" for name in rows)
    return f"TABLE rows ({columns})"


def _plain(rows: pd.DataFrame) -> Rows:
    """Return the rows as objects of Python."""
    return [
        tuple(value.item() if isinstance(value, np.generic) else value for value in row)
        for row in rows.itertuples(index=False)
    ]


def _sqlite(query: str, rows: pd.DataFrame) -> Answer:
    types = {"f": "REAL", "i": "INTEGER", "b": "INTEGER", "O": "TEXT"}
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        database.execute(f"CREATE {_table(rows, types)}")
        marks = ",".join("?" * rows.shape[1])
        database.executemany(f"INSERT INTO rows VALUES ({marks})", _plain(rows))
        answer = database.execute(query)
        return [column[0] for column in answer.description], answer.fetchall()


def _postgres(query: str, rows: pd.DataFrame) -> Answer:
    types = {"f": "float8", "i": "bigint", "b": "boolean", "O": "text"}
    script = [
        "SET client_min_messages=error; SET jit=off;",
        f"CREATE TEMP {_table(rows, types)};",
        "COPY rows FROM STDIN;",
        *(
            "\t".join("\\N" if value is None else _escape(str(value)) for value in row)
            for row in _plain(rows)
        ),
        "\\.",
        f"COPY ({query}) TO STDOUT (FORMAT csv, HEADER, NULL '<null>');",
    ]
    done = subprocess.run(
        ["psql", "-h", _server(), "-U", "postgres", "-q", "-X", "-v", "ON_ERROR_STOP=1"],
        input="\n".join(script),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[:2000]
    names, *found = csv.reader(io.StringIO(done.stdout))
    return names, [tuple(_parse(text) for text in row) for row in found]


def _escape(text: str) -> str:
    """Return a text as ``COPY`` reads it."""
    for given, read in {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}.items():
        text = text.replace(given, read)
    return text


def _parse(text: str) -> Any:
    if text in ("<null>", "t", "f"):
        return {"<null>": None, "t": True, "f": False}[text]
    # -0 is a float, which int would read as 0.
    for kind in (float,) if text == "-0" else (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text


@cache
def _server() -> str:
    """Start a server for this process, and return the folder of its socket."""
    if not all(map(shutil.which, ("initdb", "pg_ctl", "psql"))):
        pytest.skip("PostgreSQL is not installed")
    is_root = os.geteuid() == 0
    # The server refuses to run as root.
    as_user = ["runuser", "-u", "postgres", "--"] if is_root else []
    folder = tempfile.mkdtemp(prefix="hbconv-postgres-")
    if is_root:
        shutil.chown(folder, "postgres")
    run = partial(subprocess.run, check=True, stdout=subprocess.DEVNULL, cwd=folder)
    data = str(Path(folder) / "data")
    run(
        [*as_user, "initdb", "-D", data, "-A", "trust", "-U", "postgres", "--no-sync", "-E", "UTF8"]
    )
    options = f"-k {folder} -c listen_addresses='' -c fsync=off -c max_connections=8"
    log = str(Path(folder) / "log")
    run([*as_user, "pg_ctl", "-D", data, "-w", "-l", log, "-o", options, "start"])
    atexit.register(_stop, run, [*as_user, "pg_ctl", "-D", data, "-m", "immediate", "stop"], folder)
    return folder


def _stop(run: Callable[..., Any], command: Sequence[str], folder: str) -> None:
    run(command)
    shutil.rmtree(folder, ignore_errors=True)


def _spark(query: str, rows: pd.DataFrame) -> Answer:
    session = _session()
    types = {"f": "double", "i": "bigint", "b": "boolean", "O": "string"}
    columns = [f"`{name.replace('`', '``')}` {types[rows[name].dtype.kind]}" for name in rows]
    session.createDataFrame(_plain(rows), ", ".join(columns)).createOrReplaceTempView("rows")
    answer = session.sql(query)
    return answer.columns, [tuple(row) for row in answer.collect()]


@cache
def _session() -> Any:
    """Start Spark in this process, with a thread of its own."""
    spark = pytest.importorskip("pyspark.sql", reason="Spark is not installed")
    if not shutil.which("java"):
        pytest.skip("Spark needs Java, which is not installed")
    # Compiling a query costs Java seconds, and the tables have few rows.
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.driver.host": "localhost",
    }
    session = spark.SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


ENGINES: dict[str, Callable[[str, pd.DataFrame], Answer]] = {
    "duckdb": _duckdb,
    "sqlite": _sqlite,
    "postgres": _postgres,
    "spark": _spark,
}
"""What answers a query about a table ``rows``."""
