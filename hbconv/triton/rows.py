"""Between Triton's tensors and a Model: its columns on the way in, its outputs on the way out.

``ModelConfig`` is what Triton must know of a model, and writes ``config.pbtxt``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from hbconv.backends.interface import require_one_meaning, text_codes
from hbconv.containers import Codes, Entries, Graph, Schema, Vocabulary, topological
from hbconv.containers.extractors import Texts
from hbconv.errors import BackendError
from hbconv.runtime.programs import Programs
from hbconv.target import Target

__all__ = ["MATRIX", "ModelConfig", "RowReader", "TritonModel", "TritonTensor", "answer_array"]


class TritonModel(Protocol):
    """A ``hbconv.Model``."""

    parsed: Graph
    dtypes: tuple[str, ...]
    target: Target
    programs: Programs

    @property
    def schema(self) -> Schema:
        """The input columns."""

    @property
    def backend(self) -> str:
        """Name of its backend."""

    def to_bytes(self, suffix: str = ".hbc", device: str = "cpu") -> bytes:
        """Return what a file of that suffix holds."""


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
        Value of the empty text in each text column that has missing values.
    is_sequence : bool
        The model takes a sequence of values, not a table.
    """

    names: tuple[str, ...]
    dtypes: tuple[str, ...]
    width: int
    missing: dict[str, object]
    is_sequence: bool

    @staticmethod
    def of(model: TritonModel) -> RowReader:
        """Return the reader of a model's rows.

        Raises
        ------
        BackendError
            Rows are mappings or sequences, or a column distinguishes None from NaN.
        """
        _require_texts(model)
        is_sequence = model.schema.conventions.takes_column
        names, dtypes = model.schema.names, model.dtypes
        if len(set(dtypes)) == 1 and dtypes[0] != "string":
            return RowReader((MATRIX,), dtypes[:1], len(names), {}, is_sequence)
        return RowReader(names, dtypes, 1, _missing(model), is_sequence)

    @property
    def tensors(self) -> tuple[TritonTensor, ...]:
        """The inputs as they are declared to Triton."""
        pairs = zip(self.names, self.dtypes, strict=True)
        return tuple(TritonTensor(name, dtype, (self.width,)) for name, dtype in pairs)

    def read(self, tensors: dict[str, npt.NDArray[Any]]) -> Any:
        """Return a matrix, a table of columns, or a sequence of values.

        Parameters
        ----------
        tensors : mapping of str to array
            Of shape (n_rows, width); texts are bytes.
        """
        if self.names == (MATRIX,):
            return tensors[MATRIX][:, 0] if self.is_sequence else tensors[MATRIX]
        columns = {name: self._column(name, values[:, 0]) for name, values in tensors.items()}
        return columns[self.names[0]] if self.is_sequence else columns

    def _column(self, name: str, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if values.dtype.kind != "O":
            return values
        missing = self.missing.get(name, "")
        texts = [value.decode() or missing for value in values.tolist()]
        return np.array(texts, object)


def _require_texts(model: TritonModel) -> None:
    for node in topological(model.parsed.roots):
        if isinstance(node, Entries) and not isinstance(node.extractor.rows, Texts):
            raise BackendError(
                "Triton has no tensors of mappings or lists, which this model reads."
            )


def _missing(model: TritonModel) -> dict[str, object]:
    """Return the value of the empty text by column: None or NaN, as in the vocabulary."""
    read: dict[str, list[Vocabulary]] = {}
    for node in topological(model.parsed.roots):
        if isinstance(node, Codes) and isinstance(node.vocabulary, Vocabulary):
            read.setdefault(model.schema.names[node.column], []).append(node.vocabulary)
    meanings: dict[str, object] = {}
    for name, vocabularies in read.items():
        require_one_meaning(vocabularies, name)
        for vocabulary in vocabularies:
            # Refuses what one text cannot distinguish.
            text_codes(vocabulary, name)
            if "" not in vocabulary.values and {vocabulary.none, vocabulary.nan} != {-1}:
                meanings[name] = None
    return meanings


def answer_array(model: TritonModel, method: str, rows: Any, dtype: Any) -> npt.NDArray[Any]:
    """Return the output of a method as one array of the dtype that Triton expects.

    Lists of arrays are joined side by side, sparse matrices are dense, and a single row that is
    flat has two dimensions.
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


MAX_BATCH_ROWS = 65536
"""Rows that Triton takes in one request, and puts together in one batch."""

QUEUE_DELAY_MICROSECONDS = 100
"""Time that a request may wait for others, about that of a call of one row."""

TYPES = {
    "bool": "TYPE_BOOL",
    **{f"uint{bits}": f"TYPE_UINT{bits}" for bits in (8, 16, 32, 64)},
    **{f"int{bits}": f"TYPE_INT{bits}" for bits in (8, 16, 32, 64)},
    **{f"float{bits}": f"TYPE_FP{bits}" for bits in (16, 32, 64)},
    "string": "TYPE_STRING",
}
"""Triton's name of each dtype."""


@dataclass(frozen=True)
class TritonTensor:
    """An input or output.

    Parameters
    ----------
    name, dtype : str
    shape : tuple of int
        Of one row. Triton knows no scalars, so ``()`` is declared as one value that is reshaped.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        dims = ", ".join(map(str, self.shape or (1,)))
        reshape = "" if self.shape else " reshape: { shape: [ ] }"
        kind = TYPES[self.dtype]
        return f"{{ name: {_text(self.name)} data_type: {kind} dims: [ {dims} ]{reshape} }}"


@dataclass(frozen=True)
class ModelConfig:
    """What Triton must know of a model.

    Parameters
    ----------
    backend : {"pytorch", "onnxruntime", "python"}
    inputs, outputs : tuple of TritonTensor
    device : str
        ``"cpu"``, ``"cuda"`` (an instance on each GPU), or ``"cuda:1"``.
    parameters : mapping of str to str
    """

    backend: str
    inputs: tuple[TritonTensor, ...]
    outputs: tuple[TritonTensor, ...]
    device: str = "cpu"
    parameters: Mapping[str, str] = field(default_factory=dict)

    def to_text(self, name: str) -> str:
        """Return the text of ``config.pbtxt`` of a model of that name.

        Raises
        ------
        BackendError
            Triton cannot name or hold an input or output.
        """
        _require_distinct(self.inputs, "input")
        _require_distinct(self.outputs, "output")
        lines = [
            f"name: {_text(name)}",
            f"backend: {_text(self.backend)}",
            f"max_batch_size: {MAX_BATCH_ROWS}",
            *(f"input {tensor}" for tensor in self.inputs),
            *(f"output {tensor}" for tensor in self.outputs),
            f"dynamic_batching {{ max_queue_delay_microseconds: {QUEUE_DELAY_MICROSECONDS} }}",
            f"instance_group {{ count: 1 {_place(self.device)} }}",
            *(
                f"parameters {{ key: {_text(key)} value {{ string_value: {_text(value)} }} }}"
                for key, value in self.parameters.items()
            ),
        ]
        return "\n".join(lines) + "\n"


def _place(device: str) -> str:
    kind, _, number = device.partition(":")
    if kind == "cpu":
        return "kind: KIND_CPU"
    return f"kind: KIND_GPU gpus: [ {number} ]" if number else "kind: KIND_GPU"


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _require_distinct(tensors: Iterable[TritonTensor], kind: str) -> None:
    names = [tensor.name for tensor in tensors]
    clashing = sorted({name for name in names if not name or names.count(name) > 1})
    if clashing:
        raise BackendError(
            f"Triton needs a name for each {kind}, but {clashing} are empty or taken twice. "
            "Rename the columns and fit again."
        )
    for tensor in tensors:
        if 0 in tensor.shape:
            raise BackendError(
                f"Triton has no tensors without columns, and {kind} {tensor.name!r} has none."
            )
