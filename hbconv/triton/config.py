"""``config.pbtxt``: what Triton must know of a model, as the text form of a protobuf message."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from hbconv.errors import BackendError

__all__ = ["MAX_BATCH_ROWS", "ModelConfig", "TritonTensor"]

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
