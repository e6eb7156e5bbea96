"""Between Triton's tensors and a Model: its columns on the way in, its answers on the way out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.containers import Codes, Entries, Vocabulary, topological
from hbconv.containers.extractors import Texts
from hbconv.errors import BackendError
from hbconv.interface import require_one_meaning, text_codes
from hbconv.triton.config import TritonTensor
from hbconv.triton.exportable import Exportable

__all__ = ["MATRIX", "RowReader", "answer_array"]

MATRIX = "X"
"""Name of the input that holds all columns, where they are numbers of one dtype."""


@dataclass(frozen=True)
class RowReader:
    """Makes rows of input tensors.

    Parameters
    ----------
    names : tuple of str
        Names of the inputs: the columns, or ``X`` alone.
    dtypes : tuple of str
        Dtype of each.
    width : int
        Columns of each.
    missing : mapping of str to object
        What the empty text stands for in each text column that has missing values.
    is_sequence : bool
        The model takes a sequence of values, not a table.
    """

    names: tuple[str, ...]
    dtypes: tuple[str, ...]
    width: int
    missing: dict[str, object]
    is_sequence: bool

    @staticmethod
    def of(model: Exportable) -> RowReader:
        """Return the reader of a model's rows.

        Raises
        ------
        BackendError
            Rows are mappings or sequences, or a column tells None from NaN.
        """
        _require_texts(model)
        is_sequence = model.schema.conventions.takes_column
        names, dtypes = model.schema.names, model.dtypes
        if len(set(dtypes)) == 1 and dtypes[0] != "string":
            return RowReader((MATRIX,), dtypes[:1], len(names), {}, is_sequence)
        return RowReader(names, dtypes, 1, _missing(model), is_sequence)

    @property
    def tensors(self) -> tuple[TritonTensor, ...]:
        """The inputs as Triton is told of them."""
        pairs = zip(self.names, self.dtypes, strict=True)
        return tuple(TritonTensor(name, dtype, (self.width,)) for name, dtype in pairs)

    def read(self, given: dict[str, npt.NDArray[Any]]) -> Any:
        """Return a matrix, a table of columns, or a sequence of values.

        Parameters
        ----------
        given : mapping of str to array
            Of shape (n_rows, width); texts are bytes.
        """
        if self.names == (MATRIX,):
            return given[MATRIX][:, 0] if self.is_sequence else given[MATRIX]
        columns = {name: self._column(name, values[:, 0]) for name, values in given.items()}
        return columns[self.names[0]] if self.is_sequence else columns

    def _column(self, name: str, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if values.dtype.kind != "O":
            return values
        missing = self.missing.get(name, "")
        texts = [value.decode() or missing for value in values.tolist()]
        return np.array([*texts, None], object)[:-1]


def _require_texts(model: Exportable) -> None:
    for node in topological(model.parsed.roots):
        if isinstance(node, Entries) and not isinstance(node.extractor.rows, Texts):
            raise BackendError(
                "Triton has no tensors of mappings or lists, which this model reads."
            )


def _missing(model: Exportable) -> dict[str, object]:
    """Return what the empty text stands for, by column: None or NaN, as the vocabulary knows."""
    read: dict[str, list[Vocabulary]] = {}
    for node in topological(model.parsed.roots):
        if isinstance(node, Codes) and isinstance(node.vocabulary, Vocabulary):
            read.setdefault(model.schema.names[node.column], []).append(node.vocabulary)
    found: dict[str, object] = {}
    for name, vocabularies in read.items():
        require_one_meaning(vocabularies, name)
        for known in vocabularies:
            text_codes(known, name)  # refuses what one text cannot tell
            if "" not in known.values and {known.none, known.nan} != {-1}:
                found[name] = None
    return found


def answer_array(model: Exportable, method: str, rows: Any, dtype: Any) -> npt.NDArray[Any]:
    """Return the answer of a method as one array of the dtype that Triton was told of.

    Lists of arrays stand side by side, sparse matrices are dense, and a single row that is flat has
    two dimensions.
    """
    answer = getattr(model, method)(rows)
    if isinstance(answer, list):
        answer = np.concatenate([np.asarray(part) for part in answer], axis=1)
    values = np.asarray(answer.toarray() if hasattr(answer, "toarray") else answer)
    output = model.parsed.outputs[method]
    if values.ndim == 1 and not output.is_vector:
        values = values.reshape(1, -1)
    if dtype == np.object_:
        return np.array([str(v).encode() for v in values.ravel()], object).reshape(values.shape)
    return values.astype(dtype, copy=False)
