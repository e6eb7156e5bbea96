"""GraphWriter: collects nodes and constants of an ONNX graph; and what a file declares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt
import onnx
from google.protobuf.message import EncodeError  # type: ignore[import-untyped]
from onnx import helper, numpy_helper

from hbconv import __version__
from hbconv.array import Array
from hbconv.errors import BackendError
from hbconv.tensor import TensorType

__all__ = ["DTYPES", "GraphWriter", "Tensor", "read_signature"]

ML = "ai.onnx.ml"
OPSET, ML_OPSET, IR_VERSION = 20, 5, 10
MAX_BYTES = 2**31 - 1
"""Bytes that one protobuf message may hold."""

DTYPES: dict[str, int] = {
    "float16": onnx.TensorProto.FLOAT16,
    "float32": onnx.TensorProto.FLOAT,
    "float64": onnx.TensorProto.DOUBLE,
    "int8": onnx.TensorProto.INT8,
    "int16": onnx.TensorProto.INT16,
    "int32": onnx.TensorProto.INT32,
    "int64": onnx.TensorProto.INT64,
    "uint8": onnx.TensorProto.UINT8,
    "uint16": onnx.TensorProto.UINT16,
    "uint32": onnx.TensorProto.UINT32,
    "uint64": onnx.TensorProto.UINT64,
    "bool": onnx.TensorProto.BOOL,
    "string": onnx.TensorProto.STRING,
}


@dataclass(frozen=True)
class Tensor:
    """A named value of the graph; ``value`` holds the content of a constant."""

    name: str
    type: TensorType
    value: npt.NDArray[Any] | None = None

    @property
    def dtype(self) -> str:
        """Dtype name."""
        return self.type.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Static shape, without the rows."""
        return self.type.shape


