"""Arithmetic of each database on floats of every size, against numpy's."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sql_engines import ENGINES, ask

from hbconv.backends.sql.dialects import find_dialect
from hbconv.errors import BackendError

SIZES = [0.0, 1.0, 0.5, 3.0, np.inf, 5e-324, 1e-323, 2.2e-308, 1e-200, 1e-154, 1.5e-162, 1e154, 1.4e154,
         1e200, 9e307, 1.7e308]  # fmt: skip
WEIGHTS = (0.5, -0.5, 0.501, 2.0, -1e-3, 7e5, 1e-310, -1e300, 5e-324, 1.7e308)

DIVIDENDS = (1.0, -1.0, 3.0, -(2.0**-50), 1.7e308)


def pairs(engine: str) -> pd.DataFrame:
    """Pairs of hostile floats, and of any bits."""
    hostile = np.array([*SIZES, *(-size for size in SIZES), np.nan])
    if engine == "sqlite":  # It stores -0.0 as 0.
        hostile = hostile[(hostile != 0) | ~np.signbit(hostile)]
    x, y = (side.ravel() for side in np.meshgrid(hostile, hostile))
    bits = np.random.default_rng(0).integers(0, 2**64, (2, 400), dtype=np.uint64).view(np.float64)
    columns = {"x": np.concatenate([x, bits[0]]), "y": np.concatenate([y, bits[1]])}
    return pd.DataFrame(columns).assign(id=range(len(x) + 400))


@pytest.mark.parametrize("engine", ENGINES)
def test_products_and_quotients_follow_ieee_754(engine: str) -> None:
    rows, dialect = pairs(engine), find_dialect(engine)
    x, y = rows["x"].to_numpy(), rows["y"].to_numpy()
    with np.errstate(all="ignore"):
        wanted = [
            x * y,
            x * x,
            x / y,
            *(x * w for w in WEIGHTS),
            *(x / w for w in WEIGHTS),
            *(c / y for c in DIVIDENDS),
        ]
    texts = [
        dialect.apply("multiply", "x", "y"),
        dialect.apply("multiply", "x", "x"),
        dialect.apply("divide", "x", "y"),
        *(dialect.scale("x", "*", w, "float64") for w in WEIGHTS),
        *(dialect.scale("x", "/", w, "float64") for w in WEIGHTS),
        *(dialect.apply("divide", dialect.float64(c), "y") for c in DIVIDENDS),
    ]
    listed = ", ".join(f"{text} AS v{i}" for i, text in enumerate(texts))
    answer = ask(engine, f"SELECT id, {listed} FROM rows", rows)
    got = answer.drop(columns="id").to_numpy().astype(float)
    want = np.stack(wanted, axis=1)
    np.testing.assert_array_equal(got, want)
    is_number = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got)[is_number], np.signbit(want)[is_number])


@pytest.mark.parametrize("engine", ENGINES)
def test_powers_leave_the_range_as_those_of_ieee_754(engine: str) -> None:
    rows, dialect = pairs(engine), find_dialect(engine)
    x, y = rows["x"].to_numpy(), rows["y"].to_numpy()
    with np.errstate(all="ignore"):
        want = np.power(x, y)
    answer = ask(engine, f"SELECT id, {dialect.apply('pow', 'x', 'y')} AS v FROM rows", rows)
    np.testing.assert_allclose(answer["v"].to_numpy().astype(float), want, rtol=1e-15)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("exponent", [-745.1332191019412, 709.782712893384])
def test_powers_next_to_the_ends_of_the_range_are_no_errors(exponent: float, engine: str) -> None:
    """Rounding decides whether these are finite, or zero, and PostgreSQL raises where they are not."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(0.001, 0.999, 100), rng.uniform(1.001, 1000, 100)] * 3)
    y = exponent / np.log(x) * np.repeat([1, 1 + 1e-13, 1 - 1e-13], 200)
    rows = pd.DataFrame({"x": x, "y": y, "id": range(600)})
    answer = ask(
        engine, f"SELECT id, {find_dialect(engine).apply('pow', 'x', 'y')} v FROM rows", rows
    )
    got = answer["v"].to_numpy().astype(float)
    if exponent < 0:
        assert set(got) <= {0.0, 5e-324}
    else:
        assert (got >= np.exp(exponent) * (1 - 1e-9)).all()
        assert np.isfinite(got).any()


@pytest.mark.parametrize("dialect", ENGINES)
def test_half_a_character_is_refused(dialect):
    made = find_dialect(dialect)
    for write in (made.text, made.quote):
        with pytest.raises(BackendError, match=r"cannot (hold|name)"):
            write("a\ud800")


def test_spark_names_no_column_by_a_setting():
    with pytest.raises(BackendError, match="cannot name"):
        find_dialect("spark").quote("a${b}")


def test_databases_fold_letters_of_ascii_alone():
    assert find_dialect("duckdb").fold("Aé") == find_dialect("sqlite").fold("aé") == "aé"
    assert find_dialect("duckdb").fold("É") != find_dialect("duckdb").fold("é")
