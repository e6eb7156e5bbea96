"""Arrays that are others in another layout are recipes, which give the very bytes."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC

import hbconv
from hbconv.errors import StoreError
from hbconv.runtime.storage import array_layouts
from hbconv.runtime.storage.array_layouts import (
    drop_layouts,
    find_layout,
    find_order,
    lay_out,
    read_layouts,
    restore_layouts,
)

safetensors = pytest.importorskip("safetensors.numpy")

RNG = np.random.default_rng(0)
POINTS = RNG.standard_normal((1003, 12))
WHOLE = RNG.integers(0, 3, (1003, 12)).astype(np.float64)
"""Rows and columns of which many are alike."""
SIZE = 1 << 20
"""Bytes of a file whose recipes have room."""


def panels(matrix, rows, fill=0.0, again=False):
    """Lay a matrix out in panels; the last is filled, or ends in rows that stood before."""
    lacking = -len(matrix) % rows
    more = matrix[-rows:][:lacking] if again else np.full((lacking, matrix.shape[1]), fill)
    whole = np.concatenate([matrix, more.astype(matrix.dtype)])
    return np.ascontiguousarray(whole.reshape(-1, rows, matrix.shape[1]).transpose(0, 2, 1))


FORMS = {
    "flat": lambda x: x.ravel(),
    "transposed": lambda x: np.ascontiguousarray(x.T),
    "in panels": lambda x: panels(x, 17),
    "filled with NaN": lambda x: panels(x, 4, np.nan).ravel(),
    "filled with infinity": lambda x: panels(x, 64, np.inf).ravel(),
    "filled with rows again": lambda x: panels(x, 64, again=True),
    "panels of columns": lambda x: panels(np.ascontiguousarray(x.T), 6).ravel(),
    "without the last rows": lambda x: panels(x[:1002], 6).ravel(),
    "in float32": lambda x: panels(x.astype(np.float32), 8),
    "times -2": lambda x: -2.0 * x,
    "halved, in panels of float32": lambda x: panels((0.5 * x).astype(np.float32), 6, -0.0),
}


@pytest.mark.parametrize("points", [POINTS, WHOLE], ids=["distinct", "alike"])
@pytest.mark.parametrize("form", FORMS)
def test_a_layout_gives_the_very_bytes(form, points):
    array = FORMS[form](points)
    layout = find_layout(array, {"other": POINTS[::2], "points": points})
    assert layout is not None
    assert layout.source == "points"
    found = lay_out(read_layouts({"a": asdict(layout)})["a"], points)
    assert found.dtype == array.dtype
    assert found.shape == array.shape
    assert found.tobytes() == array.tobytes()


@pytest.mark.parametrize(("low", "high"), [(6, 128), (128, 6), (1, 64), (17, 4)])
def test_constants_are_laid_out_of_constants(low, high):
    source, array = (panels(POINTS, rows, np.inf).ravel() for rows in (low, high))
    large, small = sorted([source, array], key=lambda x: -x.size)
    layout = find_layout(small, {"constant": large})
    assert layout is not None
    assert lay_out(layout, large).tobytes() == small.tobytes()


MANY = RNG.standard_normal((4001, 5))
ORDER = np.append(RNG.permutation(4001), np.zeros(31, np.int64)).astype(np.int32)
"""What fills the last panel names the first row."""


def ordered(rows=64, fill=np.inf):
    """Lay points out in an order, in panels."""
    return panels(MANY[ORDER[:4001]].astype(np.float32), rows, fill).ravel()


def lined(array):
    """Fill the last cache line of an array, as constants do."""
    return np.append(array.ravel(), np.zeros(-array.nbytes % 64 // array.itemsize, array.dtype))


SOURCES = {
    "points": (MANY, 1.0),
    "constant": (lined(panels(-2.0 * MANY, 6)), -0.5),
    "constant of float32": (lined(panels(MANY.astype(np.float32), 6)), 1.0),
}


@pytest.mark.parametrize("order", [np.int32, np.int64])
@pytest.mark.parametrize("source", SOURCES)
def test_rows_in_an_order_that_is_stored_are_a_recipe(source, order):
    points, times = SOURCES[source]
    array, numbers = ordered(), ORDER.astype(order)
    orders = {"other": numbers[::-1], "order": numbers}
    layout = find_order(array, {"few": POINTS, "points": points}, orders)
    assert (layout.source, layout.order, layout.times) == ("points", "order", times)
    read = read_layouts({"a": asdict(layout)})["a"]
    assert lay_out(read, points, numbers).tobytes() == array.tobytes()
    array[7] = np.nextafter(array[7], np.float32(np.inf))
    assert find_order(array, {"points": points}, orders) is None


def test_members_in_an_order_come_back():
    members = {
        name: safetensors.save({"constant": array})
        for name, array in {"order": ORDER, "blocks": ordered(), "points": MANY.ravel()}.items()
    }
    members["norms"] = safetensors.save({"constant": (MANY**2).sum(axis=1)[ORDER]})
    kept_arrays, kept, layouts = drop_layouts({}, members)
    assert kept.keys() == {"order", "points", "norms"}
    assert restore_layouts(layouts, kept_arrays, kept, SIZE)[1] == members
    for lost in ("order", "points"):
        with pytest.raises(StoreError, match=lost):
            restore_layouts(layouts, {}, {k: v for k, v in kept.items() if k != lost}, SIZE)


@pytest.mark.parametrize(
    "numbers", [ORDER + 4001, ORDER[:100], ORDER.astype(np.float64), ORDER[:, None]]
)
def test_orders_of_strangers_are_refused(numbers):
    layout = find_order(ordered(), {"points": MANY}, {"order": ORDER})
    with pytest.raises((StoreError, ValueError, IndexError)):
        restore_layouts({"a": layout}, {"points": MANY, "order": numbers}, {}, SIZE)


def changed(array, place):
    other = array.copy()
    other.ravel()[place] = np.nextafter(other.ravel()[place], np.inf)
    return other


@pytest.mark.parametrize(
    "array",
    [
        changed(POINTS, 5),
        changed(panels(POINTS, 17), 9000),
        POINTS * 0.3,
        np.where(POINTS > 1, -0.0, 0.0),
        POINTS.astype(np.float16),
    ],
)
def test_what_is_no_layout_is_stored(array):
    layout = find_layout(array, {"points": POINTS, "zeros": np.zeros_like(POINTS)})
    assert layout is None


def test_members_and_arrays_come_back():
    tensor = {"constant": panels(POINTS, 6)}
    members = {"one": safetensors.save(tensor), "text": b"{" * 10_000}
    members["two"] = safetensors.save({"x": POINTS, "y": POINTS})
    arrays = {"a0": POINTS, "a1": POINTS.astype(np.float32), "a2": np.arange(5000)}
    kept_arrays, kept, layouts = drop_layouts(arrays, members)
    assert kept_arrays.keys() == {"a0", "a2"}
    assert kept.keys() == {"text", "two"}
    whole, written = restore_layouts(layouts, kept_arrays, kept, SIZE)
    assert written == members
    assert {name: array.tobytes() for name, array in whole.items()} == {
        name: array.tobytes() for name, array in arrays.items()
    }


def test_arrays_that_begin_otherwise_are_not_compared(monkeypatch):
    """A file of hundreds of matrices takes no time for each pair: 200 took 54 s."""
    compared = []
    monkeypatch.setattr(array_layouts, "_candidates", lambda *pair: compared.append(pair) or [])
    arrays = {f"a{i}": RNG.standard_normal((60, 20)) for i in range(200)}
    drop_layouts(arrays, {})
    assert not compared
    drop_layouts({name: np.where(x > 2, x, 0.0) for name, x in arrays.items()}, {})
    assert len(compared) <= 200 * array_layouts.MOST_SOURCES


def test_arrays_that_begin_with_nan_are_found():
    first = np.where(np.arange(POINTS.size).reshape(POINTS.shape) % 5, POINTS, np.nan)
    _, _, layouts = drop_layouts({"a0": first, "a1": panels(first, 17)}, {})
    assert layouts.keys() == {"a1"}


HOSTILE = [
    {"source": "a9"},
    {"source": 1},
    {"dtype": "O"},
    {"shape": [-1, 12]},
    {"shape": [10**12, 12], "first": 10**12},
    {"width": 0},
    {"panels": [0, 1]},
    {"panels": [1]},
    {"first": 10**9},
    {"tail": [10**9], "first": 1002},
    {"tail": [-2], "first": 1002},
    {"tail": 3},
    {"times": True},
    {"fill": "x", "tail": [-1], "first": 1002},
    {"order": "a9"},
    {"order": None},
    {"more": 1},
]


@pytest.mark.parametrize("field", HOSTILE, ids=str)
def test_recipes_of_strangers_are_refused(field):
    layout = find_layout(POINTS.ravel(), {"a0": POINTS})
    document = {**asdict(layout), **field}
    with pytest.raises((StoreError, ValueError, IndexError)):
        restore_layouts(read_layouts({"a1": document}), {"a0": POINTS}, {}, SIZE)


def test_recipes_that_take_far_more_than_the_file_are_refused():
    layout = find_layout(POINTS.ravel(), {"a0": POINTS})
    many = {f"a{i}": layout for i in range(1, 1000)}
    with pytest.raises(StoreError, match="far more memory"):
        restore_layouts(many, {"a0": POINTS}, {}, 1000)


CODES = 1 / 2
"""Float32 for each float64 of the points of neighbours: what scores them first.

