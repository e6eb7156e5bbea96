"""Score Arrow tables, with a column for each class or output: the step that engines run.

Rows that the model refuses among others that it answers are found by halving.
"""

from __future__ import annotations

import hashlib
import math
import os
import pickle
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from hbconv.array import Array
from hbconv.errors import BackendError, InputError, OptionError, StoreError

if TYPE_CHECKING:
    from hbconv.model import Model

__all__ = [
    "FAULTS",
    "REFUSALS",
    "Scorer",
    "answered_parts",
    "column_names",
    "read_names",
    "rows_for",
    "with_unread",
]

FAULTS = (BackendError, OptionError, StoreError)
"""What is wrong with a run as a whole, whatever its rows; each is a ValueError too."""
REFUSALS = (ValueError, TypeError)
"""What a model raises for rows that it refuses, but for the faults."""


def answered_parts(
    score: Callable[[Any], Any], batch: Any, position: int = 0
) -> Iterator[tuple[int, Any, Exception | None]]:
    """Yield the answers to neighbouring rows of a batch, and each row that is refused.

    Halves of a refused batch are scored by themselves, down to the single row.

    Parameters
    ----------
    score : callable
        Answers a batch, or raises.
    batch : pyarrow.RecordBatch or Table
    position : int
        Of its first row.

    Yields
    ------
    position, answers, None
        Of the rows from that position on.
    position, row, error
        A batch of one row, and why it is refused.

    Examples
    --------
    >>> import pyarrow as pa
    >>> def halve(batch):
    ...     if None in batch["a"].to_pylist():
    ...         raise ValueError("a is missing.")
    ...     return [value / 2 for value in batch["a"].to_pylist()]
    >>> batch = pa.record_batch({"a": [2, 4, None, 6]})
    >>> for position, found, error in answered_parts(halve, batch):
    ...     print(position, found if error is None else error)
    0 [1.0, 2.0]
    2 a is missing.
    3 [3.0]
    """
    try:
        answers = score(batch)
    # Faults are ValueErrors too, so they are let through before refusals are caught.
    except FAULTS:
        raise
    except REFUSALS as error:
        if batch.num_rows == 0:
            raise
        if batch.num_rows == 1:
            yield position, batch, error
            return
    else:
        yield position, answers, None
        return
    # Halving finds one bad row of n by about 2 log2(n) calls, where one by one takes n.
    half = batch.num_rows // 2
    yield from answered_parts(score, batch.slice(0, half), position)
    yield from answered_parts(score, batch.slice(half), position + half)


_LOADED: dict[tuple[str, bool], tuple[tuple[int, int], Model]] = {}
"""Models of this process by their real path and whether it is trusted.

Each has the time and size of the file that it is of.
"""
_SENT: dict[bytes, Model] = {}
"""Models of this process that travelled inside a scorer, by the hash of their pickle."""
MOST_SENT = 8
"""Models that travelled and are held; the oldest goes first."""


