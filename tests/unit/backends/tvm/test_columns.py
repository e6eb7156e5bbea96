"""Columns that lie apart are read where they lie, and answer as rows of a matrix do, to the bit."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import hbconv
from hbconv.array import ColumnArrays
from hbconv.backends.tvm import BACKEND
from hbconv.backends.tvm.binary import artifact as artifacts
from hbconv.backends.tvm.machine.calling_convention import column_dtypes
from hbconv.lower import FLAGGED
from hbconv.target import Target
from hbconv.tensor import Builder

ODD = (np.nan, np.inf, -np.inf, -0.0, 5e-324, -5e-324, 1.7e308, -1e19)
ROWS = (65, 256, 257, 700)
WIDTH = 19
"""Columns: more than a vector of any size has, and no multiple of one."""


def columns_only(monkeypatch):
    """Read any number of rows by columns, and fail where rows are copied."""

    def refuse(x):
        raise AssertionError(f"{x.shape} was copied")

    monkeypatch.setattr(artifacts, "_row_by_row", refuse)
    monkeypatch.setattr(artifacts, "LEAST_ROWS", 1)


def numbers(rows, width=WIDTH, *, odd=True):
    """Return numbers of many sizes, a few of them odd, by columns."""
    rng = np.random.default_rng(rows)
    x = np.asfortranarray(rng.standard_normal((rows, width)) * 10.0 ** rng.integers(-9, 9, width))
    if odd:
        x[rng.integers(0, rows, len(ODD) * 2), rng.integers(0, width, len(ODD) * 2)] = ODD * 2
    return x


def bits(values):
    """Return bytes by name; every NaN is the same, since its sign is the order of operands."""
    return {
        name: np.where(x != x, np.nan, x).astype(x.dtype).tobytes() for name, x in values.items()
    }


def products():
    """Compile products of several widths, scaled and cast, with flags, and values by column."""
    rng = np.random.default_rng(0)
    b = Builder()
    x = b.input("x", "float64", WIDTH)
    scale, shift = (b.constant(rng.standard_normal(WIDTH), "float64") for _ in range(2))
    scaled = b.op("mul", b.op("sub", x, shift), scale)
    outputs = {
        f"y{n}": b.op("matmul", rows, b.constant(rng.standard_normal((WIDTH, n)), dtype))
        for n, rows, dtype in (
            (1, x, "float64"),
            (2, b.cast(x, "float32"), "float32"),
            (5, scaled, "float64"),
            (13, x, "float64"),
        )
    }
    size = b.op("le", b.op("abs", x), b.constant([1e18], "float64"))
    outputs[FLAGGED] = b.reduce("reduce_any", b.op("not", size))
    return BACKEND.compile(b.program(outputs), Target("tvm"))


def turned(dtype):
    """Compile a program that reads its columns backwards, one of them left out."""
    b = Builder()
    x = b.input("x", dtype, WIDTH)
    return BACKEND.compile(b.program({"y": b.take(x, range(WIDTH - 1, 0, -1))}), Target("tvm"))


@pytest.mark.usefixtures("vector")
@pytest.mark.share("vector")
def test_products_by_columns_have_the_bits_of_those_by_rows(monkeypatch):
    compiled = products()
    columns_only(monkeypatch)
    for rows in ROWS:
        x = numbers(rows)
        expected = compiled.run({"x": np.ascontiguousarray(x)})
        assert expected[FLAGGED].any()
        apart = ColumnArrays(tuple(x.T.copy()), x.dtype)
        for given in (x, apart, x[:, ::-1][:, ::-1]):
            assert bits(compiled.run({"x": given})) == bits(expected)


@pytest.mark.usefixtures("vector")
@pytest.mark.share("vector")
def test_flags_come_from_columns_looked_at_alone(monkeypatch):
    b = Builder()
    x = b.input("x", "float64", WIDTH)
    size = b.op("abs", b.take(x, [2, 7]))
    beyond = b.op("gt", size, b.constant([1e18], "float64"))
    y = b.take(x, [1, 5, 3])
    program = b.program({"y": y, FLAGGED: b.reduce("reduce_any", beyond)})
    compiled = BACKEND.compile(program, Target("tvm"))
    columns_only(monkeypatch)
    for row, column, flagged in ((699, 7, True), (0, 2, True), (350, 3, False), (350, 8, False)):
        x = numbers(700, odd=False)
        x[row, column] = np.inf
        values = compiled.run({"x": x})
        assert values[FLAGGED].any() == flagged
        assert np.array_equal(values["y"], x[:, [1, 5, 3]])


@pytest.mark.usefixtures("vector")
@pytest.mark.share("vector")
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int32"])
def test_columns_are_converted_as_numpy_does(monkeypatch, dtype):
    compiled = turned(dtype)
    columns_only(monkeypatch)
    sources = column_dtypes(dtype)
    for rows in ROWS:
        words = np.random.default_rng(rows).integers(0, 2**64, (WIDTH, rows), dtype="uint64")
        columns = []
        for i in range(WIDTH):
            source = np.dtype(sources[i % len(sources)])
            raw = words[i].view(np.uint8)[: rows * source.itemsize].copy()
            # Any byte of a bool but 0 is true.
            columns.append(raw.view(source))
        x = ColumnArrays(tuple(columns), np.dtype(dtype))
        with np.errstate(all="ignore"):
            expected = np.asarray(x)[:, :0:-1]
        given = compiled.run({"x": x})["y"]
        assert bits({"y": given}) == bits({"y": expected})


def test_columns_with_gaps_are_copied_one_by_one():
    compiled = turned("float64")
    x = numbers(600, 2 * WIDTH)
    rows = np.ascontiguousarray(x)
    expected = x[:, WIDTH - 1 : 0 : -1]
    gaps = ColumnArrays(tuple(rows.T[:WIDTH]), x.dtype)
    swapped = ColumnArrays(tuple(c.astype(">f8") for c in gaps.columns), x.dtype)
    for given in (gaps, swapped, rows[:, :WIDTH], x[::2][:, :WIDTH]):
        wanted = expected[::2] if len(given) == 300 else expected
        assert bits({"y": compiled.run({"x": given})["y"]}) == bits({"y": wanted})


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(pd.DataFrame, id="one block"),
        pytest.param(
            lambda data: pd.concat([pd.Series(v, name=k) for k, v in data.items()], axis=1),
            id="pandas",
        ),
        pytest.param(pa.table, id="arrow"),
        pytest.param(lambda data: pytest.importorskip("polars").DataFrame(data), id="polars"),
        pytest.param(dict, id="dict"),
    ],
)
@pytest.mark.parametrize("estimator", [LogisticRegression(), DecisionTreeClassifier(max_depth=4)])
def test_tables_are_read_where_they_lie(monkeypatch, made, estimator):
    x = numbers(300, 20, odd=False)
    names = [f"c{i}" for i in range(20)]
    table = dict(zip(names, np.tanh(x).T, strict=True))
    frame = pd.DataFrame(table)
    source = estimator.fit(frame, frame["c3"] > 0)
    model = hbconv.convert(source, backend="tvm")
    expected = model.predict_proba(pd.DataFrame(np.ascontiguousarray(frame), columns=names))
    columns_only(monkeypatch)
    assert model.predict_proba(made(table)).tobytes() == expected.tobytes()


def test_dtypes_beside_each_other_are_read_where_they_lie(monkeypatch):
    x = np.random.default_rng(0).standard_normal((300, 8)) * 5
    dtypes = ("float64", "float32", "int64", "int32", "int8", "bool", "uint8", "float64")
    frame = pd.DataFrame({f"c{i}": np.abs(x[:, i]).astype(t) for i, t in enumerate(dtypes)})
    source = LogisticRegression(max_iter=2000).fit(frame, frame["c0"] > 1)
    model = hbconv.convert(source, backend="tvm")
    expected = source.predict_proba(frame)
    few = np.concatenate([model.predict_proba(frame[i : i + 60]) for i in range(0, 300, 60)])
    columns_only(monkeypatch)
    many = model.predict_proba(frame)
    assert many.tobytes() == few.tobytes()
    np.testing.assert_allclose(many, expected, rtol=1e-12)
