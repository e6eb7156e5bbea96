"""The tensor DAG: what every container lowers to and every backend takes."""

from hbconv.tensor import iterate as _iterate  # noqa: F401
from hbconv.tensor.builder import Builder, Value
from hbconv.tensor.primitives import PRIMITIVES, Primitive, TensorType
from hbconv.tensor.program import Constant, Input, Op, TensorProgram, show_program
from hbconv.tensor.sparse_rows import SparseRows
from hbconv.tensor.verify import verify_program

__all__ = [
    "PRIMITIVES",
    "Builder",
    "Constant",
    "Input",
    "Op",
    "Primitive",
    "SparseRows",
    "TensorProgram",
    "TensorType",
    "Value",
    "show_program",
    "verify_program",
]