class GraphWriter:
    """Appends nodes under fresh names; equal constants and equal nodes are written once.

    Parameters
    ----------
    reserved : sequence of str
        Names of the inputs and outputs, which no other value may take.
    """

    def __init__(self, reserved: Sequence[str] = ()) -> None:
        self.source = ""
        self._names = set(reserved)
        self._node_names: set[str] = set()
        self._read: set[str] = set()
        self._nodes: list[onnx.NodeProto] = []
        self._known: dict[tuple[str, tuple[str, ...], str], str] = {}
        self._constants: dict[str, onnx.TensorProto] = {}
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []
        self._is_inner = False

    def node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Append a core operator and return its result's name."""
        # Attributes may be lists or protobuf messages, which do not hash.
        key = (operator, inputs, repr(attributes))
        if key not in self._known:
            self._known[key] = self.named_node(
                self.fresh(operator), operator, *inputs, **attributes
            )
        return self._known[key]

    def named_node(
        self,
        output: str,
        operator: str,
        *inputs: str,
        name: str = "",
        domain: str = "",
        **attributes: Any,
    ) -> str:
        """Append a node whose result has the given name.

        The node itself has the same name unless ``name`` is given, and a number if that is taken.
        """
        self._append(
            helper.make_node(
                operator,
                inputs,
                [output],
                self._node_name(name or output),
                self.source,
                domain,
                **attributes,
            )
        )
        return output

    def ml_node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Append an operator of ``ai.onnx.ml`` and return its result's name."""
        return self.named_node(self.fresh(operator), operator, *inputs, domain=ML, **attributes)

    def several(
        self, outputs: Sequence[str], operator: str, *inputs: str, **attributes: Any
    ) -> None:
        """Append an operator of several results, whose names are given."""
        name = self._node_name(outputs[0])
        self._append(helper.make_node(operator, inputs, outputs, name, self.source, **attributes))

    def topk(self, name: str, k: int, axis: int) -> tuple[str, str]:
        """Append TopK; return the names of the smallest values, ascending, and their positions."""
        names = self.fresh("smallest"), self.fresh("positions")
        count = self.constant([k], "int64")
        self.several(names, "TopK", name, count, axis=axis, largest=0, sorted=1)
        return names

    def constant(self, value: npt.ArrayLike, dtype: str | None = None) -> str:
        """Store a constant (text where its dtype is ``U``) and return its name."""
        array = Array.of(value, dtype)
        if array.key not in self._constants:
            data = array.data.astype(object) if array.data.dtype.kind == "U" else array.data
            self._constants[array.key] = numpy_helper.from_array(data, self.fresh("constant"))
        return str(self._constants[array.key].name)

    def cast(self, name: str, dtype: str) -> str:
        """Append a conversion."""
        return self.node("Cast", name, to=DTYPES[dtype])

    def rows(self, name: str) -> str:
        """Append the row count of a value, as a vector of one."""
        return self.node("Shape", name, start=0, end=1)

    def input(self, name: str, dtype: str, width: int, doc: str = "") -> str:
        """Declare an input of (n, width)."""
        self._inputs.append(helper.make_tensor_value_info(name, DTYPES[dtype], ["n", width], doc))
        return name

    def output(self, name: str, dtype: str, shape: tuple[int, ...], doc: str = "") -> None:
        """Declare an output of (n, *shape)."""
        self._outputs.append(helper.make_tensor_value_info(name, DTYPES[dtype], ["n", *shape], doc))

    def model(self, name: str, doc: str = "", metadata: Mapping[str, str] | None = None) -> bytes:
        """Close the graph and serialize it; more than 2 GB is refused."""
        graph = self.graph(name, self._inputs, self._outputs, doc)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(ML, ML_OPSET)]
        model = helper.make_model(
            graph,
            opset_imports=opsets,
            ir_version=IR_VERSION,
            producer_name="hbconv",
            producer_version=__version__,
        )
        helper.set_model_props(model, dict(metadata or {}))
        try:
            serialized: bytes = model.SerializeToString()
        except (EncodeError, ValueError) as error:
            raise too_large() from error
        if len(serialized) > MAX_BYTES:
            raise too_large()
        return serialized

    def inner(self) -> GraphWriter:
        """Return a writer of a graph inside this one.

        It may read names of this graph, and does not define them again. Its constants are those of
        the whole graph, where equal ones are written once.
        """
        inner = GraphWriter()
        inner._names = self._names
        inner._node_names = self._node_names
        inner._read = self._read
        inner._constants = self._constants
        inner._is_inner = True
        inner.source = self.source
        return inner

    def choice(
        self,
        condition: str,
        then: tuple[GraphWriter, Sequence[Tensor]],
        otherwise: tuple[GraphWriter, Sequence[Tensor]],
    ) -> list[Tensor]:
        """Append If, which runs one of two inner graphs; each is given with its results.

        The number of rows has no name: it may be another than that of the model's rows, and ONNX
        Runtime takes all memory of "n" rows to be of one size.
        """
        branches = [
            inner.graph(self.fresh("branch"), [], list(map(_declare, results)))
            for inner, results in (then, otherwise)
        ]
        names = [self.fresh("If") for _ in then[1]]
        self.several(names, "If", condition, then_branch=branches[0], else_branch=branches[1])
        return [Tensor(name, of.type) for name, of in zip(names, then[1], strict=True)]

    def scan(
        self,
        body: tuple[GraphWriter, Sequence[Tensor], Sequence[Tensor]],
        given: Sequence[str],
        scan_input_axes: list[int],
        **attributes: Any,
    ) -> list[str]:
        """Append Scan, which runs an inner graph once for each entry along an axis.

        The body is a writer, what it reads, and its results. ``given`` has what it reads from this
        graph: its states first, then what is taken apart along ``scan_input_axes``.
        """
        inner, read, results = body
        infos = list(map(_declare, (*read, *results)))
        names = [self.fresh("Scan") for _ in results]
        self.several(
            names,
            "Scan",
            *given,
            body=inner.graph(self.fresh("body"), infos[: len(read)], infos[len(read) :]),
            num_scan_inputs=len(scan_input_axes),
            scan_input_axes=scan_input_axes,
            **attributes,
        )
        return names

    def graph(
        self,
        name: str,
        inputs: Sequence[onnx.ValueInfoProto],
        outputs: Sequence[onnx.ValueInfoProto],
        doc: str = "",
    ) -> onnx.GraphProto:
        """Close the graph, without constants that no node reads: a runtime would warn of each."""
        constants = [
            constant
            for constant in self._constants.values()
            if constant.name in self._read and not self._is_inner
        ]
        return helper.make_graph(self._nodes, name, inputs, outputs, constants, doc)

    def _append(self, node: onnx.NodeProto) -> None:
        self._nodes.append(node)
        self._read.update(node.input)

    def _node_name(self, wanted: str) -> str:
        """Return the name wanted, with a number at its end if a node has it.

        Runtimes refuse a graph with two nodes of one name.
        """
        name = wanted
        number = 1
        while name in self._node_names:
            number += 1
            name = f"{wanted} ({number})"
        self._node_names.add(name)
        return name

    def fresh(self, hint: str) -> str:
        """Return an unused name."""
        number = len(self._names)
        while (name := f"{hint}_{number}") in self._names:
            number += 1
        self._names.add(name)
        return name


def _declare(value: Tensor) -> onnx.ValueInfoProto:
    """Declare a value of an inner graph."""
    shape = [None, *value.shape] if value.type.rows else value.shape
    return helper.make_tensor_value_info(value.name, DTYPES[value.dtype], shape)


def too_large() -> BackendError:
    """Return the error for a model that no single ONNX file can hold."""
    return BackendError(
        "The model takes more than 2 GB, which one ONNX file cannot hold. "
        "Use another backend, such as backend='torch'."
    )


Signature = list[tuple[str, str, tuple[int, ...]]]
"""Name, dtype, and shape of one row of each tensor."""


def read_signature(model: bytes) -> tuple[Signature, Signature]:
    """Return the inputs and the outputs of a model whose first dimension is the rows."""
    graph = onnx.load_model_from_string(model).graph
    return _tensors(graph.input), _tensors(graph.output)


def _tensors(values: list[onnx.ValueInfoProto]) -> Signature:
    names = {code: name for name, code in DTYPES.items()}
    tensors = []
    for value in values:
        kind = value.type.tensor_type
        shape = tuple(dim.dim_value for dim in kind.shape.dim[1:])
        tensors.append((value.name, names[kind.elem_type], shape))
    return tensors
