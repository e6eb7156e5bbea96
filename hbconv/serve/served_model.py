"""Served models: a model with its name, version and signature, warm before it is asked."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.errors import InputError
from hbconv.model import Model
from hbconv.runtime.program import Key
from hbconv.runtime.program_choice import name_dtypes
from hbconv.serve.failures import RefusedError
from hbconv.serve.inference import Inference, Rows, form_input
from hbconv.serve.routes import Asked
from hbconv.serve.signature import DTYPES, InputTensor, ModelSignature, OutputTensor

__all__ = ["Answers", "ServedModel", "compute", "require_size", "warm"]

MOST_TEXT_BYTES = 1 << 20
"""Of texts that are computed together: what a model makes of them takes up to 32 times as much."""
Answers = Mapping[str, npt.NDArray[Any]]
"""Tensors by their names."""

_log = logging.getLogger("hbconv.serve")
QUICK_SECONDS = 0.0005
"""A batch that takes no longer is computed between two requests, without a thread."""
MOST_QUICK_ROWS = 256


def require_size(size: int, most_bytes: int) -> None:
    """Refuse to compute answers that take too many bytes.

    Raises
    ------
    RefusedError
        They exceed what the server sends at once.
    """
    if size > most_bytes:
        raise RefusedError(
            400,
            "TooLarge",
            f"The answer takes up to {size:,} bytes, and the server sends {most_bytes:,} at once. "
            "Send fewer rows, or ask for fewer outputs.",
        )


def compute(
    model: Model, signature: ModelSignature, rows: Rows, wanted: Collection[OutputTensor]
) -> Answers:
    """Call the methods of some tensors, for some of the rows at a time where their texts are long.

    Raises
    ------
    InputError
        The source model refuses the rows.
    """
    parts: list[Answers] = []
    first = 0
    for part in rows.parts(MOST_TEXT_BYTES):
        try:
            parts.append(_compute_part(model, signature, part, wanted))
        except InputError as error:
            # Rows in messages count from the part, so a request of several parts says where it is.
            if part.count == rows.count:
                raise
            message = f"{error} Rows are counted from row {first} of the request."
            raise InputError(message) from error
        first += part.count
    if len(parts) == 1:
        return parts[0]
    return {tensor.name: np.concatenate([part[tensor.name] for part in parts]) for tensor in wanted}


def _compute_part(
    model: Model, signature: ModelSignature, rows: Rows, wanted: Collection[OutputTensor]
) -> Answers:
    x = form_input(signature, rows)
    by_method: dict[str, Any] = {}
    for tensor in wanted:
        # Several tensors may be parts of one method, which is called once.
        if tensor.method not in by_method:
            by_method[tensor.method] = getattr(model, tensor.method)(x)
    return {tensor.name: _tensor(tensor, by_method[tensor.method], rows.count) for tensor in wanted}


def _tensor(tensor: OutputTensor, output: Any, count: int) -> npt.NDArray[Any]:
    """Return one part of an output, dense and in the shape of the metadata."""
    # A source may return another shape and dtype for no rows.
    if not count:
        return np.empty((0, *tensor.shape[1:]), DTYPES[tensor.datatype])
    part = output if tensor.part is None else output[tensor.part]
    array = np.asarray(part.toarray() if hasattr(part, "toarray") else part)
    return array if array.ndim == len(tensor.shape) else array.reshape(count, *tensor.shape[1:])


@dataclass(frozen=True)
class ServedModel:
    """A model that is ready to be asked.

    Parameters
    ----------
    name, version : str
    model : Model
    signature : ModelSignature
    quick_rows : int
        Number of rows that all methods but those on demand answer within ``QUICK_SECONDS``.
    is_joined : bool
        Requests may share a call: no row's answer depends on the others.
    """

    name: str
    version: str
    model: Model
    signature: ModelSignature
    quick_rows: int
    is_joined: bool = True

    @property
    def asked(self) -> Asked:
        """What requests for it are counted and logged as."""
        return Asked(self.name, self.version)

    def is_quick(self, rows: int, requests: Iterable[Inference]) -> bool:
        """Whether requests of so many rows are answered without a thread."""
        asked_on_demand = any(
            tensor.on_demand for inference in requests for tensor in inference.wanted
        )
        return rows <= self.quick_rows and not asked_on_demand


def warm(name: str, version: str, model: Model, methods: Collection[str] = ()) -> ServedModel:
    """Compile the methods of a model, and time how many rows it answers at once.

    Those on demand, such as contributions, are compiled at the first request for them, unless they
    are named. The model returns arrays from now on, whatever tables it was made to return.

    Parameters
    ----------
    name, version : str
    model : Model
    methods : collection of str
        What is served, as far as the model has it; all that it has where there is none.

    Raises
    ------
    OptionError
        The model has none of the methods.
    """
    # Frames would have to be taken apart again for each response.
    if hasattr(model, "set_output"):
        model.set_output(transform="default")
    signature = ModelSignature.of(model).only(methods)
    named = [tensor.method for tensor in signature.outputs if methods]
    stored = model.programs.known
    began = time.perf_counter()
    # The rows are made up, so what the model warns of them would mislead.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # A model of mappings reads none of the texts made here.
        with suppress(InputError):
            model.compile(form_input(signature, _some_rows(signature, 1)), named)
        if stored:
            _name_compiled(f"{name} {version}", model, stored, time.perf_counter() - began)
        quick = _quick_rows(model, signature)
    is_joined = not model.parsed.answers_together
    return ServedModel(name, version, model, signature, quick, is_joined)


def _name_compiled(name: str, model: Model, stored: Collection[Key], seconds: float) -> None:
    """Warn of methods that the file holds programs for, but not of the dtypes that are served."""
    compiled = [key for key in model.programs.compiled if key not in stored]
    if not compiled:
        return
    _log.warning(
        "%s: no stored program answers %s of %s, as served: compiled on %s in %.1f s. "
        "Save the model after model.compile(rows) of these dtypes.",
        name,
        ", ".join(method for methods, _, _ in compiled for method in methods),
        name_dtypes(compiled[0][1], sorted(model.reads.numbers)),
        model.programs.backend,
        seconds,
    )


def _quick_rows(model: Model, signature: ModelSignature) -> int:
    """Find how many rows the methods together answer quickly; 0 where they refuse the rows.

    Texts are never quick: a longer one than any before may compile.
    """
    if signature.feeds == "items":
        return 0
    quick, rows = 0, 1
    try:
        # The first call may compile, or refuse the rows, so it is not timed.
        compute(model, signature, _some_rows(signature, rows), signature.ready)
        while rows <= MOST_QUICK_ROWS and _seconds(model, signature, rows) <= QUICK_SECONDS:
            quick, rows = rows, rows * 4
    except InputError:
        return 0
    return quick


def _seconds(model: Model, signature: ModelSignature, rows: int) -> float:
    """Time the methods, the second time: the first one may fill caches."""
    sample = _some_rows(signature, rows)
    compute(model, signature, sample, signature.ready)
    began = time.perf_counter()
    compute(model, signature, sample, signature.ready)
    return time.perf_counter() - began


def _some_rows(signature: ModelSignature, count: int) -> Rows:
    """Make rows of zeros and of texts."""
    return Rows(count, tuple(_values(tensor, count) for tensor in signature.inputs))


def _values(tensor: InputTensor, count: int) -> np.ndarray[Any, Any]:
    if tensor.dtype == "string":
        return np.full(count, "a", dtype=object)
    return np.zeros(count if tensor.width is None else (count, tensor.width), tensor.dtype)
