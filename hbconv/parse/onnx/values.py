"""Values between the operators of an ONNX graph.

A tensor over the rows is a node of the container DAG, whose columns are the entries of one row.
So an operator that only moves entries is a selection of columns, computed once by numpy on the
numbers of the columns. Operators on constants are computed by the reference implementation of ONNX.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from hbconv.array import Array
from hbconv.containers import Cast, LookupRows, Node, Recode, Select
from hbconv.containers.extractors import Texts, TypedMappings
from hbconv.errors import ConversionError, UnsupportedError

__all__ = [
    "DTYPES",
    "MOST_ENTRIES",
    "NARROW",
    "ROWS",
    "FlatTensor",
    "KnownTensor",
    "LabelTensor",
    "MapList",
    "MapRows",
    "NarrowTensor",
    "RowTensor",
    "TensorList",
    "TextTensor",
    "TokenTensor",
    "Value",
    "attribute_value",
    "constants",
    "ends_of",
    "fold",
    "holds_rows",
    "plain",
    "require_few",
    "require_inside",
]

# Odd and huge, so that sums and quotients with it are told from sizes of a file.
ROWS = (1 << 56) + 1
"""Stands for the number of rows in a constant shape."""

MOST_OF_ROW = 1 << 22
"""Entries of one row that a tensor may have: a damaged file would ask for all memory."""

NARROW = {2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 12: "uint32", 13: "uint64"}
"""Types of ints that nodes hold as int64."""

DTYPES = {
    1: "float32", 6: "int32", 7: "int64", 8: "string", 9: "bool", 11: "float64", **NARROW
}  # fmt: skip
"""Types of ONNX that rows may have, by their numbers in TensorProto."""

Numbers = npt.NDArray[Any]


@dataclass(frozen=True)
class KnownTensor:
    """An array that does not depend on the rows; shapes of tensors may hold ``ROWS``."""

    data: Numbers


@dataclass(frozen=True)
class _OverRows:
    """Base of the values that have an entry for each row.

    Parameters
    ----------
    dims : tuple of int
        The shape, with 1 at the axis of the rows.
    axis : int
        Axis of the rows.
    """

    dims: tuple[int, ...]
    axis: int

    @property
    def width(self) -> int:
        """Entries of one row."""
        return prod(self.dims)

    @property
    def places(self) -> npt.NDArray[np.int32]:
        """Number of each entry of a row, in the shape of the tensor."""
        return np.arange(self.width, dtype=np.int32).reshape(self.dims)

    @property
    def shape(self) -> npt.NDArray[np.int64]:
        """The shape as ONNX computes it, with ``ROWS`` for the number of rows."""
        shape = np.array(self.dims, np.int64)
        shape[self.axis] = ROWS
        return shape

    def take(self, places: npt.NDArray[np.int32], axis: int) -> Any:
        """Return the tensor of these entries, whose rows are along an axis.

        Raises
        ------
        ConversionError
            There are more than ``MOST_OF_ROW``.
        """
        require_few(places.shape)
        moved = replace(self, dims=places.shape, axis=axis)
        # A new shape over the same entries needs no selection.
        if np.array_equal(places.ravel(), np.arange(self.width)):
            return moved
        return moved.select(places.ravel())

    def move(self, move: Callable[[Any], Any]) -> Any:
        """Return the tensor after a movement of entries that leaves the rows where they are."""
        return self.take(np.ascontiguousarray(move(self.places)), self.axis)

    def select(self, places: npt.NDArray[np.int32]) -> Any:
        """Return the same shape over other entries of the node."""
        raise NotImplementedError


@dataclass(frozen=True)
class RowTensor(_OverRows):
    """A tensor of numbers or bools."""

    node: Node

    @property
    def dtype(self) -> str:
        """Dtype of the numbers."""
        return self.node.type.dtype

    def select(self, places: npt.NDArray[np.int32]) -> RowTensor:
        """Return the same shape over other entries of the node."""
        return replace(self, node=Select(self.node, Array(places)))

    def of(self, node: Node) -> RowTensor:
        """Return a tensor of the same shape."""
        return replace(self, node=node)

    def cast(self, dtype: str) -> RowTensor:
        """Convert to a dtype of the containers."""
        return self if self.dtype == dtype else self.of(Cast(self.node, dtype))


@dataclass(frozen=True)
class NarrowTensor(RowTensor):
    """Ints of a type that no node has; the node holds them as int64.

    They are moved, compared, looked up and converted. Computed with, they would wrap around.
    """

    narrow: str

    def of(self, node: Node) -> RowTensor:
        """Return a tensor of the same shape, of the node's own dtype."""
        return RowTensor(self.dims, self.axis, node)

    def cast(self, dtype: str) -> RowTensor:
        """Convert to a dtype of the containers."""
        return self.of(self.node).cast(dtype)