class Scorer:
    """Score Arrow record batches and tables: columns that are kept, then those of the outputs.

    It can be pickled: a path travels as a path, a model as its file's bytes. Each process loads
    its model once. A file that was written again is loaded again, by the next scorer.
    It needs numpy and pyarrow in addition to what runs the model.

    Parameters
    ----------
    model : Model or path
        A converted model, or the .hbc file of one.
    methods : str or sequence of str, optional
        Methods to call. By default ``predict``, or the model's first.
    keep : sequence of str
        Columns to copy in front of the answers.
    trusted : bool
        Run the compiled programs of the file, as ``hbconv.load`` does; its author is trusted.
    reasons : str, optional
        A column behind the answers that says why a row is refused, and is null elsewhere. The
        answers to such a row are null. By default a refused row raises.

    Raises
    ------
    OptionError
        When the model is first asked: a method that it lacks or that answers no columns, or two
        columns of one name.

    Examples
    --------
    >>> import pandas as pd, pyarrow as pa
    >>> from sklearn.linear_model import LinearRegression
    >>> import hbconv
    >>> X = pd.DataFrame({"a": [1.0, 0.0, 1.0], "b": [0.0, 1.0, 1.0]})
    >>> source = LinearRegression().fit(X, [1.0, 2.0, 3.0])
    >>> score = Scorer(hbconv.convert(source, backend="reference"), keep=["id"])
    >>> answers = score(pa.table({"id": [7, 8], "a": [2.0, 0.0], "b": [0.0, 3.0]}))
    >>> answers.column_names, [round(value, 6) for value in answers["predict"].to_pylist()]
    (['id', 'predict'], [2.0, 6.0])
    """

    def __init__(
        self,
        model: Model | str | os.PathLike[str],
        methods: str | Sequence[str] | None = None,
        keep: Sequence[str] = (),
        *,
        trusted: bool = False,
        reasons: str | None = None,
    ) -> None:
        self.source: Model | str | os.PathLike[str] | bytes = model
        self.wanted = (methods,) if isinstance(methods, str) else methods
        self.keep = tuple(dict.fromkeys(keep))
        self.trusted = trusted
        self.reasons = reasons

    def __getstate__(self) -> dict[str, Any]:
        given = ("source", "wanted", "keep", "trusted", "reasons")
        state = {name: vars(self)[name] for name in given}
        if not isinstance(self.source, (str, os.PathLike, bytes)):
            state["source"] = pickle.dumps(self.source)
        return state

    @cached_property
    def model(self) -> Model:
        """The model; a file is read when it is first asked for in a process."""
        if isinstance(self.source, (str, os.PathLike)):
            return _load_once(os.path.realpath(self.source), trusted=self.trusted)
        return _unpack_once(self.source) if isinstance(self.source, bytes) else self.source

    @cached_property
    def methods(self) -> tuple[str, ...]:
        """The methods that are called."""
        if self.wanted is None:
            registered = self.model.methods
            return ("predict",) if "predict" in registered else (next(iter(registered)),)
        for name in self.wanted:
            _require_method(self.model, name)
        return tuple(dict.fromkeys(self.wanted))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the answers' columns, which follow those that are kept."""
        names = tuple(name for method in self.methods for name in column_names(self.model, method))
        twice = [name for name in self.keep if name in names]
        if twice:
            raise OptionError(
                f"--keep {','.join(twice)}: the answers have columns of that name. "
                "Rename the columns of the table, or leave them out."
            )
        if len(set(names)) < len(names):
            raise OptionError(
                f"The answers of {', '.join(self.methods)} have columns of equal names: "
                f"{', '.join(names)}."
            )
        return names

    def needed(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return the columns of a table that the model reads."""
        named = read_names(self.model)
        if named is None:
            return tuple(name for name in columns if name not in self.keep)
        return named

    def __call__(self, batch: Any) -> Any:
        """Answer a pyarrow RecordBatch or Table with one of its kind.

        Raises
        ------
        InputError
            Columns are missing, or the model refuses a row and there is no column of reasons.
        """
        if self.reasons is None:
            return self._answer(batch)
        return self._answer_or_tell(batch, self.reasons)

    def _answer(self, batch: Any) -> Any:
        import pyarrow as pa

        columns = self.answers(self.rows(batch), batch.num_rows)
        kept = [batch.column(name) for name in self.keep]
        kind = pa.RecordBatch if isinstance(batch, pa.RecordBatch) else pa.Table
        return kind.from_arrays([*kept, *columns], names=[*self.keep, *self.names])

    def _answer_or_tell(self, batch: Any, reasons: str) -> Any:
        """Answer the rows that the model does not refuse, and tell of each other one why."""
        import pyarrow as pa

        if reasons in (*self.keep, *self.names):
            raise OptionError(f"reasons={reasons!r}: the answers have a column of that name.")
        # Without rows: a column that is missing raises, and all columns have their types.
        parts = [_with_reasons(self._answer(batch.slice(0, 0)), reasons, None)]
        for _, found, error in answered_parts(self._answer, batch):
            answers = found if error is None else found.select(self.keep)
            parts.append(_with_reasons(answers, reasons, None if error is None else str(error)))
        table = pa.concat_tables(parts, promote_options="default")
        if not isinstance(batch, pa.RecordBatch):
            return table
        columns = [column.combine_chunks() for column in table.columns]
        return pa.RecordBatch.from_arrays(columns, schema=table.schema)

    def rows(self, batch: Any) -> Any:
        """Return a pyarrow RecordBatch or Table as the model takes it.

        Raises
        ------
        InputError
            Columns are missing.
        """
        needed = self.needed(batch.schema.names)
        missing = sorted({*needed, *self.keep}.difference(batch.schema.names))
        if missing:
            raise InputError(
                f"The rows have no columns {', '.join(missing)}. "
                f"They have: {', '.join(batch.schema.names)}."
            )
        return rows_for(self.model, with_unread(self.model, batch.select(needed)))

    def answers(self, rows: Any, n_rows: int) -> list[Any]:
        """Return the answers to rows of any kind that the model takes: Arrow arrays, by ``names``.

        Raises
        ------
        InputError
            The model refuses a row.
        """
        # Methods and columns are refused before a row is scored.
        _ = self.names
        return [
            column
            for method in self.methods
            for column in arrow_columns(self.model, method, rows, n_rows)
        ]

    def schema(self, of_rows: Any = None) -> Any:
        """Return the pyarrow Schema of the answers to rows of a schema, by default ``inputs()``."""
        rows = (self.inputs() if of_rows is None else of_rows).empty_table()
        # The source warns of names of columns where it was fitted without; here they are made up.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            return self(rows).schema

    def inputs(self) -> Any:
        """Return the pyarrow Schema of the columns that the model reads.

        Types are those of the sample that it was converted with, else those of the source.
        """
        import pyarrow as pa

        types = dict(zip(self.model.schema.names, self.model.dtypes, strict=True))
        names = read_names(self.model) or types
        return pa.schema([(n, pa.string() if types[n] == "string" else types[n]) for n in names])


def _with_reasons(answers: Any, name: str, reason: str | None) -> Any:
    """Return answers as a table, behind which a column tells one reason."""
    import pyarrow as pa

    told = pa.array([reason] * answers.num_rows, pa.string())
    return pa.Table.from_arrays([*answers.columns, told], names=[*answers.schema.names, name])


def _load_once(path: str, *, trusted: bool) -> Model:
    """Load a file, unless this process holds the model that is stored in it."""
    import hbconv

    state = os.stat(path)
    # Time and size are asked for at each scorer; a hash would read the file as often.
    stamp = (state.st_mtime_ns, state.st_size)
    key = (path, trusted)
    if key not in _LOADED or _LOADED[key][0] != stamp:
        _LOADED[key] = stamp, hbconv.load(path, trusted=trusted, on_new_dtypes="compile")
    return _LOADED[key][1]


def _unpack_once(packed: bytes) -> Model:
    """Unpickle a model, unless this process holds it: engines send it with each of their tasks."""
    key = hashlib.sha256(packed).digest()
    if key not in _SENT:
        # A dict keeps the order of insertion, so its first key is the oldest.
        while len(_SENT) >= MOST_SENT:
            del _SENT[next(iter(_SENT))]
        _SENT[key] = pickle.loads(packed)  # noqa: S301 - it came inside a pickle
    return _SENT[key]


def read_names(model: Model) -> tuple[str, ...] | None:
    """Return the names of the columns that a model reads; None if it was fitted without names."""
    if not model.schema.named:
        return None
    return tuple(model.schema.names[i] for i in model.reads.asked)


def with_unread(model: Model, table: Any) -> Any:
    """Return a pyarrow table with nulls for the columns that a model was fitted on and ignores."""
    import pyarrow as pa

    read, names = read_names(model), model.schema.names
    if read is None or read == names:
        return table
    # A column of type null has no buffers, whatever its length.
    unread = pa.nulls(table.num_rows)
    columns = [table.column(name) if name in read else unread for name in names]
    return pa.Table.from_arrays(columns, names=list(names))


def rows_for(model: Model, table: Any) -> Any:
    """Return a pyarrow table as the model takes it.

    A model that reads a sequence, of texts for example, takes the only column.

    Raises
    ------
    InputError
        Several columns, where the model reads a sequence.
    """
    if not model.schema.conventions.takes_column:
        return table
    if table.num_columns != 1:
        raise InputError(
            f"The model reads one column of values, and here are {', '.join(table.schema.names)}. "
            "Give a table of that column alone."
        )
    return table.column(0)


def _require_method(model: Model, wanted: str) -> None:
    columns = model.parsed.tensors
    if wanted not in model.methods:
        raise OptionError(f"The model has no method {wanted!r}. It has: {', '.join(columns)}.")
    if wanted not in columns:
        raise OptionError(
            f"The answers of {wanted!r} are no columns of a table. "
            f"Those of these methods are: {', '.join(columns)}."
        )


def arrow_columns(model: Model, method: str, rows: Any, n_rows: int) -> list[Any]:
    """Answer rows with an Arrow array for each column, in the order of ``column_names``.

    Labels have the type of all classes, whichever of them the rows have.
    """
    output = getattr(model, method)(rows)
    columns = _columns(output, n_rows) if n_rows else _no_rows(model, method, output)
    labels = _labels(model, method)
    if len(labels) != len(columns):
        labels = [None] * len(columns)
    return [_arrow(column, table) for column, table in zip(columns, labels, strict=True)]


def column_names(model: Model, method: str) -> list[str]:
    """Name the columns of the outputs after classes, features or their positions.

    Columns of several targets have the name of the target first.
    """
    names = model.output_names(method)
    if method == "transform" and model.parsed.traits.names_out is not None:
        return names
    return names if names == [method] else [f"{method}_{name}" for name in names]


def _labels(model: Model, method: str) -> list[Any]:
    """Return the classes of each column of labels."""
    classes = model.parsed.outputs[method].classes
    if classes is None:
        return []
    return [table.data for table in ([classes] if isinstance(classes, Array) else classes)]


def _arrow(column: Any, labels: Any) -> Any:
    """Return a column as Arrow holds it; objects become text if they are all text.

    Numbers are handed over as they lie: pyarrow.array would import pandas first.
    """
    import pyarrow as pa

    if column.dtype.kind in "iuf" and column.dtype.isnative:
        values = np.ascontiguousarray(column)
        kind = pa.from_numpy_dtype(values.dtype)
        return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])
    if column.dtype != object:
        return pa.array(column)
    values = column.tolist()
    if labels is not None:
        return pa.array(values, pa.array(labels.tolist()).type)
    return pa.array(
        values, pa.string() if all(isinstance(value, str) for value in values) else None
    )


def _no_rows(model: Model, method: str, values: Any) -> list[Any]:
    """Return the columns of an output for no rows, in the types that rows have."""
    output = model.parsed.outputs[method]
    block = values[0] if isinstance(values, list) else values
    dtype = block.dtype if hasattr(block, "dtype") else np.asarray(block).dtype
    # Where a source returns another dtype for no rows, tables keep the type that rows have.
    if output.of_no_rows is not None:
        labels = _labels(model, method)
        dtype = labels[0].dtype if labels else np.dtype(output.dtype or output.node.type.dtype)
    return [np.empty(0, dtype) for _ in column_names(model, method)]


def _columns(values: Any, rows: int) -> list[Any]:
    """Return the columns of an output; those of a list or a cube one block after another.

    One dimension is a column, or all columns of a single row.
    """
    if isinstance(values, list):
        return [column for block in values for column in _columns(block, rows)]
    values = np.asarray(values.todense() if hasattr(values, "todense") else values)
    if values.ndim == 1 and rows != 1:
        return [values]
    width = math.prod(values.shape[1:]) if values.ndim > 1 else values.size
    return list(values.reshape(rows, width).T)
