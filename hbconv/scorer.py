"""Answer Arrow tables with a column for each class or output: the step that engines run."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from hbconv.errors import InputError, OptionError

if TYPE_CHECKING:
    from hbconv.model import Model

__all__ = ["Scorer", "rows_for"]

_LOADED: dict[str, tuple[tuple[int, int], Model]] = {}
"""Models of this process by their real path, with the time and size of the file they are of."""


class Scorer:
    """Score Arrow record batches and tables: columns that are kept, then those of the answers.

    It can be pickled: a path travels as a path, and each process loads its model once. A file that
    was written anew is loaded anew, by the next scorer.
    It needs numpy and pyarrow beside what runs the model.

    Parameters
    ----------
    model : Model or path
        A converted model, or the .hbc file of one.
    methods : str or sequence of str, optional
        Methods to call. By default ``predict``, or the model's first.
    keep : sequence of str
        Columns to copy in front of the answers.

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
    ) -> None:
        self.given = model
        self.asked = (methods,) if isinstance(methods, str) else methods
        self.keep = tuple(dict.fromkeys(keep))

    def __getstate__(self) -> dict[str, Any]:
        return {name: vars(self)[name] for name in ("given", "asked", "keep")}

    @cached_property
    def model(self) -> Model:
        """The model; a file is read when it is first asked for in a process."""
        if isinstance(self.given, (str, os.PathLike)):
            return _load_once(os.path.realpath(self.given))
        return self.given

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
        names = tuple(name for method in self.methods for name in _names(self.model, method))
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
        named = getattr(self.model, "feature_names_in_", None)
        if named is None:
            return tuple(name for name in columns if name not in self.keep)
        return tuple(map(str, named))

    def __call__(self, batch: Any) -> Any:
        """Answer a pyarrow RecordBatch or Table with one of its kind.

        Raises
        ------
        InputError
            Columns are missing, or the model refuses a row.
        """
        import pyarrow as pa

        names = self.names
        rows = rows_for(self.model, batch.select(self.needed(batch.schema.names)))
        columns = [
            _arrow(column)
            for method in self.methods
            for column in _columns(getattr(self.model, method)(rows), batch.num_rows)
        ]
        kept = [batch.column(name) for name in self.keep]
        kind = pa.RecordBatch if isinstance(batch, pa.RecordBatch) else pa.Table
        return kind.from_arrays([*kept, *columns], names=[*self.keep, *names])


def _load_once(path: str) -> Model:
    """Load a file, unless this process holds the model that stands in it."""
    import hbconv

    found = os.stat(path)
    stamp = (found.st_mtime_ns, found.st_size)
    if path not in _LOADED or _LOADED[path][0] != stamp:
        _LOADED[path] = stamp, hbconv.load(path, on_new_dtypes="compile")
    return _LOADED[path][1]


def rows_for(model: Model, table: Any) -> Any:
    """Return a pyarrow table as the model takes it.

    A model that reads a sequence, of texts for example, takes the only column.

    Raises
    ------
    InputError
        Several columns, where the model reads a sequence.
    """
    conventions = model.schema.conventions
    if not (conventions.items or conventions.sequence):
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


def _arrow(column: Any) -> Any:
    """Return a column as Arrow holds it; objects become text if they are all text."""
    import pyarrow as pa

    if column.dtype != object:
        return pa.array(column)
    return pa.array(
        column.tolist(), pa.string() if all(isinstance(label, str) for label in column) else None
    )


def _columns(values: Any, rows: int) -> list[Any]:
    """Return the columns of an answer; those of a list or a cube one block after another.

    One dimension is a column, or all columns of a single row.
    """
    import numpy as np

    if isinstance(values, list):
        return [column for block in values for column in _columns(block, rows)]
    values = np.asarray(values.todense() if hasattr(values, "todense") else values)
    if values.ndim == 1 and rows != 1:
        return [values]
    width = math.prod(values.shape[1:]) if values.ndim > 1 else values.size
    return list(values.reshape(rows, width).T)


def _names(model: Model, method: str) -> list[str]:
    """Name the columns of the answers after classes, features or their places.

    Columns of several targets have the name of the target first.
    """
    output = model.parsed.outputs[method]
    if method == "transform":
        return [str(name) for name in model.get_feature_names_out()]
    if output.is_vector:
        return [method]
    widths = output.widths or (output.node.type.width,)
    classes = getattr(model, "classes_", None)
    if len(widths) > 1:
        return [
            f"{method}_{target}_{c}"
            for target, labels in enumerate(classes or map(range, widths))
            for c in labels
        ]
    own = (
        classes
        if classes is not None and not isinstance(classes, list) and len(classes) == widths[0]
        else range(widths[0])
    )
    return [f"{method}_{c}" for c in own]