@dataclass(frozen=True)
class LabelTensor(_OverRows):
    """Entries of a constant table, such as class labels; the node computes their int32 codes."""

    node: Node
    table: Array

    def select(self, places: npt.NDArray[np.int32]) -> LabelTensor:
        """Return the same shape over other entries of the node."""
        return replace(self, node=Select(self.node, Array(places)))

    @property
    def numbers(self) -> RowTensor:
        """The entries of a table of numbers."""
        narrow = self.table.dtype in NARROW.values()
        table = self.table.data.astype(np.int64) if narrow else self.table.data
        node = LookupRows(self.node, Array(table[:, None]))
        if narrow:
            return NarrowTensor(self.dims, self.axis, node, self.table.dtype)
        return RowTensor(self.dims, self.axis, node)

    def through(self, table: Numbers) -> LabelTensor:
        """Replace each entry of the table."""
        return replace(self, table=Array(table))

    def recode(self, codes: npt.NDArray[np.int32]) -> Node:
        """Return other codes, one for each entry of the table."""
        tables = (Array.of(np.append(-1, codes), np.int32),) * self.width
        return Recode(self.node, tables)


@dataclass(frozen=True)
class TextTensor(_OverRows):
    """Texts of the input; the node of each column is made where the known ones are.

    Parameters
    ----------
    columns : tuple of int
        Column of the schema of each entry.
    edits : tuple of tuples of (str, str)
        Texts of each entry that are replaced, and by what; () where none are.
    folded : {"", "ascii", "characters"}
        Which of their letters are in lower case, as ``Texts`` has it.
    """

    columns: tuple[int, ...]
    edits: tuple[tuple[tuple[str, str], ...], ...] = ()
    folded: Literal["", "ascii", "characters"] = ""

    @property
    def edits_of(self) -> list[dict[str, str]]:
        """What replaces the texts of each entry."""
        return [dict(edits) for edits in self.edits or ((),) * len(self.columns)]

    def select(self, places: npt.NDArray[np.int32]) -> TextTensor:
        """Return the same shape over other entries of the node."""
        columns = tuple(self.columns[i] for i in places.tolist())
        edits = tuple(self.edits[i] for i in places.tolist()) if self.edits else ()
        return replace(self, columns=columns, edits=edits)


@dataclass(frozen=True)
class TokenTensor:
    """Tokens of a column of texts: a row of each text, filled up to the longest by ``padding``."""

    column: int
    texts: Texts
    padding: str


@dataclass(frozen=True)
class MapList:
    """A list of dicts, one for each row: what ZipMap makes of a matrix."""

    values: RowTensor
    keys: Array


@dataclass(frozen=True)
class TensorList:
    """A sequence of matrices of one dtype: the answers of several targets."""

    values: tuple[RowTensor, ...]


@dataclass(frozen=True)
class MapRows:
    """Rows of the input that are mappings of names to numbers."""

    names: TypedMappings
    dtype: str


@dataclass(frozen=True)
class FlatTensor:
    """Entries in an order that has an axis for the rows, under a shape that has none.

    Such are rows put behind one another. A Reshape brings the axis back.
    """

    values: RowTensor | LabelTensor


Value = (
    KnownTensor
    | RowTensor
    | LabelTensor
    | TextTensor
    | TokenTensor
    | TensorList
    | MapList
    | MapRows
    | FlatTensor
)


def require_few(dims: Sequence[int]) -> None:
    """Refuse a tensor of too many entries of each row, before memory is asked for it."""
    if prod(dims) > MOST_OF_ROW:
        raise ConversionError(
            f"The ONNX file is damaged: it computes {prod(dims):g} numbers of each row. hbconv "
            f"takes up to {MOST_OF_ROW}."
        )


def ends_of(dtype: str) -> tuple[int, int]:
    """Return the least and largest int of a type that int64 holds too."""
    ends = np.iinfo(dtype)
    return int(ends.min), min(int(ends.max), np.iinfo(np.int64).max)


