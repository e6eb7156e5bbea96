"""Judge a trace: what it recorded is computed, and compared with the function itself.

The rows hold numbers of many sizes, and what functions forget: signed zeros, infinities, NaN,
denormals, and every constant of the trace with the floats beside it. They are asked all at once,
one by one, in another order, and twice. Columns of texts and dates are drawn here too.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import (
    Affine,
    Bins,
    Codes,
    Columns,
    Compare,
    ConstantRows,
    EditedVocabulary,
    GroupSums,
    Linear,
    Node,
    Output,
    TextEdit,
    rewrite,
    topological,
)
from hbconv.containers.schema import WEAK_INT
from hbconv.containers.vocabulary import ISO, NO_DATE, DateCodes, DateReading
from hbconv.errors import HbconvError, InputError
from hbconv.parse.tracing.patterns import draw_matches
from hbconv.tensor import Builder
from hbconv.tensor.builder import Value
from hbconv.tensor.program import evaluate

__all__ = [
    "Function",
    "Rows",
    "arguments_of",
    "compute",
    "draw_dates",
    "draw_rows",
    "draw_texts",
    "find_difference",
    "find_slack",
    "find_special",
    "retyped",
]

_ODD_TEXTS = (
    *("", " ", "unknown to all", "1", "nan", "None", "-1.5e3", " 7", "a-b-c", "-", "Xx yY", "x\ty"),
    *("\u00e9\u00c9", "e\u0301", "\u65e5\u672c", "0012", "A", "a", "z.", "\x1cb", "a\n"),
)
_NUMBERS = (
    "0",
    "12",
    "-2.5",
    "x12",
    "12x",
    "007",
    " 4 ",
    "1_0",
    "1e400",
    "-0.0",
    "99999999999999999999",
)
_DATES = (
    *("1970-01-01", "1969-12-31T23:59:59.999999", "2000-02-29", "1900-03-01", "2024-12-31T12:30"),
    *("2023-01-01", "2024-02-29T23:59:59", "2100-02-28", "1999-12-31T00:00:01", "2021-01-03"),
    *("2016-01-01", "2020-06-30", "2021-03-31T06:00", "1815-07-04", "2262-01-02", "2015-12-28"),
)
_LATE = ("9999-12-31T23:59:59", "0001-01-01", "3000-06-15T01:02:03")
"""Dates beyond those that a count of nanoseconds since 1970 holds."""


def arguments_of(vocabulary: object) -> tuple[str, ...]:
    """Return the texts that edits look for, alone and among others."""
    if not isinstance(vocabulary, EditedVocabulary):
        return ()
    found = {a for edit in vocabulary.edits for a in edit.arguments if isinstance(a, str)}
    patterns = [edit.arguments[0] for edit in vocabulary.edits if edit.has_pattern]
    matching = [text for p in patterns for text in draw_matches(str(p))]
    found |= {*matching, *(f"Xy, {text} 7" for text in matching)} - set(patterns)
    texts = [text for a in sorted(found) for text in (a, f"x{a}y{a}z", f"{a}q", f"q{a}")]
    if any(edit.name.startswith(("is_", "float_")) for edit in vocabulary.edits):
        texts += _NUMBERS
        texts += [text for a in sorted(found) for text in (f"{a}12", f"3.5{a}", f"{a}7{a}")]
    return tuple(texts)


def draw_texts(
    known: tuple[Any, ...], edits: Iterable[tuple[TextEdit, ...]], n_rows: int, *, as_objects: bool
) -> Any:
    """Draw known texts, others beside them, and missing ones: all that no edit refuses."""
    beside = [form for text in known for form in (f"{text} ", text.upper(), f" {text.lower()}")]
    texts: list[Any] = [t for t in (*known, *_ODD_TEXTS, *beside) if _is_taken(t, edits)]
    texts += [None, float("nan")]
    drawn = np.empty(n_rows, object)
    drawn[:] = [texts[i % len(texts)] for i in range(n_rows)]
    pandas = sys.modules["pandas"]
    return pandas.Series(drawn, dtype=object) if as_objects else pandas.Series(list(drawn))


def _is_taken(text: Any, edits: Iterable[tuple[TextEdit, ...]]) -> bool:
    """Tell whether edits, one after another, refuse a text for no letter in it."""
    try:
        for chain in edits:
            value = text
            for edit in chain:
                value = edit.apply(value) if isinstance(value, str) else value
    except InputError:
        return False
    return True


def draw_dates(reading: DateReading, n_rows: int, seed: int, *, as_objects: bool) -> Any:
    """Draw dates, in seconds that reach far, or in nanoseconds; as texts where these are parsed."""
    pandas = sys.modules["pandas"]
    rng = np.random.default_rng(seed)
    unit = "us" if as_objects else "ns"
    special = np.array(
        [*_DATES, *(_LATE if as_objects and not reading.parses else ()), "NaT"],
        f"datetime64[{unit}]",
    )
    # Half of them lie at the whole seconds, and one in four at midnight.
    seconds = rng.integers(-(2**31), 2**32, n_rows)
    seconds[::4] = seconds[::4] // 86_400 * 86_400
    drawn = seconds.astype("datetime64[s]").astype(f"datetime64[{unit}]")
    drawn[1::2] += rng.integers(0, 10**6, len(drawn[1::2])).astype(f"timedelta64[{unit}]")
    places = rng.permutation(n_rows)[: n_rows // 2]
    drawn[places] = np.resize(special, len(places))
    dates = pandas.Series(drawn)
    if not reading.parses or not as_objects:
        return dates
    is_iso = reading.format == ISO
    forms = ("%Y-%m-%d", "%Y-%m-%d %H:%M:%S")
    texts = dates.dt.strftime(forms[seed % 2] if is_iso else reading.format).astype(object)
    if not reading.raises and not is_iso:
        texts[::5] = "no date"
    return texts


def date_codes(vocabulary: DateCodes, values: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
    """Return a part of dates as programs are given it."""
    if values.dtype.kind != "M":
        pandas = sys.modules["pandas"]
        written = vocabulary.reading.format
        errors = "raise" if vocabulary.reading.raises else "coerce"
        made = pandas.to_datetime(
            pandas.Series(values), format=None if written == ISO else written, errors=errors
        )
        values = made.to_numpy()
    missing = np.isnat(values)
    days = values.astype("datetime64[D]")
    seconds = values.astype("datetime64[s]")
    parts = {
        "day": days.astype(np.int64),
        "second": (seconds - days).astype("timedelta64[s]").astype(np.int64),
        "nanosecond": (values - seconds).astype("timedelta64[ns]").astype(np.int64),
    }
    nothing = NO_DATE if vocabulary.part == "day" else 0
    return np.where(missing, nothing, parts[vocabulary.part]).astype(np.int32)


Rows = npt.NDArray[Any]
Function = Callable[[Rows], Any]

_HOSTILE = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    2.0,
    np.nan,
    np.inf,
    -np.inf,
    5e-324,
    -1e-310,
    1e-30,
    1e30,
    -1e30,
    1e300,
    -1e300,
    2.0**31,
    2.0**53 + 2,
    -(2.0**63),
    2.0**63,
    1e5,
)
_HOSTILE_INTS = (0, 1, -1, 2, 7, 100, -100, 2**31, -(2**31), 2**53 + 1, 2**62, -(2**63), 2**63 - 1)
N_ROWS = 96
"""Rows of ordinary numbers."""
N_ALONE = 6
"""Rows that are asked one by one."""


def draw_rows(width: int, dtype: str, special: Sequence[float] = ()) -> Rows:
    """Draw rows of a dtype: ordinary ones first, then hostile ones, which hold special values too.

    Each special value is once in each column among ordinary numbers, and once in a whole row.
    """
    rng = np.random.default_rng(0)
    if np.dtype(dtype).kind in "biu":
        return _draw_ints(rng, width, dtype, special)
    ordinary = rng.normal(size=(N_ROWS, width)) * 10.0 ** rng.integers(-2, 3, (N_ROWS, width))
    # Shares and counts are what many functions are written for.
    ordinary[: N_ROWS // 3] = rng.random((N_ROWS // 3, width))
    ordinary[N_ROWS // 3 : N_ROWS // 2] = rng.integers(0, 20, (N_ROWS // 2 - N_ROWS // 3, width))
    with np.errstate(all="ignore"):
        beside = [np.nextafter(value, end) for value in special for end in (-np.inf, np.inf)]
        hostile = np.array([*_HOSTILE, *special, *beside])
        return np.concatenate([ordinary, _placed(rng, hostile, ordinary)]).astype(dtype)


def _placed(rng: np.random.Generator, values: Rows, ordinary: Rows) -> Rows:
    """Put values into single columns of ordinary rows, into whole rows, and mix them."""
    width = ordinary.shape[1]
    single = ordinary[rng.integers(0, len(ordinary), len(values))]
    single[np.arange(len(values)), rng.integers(0, max(width, 1), len(values))] = values
    whole = np.repeat(values[:, None], width, axis=1)
    mixed = rng.choice(values, (2 * len(values), width))
    return np.concatenate([single, whole, mixed])


def _draw_ints(rng: np.random.Generator, width: int, dtype: str, special: Sequence[float]) -> Rows:
    ordinary = rng.integers(0, 2 if dtype == "bool" else 50, (N_ROWS, width))
    if dtype == "bool":
        return ordinary.astype(bool)
    limits = np.iinfo(dtype)
    near = [int(value) + d for value in special if abs(value) < 2**62 for d in (-1, 0, 1)]
    wanted = [*_HOSTILE_INTS, *near, limits.min, limits.max]
    values = np.array([v for v in wanted if limits.min <= v <= limits.max], np.int64)
    return np.concatenate([ordinary, _placed(rng, values, ordinary)]).astype(dtype)


def retyped(nodes: Sequence[Node], dtype: str) -> list[Node]:
    """Return the nodes over columns of another dtype, as a table reports it."""

    def visit(node: Node) -> Node:
        if not isinstance(node, Columns):
            return node
        schema = node.schema.with_dtypes([dtype] * len(node.schema.columns))
        return Columns(schema, node.indices, node.dtype)

    mapping = rewrite(tuple(nodes), visit)
    return [mapping[node] for node in nodes]


def find_special(nodes: Sequence[Node]) -> list[float]:
    """Return the constants at which the answer of a trace may turn."""
    found: set[float] = set()
    for node in topological(tuple(nodes)):
        if isinstance(node, Compare):
            found.update(np.ravel(node.constant.data).tolist())
        elif isinstance(node, Bins):
            found.update(np.ravel(node.edges.data).tolist())
        elif isinstance(node, ConstantRows):
            found.update(np.ravel(node.values.data).tolist())
        elif isinstance(node, Affine):
            found.update(v for step in node.steps for v in step.constant.data.tolist())
    # More constants than these are a table, whose every entry is not worth a row.
    return sorted(v for v in found if np.isfinite(v))[:200]


def compute(nodes: Sequence[Node], columns: Sequence[Rows]) -> list[Rows]:
    """Compute nodes over columns in numpy, as the reference does; texts are looked up."""
    b = Builder()
    given: dict[str, Rows] = {}

    def read(name: str, values: Rows) -> Value:
        dtype = "int32" if name.startswith("c") else _program_dtype(values)
        given[name] = values.reshape(-1, 1).astype(dtype)
        return b.input(name, dtype, 1)

    inputs: dict[str, Value] = {}
    values: dict[Node, Any] = {}
    for node in topological(tuple(nodes)):
        if isinstance(node, Columns):
            names = [f"x{j}" for j in node.columns]
            for name, j in zip(names, node.columns, strict=True):
                inputs[name] = inputs.get(name) or read(name, _numbers_of(columns[j]))
            parts = [b.cast(inputs[name], node.type.dtype) for name in names]
            values[node] = b.concat(parts)
        elif isinstance(node, Codes):
            values[node] = read(f"c{len(given)}", _codes_of(node, columns[node.column]))
        else:
            values[node] = node.lower(b, *(values[n] for n in node.inputs))
    program = b.program({f"y{i}": values[node] for i, node in enumerate(nodes)})
    answers = evaluate(program, given)
    return [np.asarray(answers[f"y{i}"]) for i in range(len(nodes))]


def _codes_of(node: Codes, column: Rows) -> npt.NDArray[np.int32]:
    if isinstance(node.vocabulary, DateCodes):
        return date_codes(node.vocabulary, column)
    known: Any = node.vocabulary.codes
    return np.array([known[value] for value in column], np.int32)


def _numbers_of(values: Rows) -> Rows:
    """Return texts, of which only the number of rows is asked, as zeros."""
    return values if values.dtype.kind in "biuf" else np.zeros(len(values))


def _program_dtype(rows: Rows) -> str:
    name = rows.dtype.name
    return name if name.startswith("float") else "int64"


def find_difference(
    function: Function, answer: Output, checks: Sequence[Node], dtype: str
) -> str | None:
    """Return how a trace differs from its function on rows of a dtype; None where it does not.

    Parameters
    ----------
    function : callable
        Of an array of rows.
    answer : Output
        What the trace gives, over ``Columns`` of one schema.
    checks : sequence of Node
        Conditions that refuse rows.
    dtype : str
        numpy's name of it.
    """
    column_dtype = dtype if dtype in ("float64", "float32", "int64") else WEAK_INT
    roots = [answer.node, *checks]
    leaves = [node for node in topological(tuple(roots)) if isinstance(node, Columns)]
    width = len(leaves[0].schema.columns)
    try:
        node, *conditions = retyped(roots, column_dtype)
        rows = draw_rows(width, dtype, find_special([node]))
        if conditions:
            refused = np.concatenate(compute(conditions, list(rows.T)), axis=1).any(axis=1)
            rows = rows[~refused]
        if not len(rows):
            return "it refuses all rows that it was asked with"
        (got,) = compute([node], list(rows.T))
    except HbconvError as error:
        return f"for {dtype}: {error}"
    got = as_answered(answer, got)
    rng = np.random.default_rng(1)
    order = rng.integers(0, len(rows), len(rows) + 3)
    alone = rng.choice(len(rows), min(N_ALONE, len(rows)), replace=False)
    for places in (np.arange(len(rows)), order, np.arange(len(rows)), *(alone[:, None])):
        given = rows[places]
        want, kept = _ask(function, given)
        if isinstance(want, str):
            return want
        if not _equal(kept, given):
            return "it writes into its argument. Begin with X = X.copy()"
        what = _compare(want, got[places], given, find_slack(node))
        if what:
            return what
    return None


def as_answered(output: Output, values: Rows) -> Rows:
    """Return computed values in the form in which the source answers."""
    vector = values[:, 0] if output.is_vector else values
    return output.classes.data[vector] if isinstance(output.classes, Array) else vector


def _ask(function: Function, rows: Rows) -> tuple[Any, Rows]:
    """Return the answer, or why there is none, and the rows as the function leaves them."""
    given = rows.copy()
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function(given), given
        # The code of a user may raise anything.
        except Exception as error:
            shown = " ".join(str(error).split())[:120]
            return f"it raises {type(error).__name__} for some rows ({shown})", given


def find_slack(node: Node) -> float:
    """Return the relative difference that numpy itself leaves open: of sums, and of functions."""
    nodes = topological((node,))
    if any(isinstance(n, Linear | GroupSums) for n in nodes):
        return 1e-10
    return 4e-15 if any(n.inexact for n in nodes) else 0.0


def _compare(want: Any, got: Rows, rows: Rows, slack: float) -> str | None:
    if not isinstance(want, np.ndarray):
        return f"it returns {type(want).__name__}, where hbconv expects an array"
    if want.shape != got.shape:
        return f"it returns shape {want.shape} for {len(rows)} rows, and its trace {got.shape}"
    if want.dtype != got.dtype:
        return f"it returns {want.dtype} for rows of {rows.dtype}, and its trace {got.dtype}"
    slack = max(slack, 1e-6) if slack and want.dtype == np.float32 else slack
    with np.errstate(all="ignore"):
        same = (want == got) | ((want != want) & (got != got))
        if slack and want.dtype.kind in "biuf":
            # Products add up terms of all sizes, so the largest number of the row is the scale.
            scale = np.abs(want) if slack < 1e-10 else np.maximum(np.abs(want), _scale(rows, want))
            same |= np.abs(want - got) <= slack * scale
    if same.all():
        return None
    row = int(np.argwhere(~same)[0][0])
    shown = np.array2string(rows[row], threshold=6, precision=17).replace("\n", "")
    return f"for the row {shown} it returns {want[row]}, and its trace {got[row]}"


def _scale(rows: Rows, want: Rows) -> Rows:
    largest: Rows = np.abs(rows.astype(np.float64)).max(axis=1, initial=0.0)
    return largest[:, None] if want.ndim == 2 else largest


def _equal(x: Rows, y: Rows) -> bool:
    return x.tobytes() == y.tobytes()
