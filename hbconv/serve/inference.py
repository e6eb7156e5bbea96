"""Inference: one request of any protocol, once it is read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hbconv.errors import InputError
from hbconv.names import unknown
from hbconv.serve.rows import Rows
from hbconv.serve.signature import Given, ModelSignature

__all__ = ["Inference", "choose_outputs"]


@dataclass(slots=True)
class Inference:
    """Rows, and the tensors wanted for them.

    Parameters
    ----------
    rows : Rows
    wanted : tuple of Given
    id : str
        What the client calls the request; empty where it does not.
    binary : frozenset of str
        Names of the tensors that the client wants in binary form.
    """

    rows: Rows
    wanted: tuple[Given, ...]
    id: str = ""
    binary: frozenset[str] = frozenset()

    @property
    def width(self) -> int:
        """Number of values that answer a row."""
        return sum([one.width for one in self.wanted])

    @property
    def answer_bytes(self) -> int:
        """Bytes of the tensors of its answer."""
        return 8 * self.rows.count * self.width


def choose_outputs(signature: ModelSignature, names: Iterable[str]) -> tuple[Given, ...]:
    """Find tensors that the model gives; the usual ones where a request of any protocol names none.

    Raises
    ------
    OptionError
        The model does not give one of them.
    InputError
        One is named twice.
    """
    wanted = tuple(names)
    if not wanted:
        return signature.usual
    known = signature.outputs
    for name in wanted:
        if name not in known:
            raise unknown("output", name, known)
    if len(set(wanted)) < len(wanted):
        raise InputError("An output is named twice.")
    return tuple([known[name] for name in wanted])