def holds_rows(value: Numbers) -> bool:
    """Whether a constant holds the number of rows, or something computed from it."""
    return value.dtype.kind == "i" and bool(np.any(np.abs(value) >= ROWS >> 1))


def constants(graph: Any) -> Iterator[tuple[str, Value]]:
    """Yield the initializers of a graph by name."""
    from onnx import numpy_helper

    if graph.sparse_initializer:
        raise UnsupportedError("initializer", "sparse", hint="Store it as a dense tensor.")
    for tensor in graph.initializer:
        yield tensor.name, KnownTensor(plain(numpy_helper.to_array(tensor)))


def plain(data: Any) -> Any:
    """Return texts as ``U`` strings, and everything else as it is."""
    array = np.asarray(data)
    if array.dtype.kind != "O":
        return array
    texts = [v.decode("utf-8") if isinstance(v, bytes) else str(v) for v in array.ravel()]
    return np.array(texts, str).reshape(array.shape)


def attribute_value(attribute: Any) -> Any:
    """Return an attribute of an operator; a tensor as an array."""
    from onnx import TensorProto, helper, numpy_helper

    value = helper.get_attribute_value(attribute)
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else value


def require_inside(graph: Any) -> None:
    """Refuse tensors whose data lie in another file, of which a model in memory has no folder.

    ``onnx.load`` reads them next to the file that it opens, and nowhere else.
    """
    for tensor in _tensors(graph):
        if tensor.data_location == tensor.EXTERNAL:
            hint = "Open the file by its path, or by onnx.load with its external data."
            raise UnsupportedError("tensor", tensor.name, "data_location", "EXTERNAL", hint)


def _tensors(graph: Any) -> Iterator[Any]:
    yield from graph.initializer
    for stored in graph.sparse_initializer:
        yield from (stored.values, stored.indices)
    for attribute in (each for node in graph.node for each in node.attribute):
        yield from (attribute.t, *attribute.tensors)
        for sparse in (attribute.sparse_tensor, *attribute.sparse_tensors):
            yield from (sparse.values, sparse.indices)
        if attribute.HasField("g"):
            yield from _tensors(attribute.g)
        for inner in attribute.graphs:
            yield from _tensors(inner)


MOST_ENTRIES = 1 << 26
"""Entries that a constant may have: a damaged file would ask for more memory than there is."""

_OF_SHAPES = frozenset(
    {"Gather", "Slice", "Concat", "Squeeze", "Unsqueeze", "Reshape", "Identity", "Cast", "Split"}
)
"""Operators that only move the entries of a shape."""

_BY_SIZE = frozenset(
    {"BlackmanWindow", "HammingWindow", "HannWindow", "MelWeightMatrix", "Resize", "Upsample",
     "CenterCropPad", "AffineGrid", "Col2Im", "Einsum", "GatherND", "MaxUnpool",
     "OneHot", "Scan", "SequenceMap"}
)  # fmt: skip
"""Operators whose constants may be of any size, which no model of this kind holds."""

_REFUSED = {
    "Loop": "hbconv reads no loops.",
    **dict.fromkeys(_BY_SIZE, "It makes a constant of any size. Store the constant instead."),
    **dict.fromkeys(
        (
            "Bernoulli",
            "Multinomial",
            "RandomNormal",
            "RandomNormalLike",
            "RandomUniform",
            "RandomUniformLike",
        ),
        "Answers that depend on chance cannot be repeated.",
    ),
}
"""Operators that are no constants though their inputs are, or may run without an end."""

_OF_TABLES = frozenset({"ArrayFeatureExtractor", "CategoryMapper", "LabelEncoder"})
"""Operators of ``ai.onnx.ml`` that exporters give constants."""

_GROWS = frozenset({"Expand", "Tile", "ConstantOfShape", "Range", "Pad"})


