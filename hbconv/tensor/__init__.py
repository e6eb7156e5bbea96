"""The tensor DAG: what every container lowers to and every backend takes."""

from hbconv.tensor.builder import Builder, SparseRows, Value
from hbconv.tensor.primitives import ELEMENTWISE, PRIMITIVES, OpKind, Primitive
from hbconv.tensor.program import (
    Constant,
    Input,
    Op,
    ProgramTypes,
    TensorProgram,
    show_program,
    verify_program,
)
from hbconv.tensor.types import TensorType

__all__ = [
    "ELEMENTWISE",
    "PRIMITIVES",
    "Builder",
    "Constant",
    "Input",
    "Op",
    "OpKind",
    "Primitive",
    "ProgramTypes",
    "SparseRows",
    "TensorProgram",
    "TensorType",
    "Value",
    "show_program",
    "verify_program",
]
