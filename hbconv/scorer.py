"""Answer Arrow tables with a column for each class or output: the step that engines run."""

from __future__ import annotations

import hashlib
import os
import pickle
import warnings
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from hbconv.answer_columns import arrow_columns, column_names
from hbconv.errors import InputError, OptionError

if TYPE_CHECKING:
    from hbconv.model import Model

__all__ = ["Scorer", "read_names", "rows_for", "with_unread"]

_LOADED: dict[tuple[str, bool], tuple[tuple[int, int], Model]] = {}
"""Models of this process by their real path and whether it is trusted.

Each has the time and size of the file that it is of.
"""
_SENT: dict[bytes, Model] = {}
"""Models of this process that travelled inside a scorer, by the hash of their pickle."""
MOST_SENT = 8
"""Models that travelled and are held; the oldest goes first."""


class Scorer:
    """Score Arrow record batches and tables: columns that are kept, then those of the answers.

    It can be pickled: a path travels as a path, a model as its file's bytes. Each process loads
    its model once. A file that was written anew is loaded anew, by the next scorer.
    It needs numpy and pyarrow beside what runs the model.

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
    ) -> None:
        self.given: Model | str | os.PathLike[str] | bytes = model
        self.asked = (methods,) if isinstance(methods, str) else methods
        self.keep = tuple(dict.fromkeys(keep))
        self.trusted = trusted

    def __getstate__(self) -> dict[str, Any]:
        state = {name: vars(self)[name] for name in ("given", "asked", "keep", "trusted")}
        if not isinstance(self.given, (str, os.PathLike, bytes)):
            state["given"] = pickle.dumps(self.given)
        return state

    @cached_property
    def model(self) -> Model:
        """The model; a file is read when it is first asked for in a process."""
        if isinstance(self.given, (str, os.PathLike)):
            return _load_once(os.path.realpath(self.given), trusted=self.trusted)
        return _unpack_once(self.given) if isinstance(self.given, bytes) else self.given

    @cached_property
    def methods(self) -> tuple[str, ...]:
        """The methods that are called."""
        if self.asked is None:
            known = self.model.methods
            return ("predict",) if "predict" in known else (next(iter(known)),)
        for name in self.asked:
            _require_method(self.model, name)
        return tuple(dict.fromkeys(self.asked))

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
            Columns are missing, or the model refuses a row.
        """
        import pyarrow as pa

        columns = self.answers(self.rows(batch), batch.num_rows)
        kept = [batch.column(name) for name in self.keep]
        kind = pa.RecordBatch if isinstance(batch, pa.RecordBatch) else pa.Table
        return kind.from_arrays([*kept, *columns], names=[*self.keep, *self.names])

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
        _ = self.names  # methods and columns are refused before a row is answered
        return [
            column
            for method in self.methods
            for column in arrow_columns(self.model, method, rows, n_rows)
        ]

    def schema(self, given: Any = None) -> Any:
        """Return the pyarrow Schema of the answers to rows of a schema, by default ``inputs()``."""
        rows = (self.inputs() if given is None else given).empty_table()
        with warnings.catch_warnings():  # names of columns, where the source has none
            warnings.simplefilter("ignore", UserWarning)
            return self(rows).schema

    def inputs(self) -> Any:
        """Return the pyarrow Schema of the columns that the model reads.

        Types are those of the sample that it was converted with, else what the source tells.
        """
        import pyarrow as pa

        types = dict(zip(self.model.schema.names, self.model.dtypes, strict=True))
        names = read_names(self.model) or types
        return pa.schema([(n, pa.string() if types[n] == "string" else types[n]) for n in names])


def _load_once(path: str, *, trusted: bool) -> Model:
    """Load a file, unless this process holds the model that stands in it."""
    import hbconv

    found = os.stat(path)
    stamp = (found.st_mtime_ns, found.st_size)
    key = (path, trusted)
    if key not in _LOADED or _LOADED[key][0] != stamp:
        _LOADED[key] = stamp, hbconv.load(path, trusted=trusted, on_new_dtypes="compile")
    return _LOADED[key][1]


def _unpack_once(packed: bytes) -> Model:
    """Unpickle a model, unless this process holds it: engines send it with each of their tasks."""
    key = hashlib.sha256(packed).digest()
    if key not in _SENT:
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