def fold(node: Any, inputs: list[Numbers | None], opsets: Mapping[str, int]) -> tuple[Numbers, ...]:
    """Return the outputs of an operator whose inputs are constants.

    Parameters
    ----------
    node : onnx.NodeProto
    inputs : list of array or None
    opsets : mapping
        Version of each domain.

    Raises
    ------
    UnsupportedError
        It computes with the number of rows or with chance, or holds a graph to run.
    ConversionError
        A constant is larger than memory allows.
    """
    from onnx.reference import ReferenceEvaluator

    arrays = [x for x in inputs if x is not None]
    if node.op_type in _REFUSED:
        raise UnsupportedError(
            node.op_type, node.name or node.output[0], hint=_REFUSED[node.op_type]
        )
    if node.domain == "ai.onnx.ml" and node.op_type not in _OF_TABLES:
        hint = "It computes a constant. Store that instead."
        raise UnsupportedError(node.op_type, node.name or node.output[0], hint=hint)
    if any(map(holds_rows, arrays)) and node.op_type not in _OF_SHAPES:
        name = node.name or node.output[0]
        raise UnsupportedError(
            node.op_type, name, "input 0", "number of rows", "Answers are computed row by row."
        )
    # Both before anything is computed: the process would run out of memory within numpy.
    _require_small(node, arrays)
    _require_inferred_small(node, arrays)
    feeds = {f"x{i}": x for i, x in enumerate(inputs) if x is not None}
    with np.errstate(all="ignore"):
        model = _model_of(node, inputs, opsets)
        return tuple(np.asarray(y) for y in ReferenceEvaluator(model).run(None, feeds))


def _model_of(node: Any, inputs: list[Numbers | None], opsets: Mapping[str, int]) -> Any:
    from onnx import NodeProto, helper

    alone = NodeProto()
    alone.CopyFrom(node)
    names = ["" if x is None else f"x{i}" for i, x in enumerate(inputs)]
    outputs = [f"y{i}" for i in range(len(node.output))]
    del alone.input[:]
    del alone.output[:]
    alone.input.extend(names)
    alone.output.extend(outputs)
    declared = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for name, x in zip(names, inputs, strict=True)
        if x is not None
    ]
    untyped = [helper.make_empty_tensor_value_info(name) for name in outputs]
    graph = helper.make_graph([alone], "constant", declared, untyped)
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    return helper.make_model(graph, opset_imports=imports)


def _require_inferred_small(node: Any, inputs: list[Numbers]) -> None:
    """Refuse an output that the sizes of the inputs may make too large, before it is computed.

    onnx infers shapes too, but ends the process over some damaged operators.
    """
    size = _PRODUCTS.get(node.op_type, _broadcast_size)(node, inputs) if inputs else 0
    if size > MOST_ENTRIES:
        raise _too_large(node, size)


def _broadcast_size(node: Any, inputs: list[Numbers]) -> int:  # noqa: ARG001
    try:
        return prod(np.broadcast_shapes(*(x.shape for x in inputs)))
    except ValueError:
        return sum(x.size for x in inputs)


def _product_size(node: Any, inputs: list[Numbers]) -> int:  # noqa: ARG001
    shared = inputs[0].shape[-1] if inputs[0].ndim else 1
    return prod(x.size // max(shared, 1) for x in inputs[:2])


def _gathered_size(node: Any, inputs: list[Numbers]) -> int:
    axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
    axis = -1 if node.op_type == "ArrayFeatureExtractor" else axis
    shape = inputs[0].shape
    size = shape[axis] if -len(shape) <= axis < len(shape) else 1
    return inputs[0].size // max(size, 1) * inputs[-1].size


def _joined_size(node: Any, inputs: list[Numbers]) -> int:  # noqa: ARG001
    return sum(x.size for x in inputs)


_PRODUCTS: Mapping[str, Callable[[Any, list[Numbers]], int]] = {
    "Concat": _joined_size,
    "MatMul": _product_size,
    "Gemm": _product_size,
    "Gather": _gathered_size,
    "ArrayFeatureExtractor": _gathered_size,
}
"""Sizes of outputs that are no broadcast of the inputs."""


def _too_large(node: Any, size: float) -> ConversionError:
    return ConversionError(
        f"The ONNX file is damaged: {node.op_type} (node {node.name!r:.100}) makes {size:g} "
        f"entries. hbconv takes up to {MOST_ENTRIES}."
    )


def _require_small(node: Any, inputs: list[Numbers]) -> None:
    if node.op_type not in _GROWS:
        return
    factors = [np.abs(x.astype(np.float64)) for x in inputs if x.dtype.kind in "if" and x.size]
    sizes = [float(np.prod(np.maximum(x, 1.0))) for x in factors[-1:]]
    size = max([1.0, *sizes]) * max([1, *(x.size for x in inputs[:1])])
    if not size <= MOST_ENTRIES:
        raise _too_large(node, size)