Single rows score points in blocks of neighbours, whose order is stored.
"""
MODELS = {
    "neighbours": (KNeighborsClassifier(5), 1 + CODES),
    "network": (MLPClassifier((200, 150), tol=1.0, random_state=0), 1.0),
    "machine": (SVC(), 2.0),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_file_holds_tables_once(name, tmp_path):
    """Vectors of machines are stored twice, since kernels read them times gamma."""
    pytest.importorskip("tvm")
    estimator, times = MODELS[name]
    x = RNG.standard_normal((6000, 20))
    estimator.fit(x, x[:, 0] * x[:, 1] > 0)
    model = hbconv.convert(estimator, backend="tvm", sample=x[:1])
    want = model.predict(x[:300]), model.predict(x[:1])
    model.save(tmp_path / "model.hbc")
    held = {
        "neighbours": lambda: x.nbytes,
        "network": lambda: sum(w.nbytes for w in estimator.coefs_),
        "machine": lambda: estimator.support_vectors_.nbytes,
    }[name]()
    # Kernels of the methods, the manifest, and tables of a number a point.
    assert (tmp_path / "model.hbc").stat().st_size < times * held + 350_000
    loaded = hbconv.load(tmp_path / "model.hbc", trusted=True)
    for got, answer in zip((loaded.predict(x[:300]), loaded.predict(x[:1])), want, strict=True):
        np.testing.assert_array_equal(got, answer)
    assert loaded.to_bytes() == (tmp_path / "model.hbc").read_bytes()
