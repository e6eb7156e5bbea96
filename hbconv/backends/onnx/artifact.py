"""OnnxArtifact: an ONNX Runtime session on a program."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import onnxruntime

from hbconv.backends.base import Artifact, contiguous
from hbconv.backends.tvm.binary.loop import share
from hbconv.errors import BackendError

if TYPE_CHECKING:
    from hbconv.backends.base import Arrays
    from hbconv.target import Target

__all__ = ["OnnxArtifact"]

MIN_ROWS_PER_THREAD = 256
"""Rows that are worth a thread."""

ERRORS_ONLY = 3


class OnnxArtifact(Artifact):
    """Runs a serialized program.

    The session has one thread. With more, ONNX Runtime adds up blocks of trees separately, and the
    order of the sum is lost. Instead, ``target.threads`` threads share the rows.
    """

    def __init__(self, model: bytes, target: Target) -> None:
        self.model = model
        self.threads = target.threads
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = ERRORS_ONLY
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        try:
            self.session = onnxruntime.InferenceSession(
                model, options, providers=["CPUExecutionProvider"]
            )
        # ONNX Runtime has its own classes of errors, with no public base.
        except Exception as error:
            raise BackendError(
                f"ONNX Runtime does not take the program: {error}. "
                "Use another backend, such as backend='torch'."
            ) from error
        self.outputs = [o.name for o in self.session.get_outputs()]

    def run(self, inputs: Arrays) -> dict[str, npt.NDArray[Any]]:
        """Run the session, on parts of the rows if there are threads for them."""
        rows = len(next(iter(inputs.values())))
        parts = max(1, min(self.threads, rows // MIN_ROWS_PER_THREAD))
        if parts == 1:
            return self._run(inputs)
        bounds = np.linspace(0, rows, parts + 1).astype(int)
        results = [dict[str, npt.NDArray[Any]]()] * parts

        def task(part: int) -> None:
            results[part] = self._run(
                {name: x[bounds[part] : bounds[part + 1]] for name, x in inputs.items()}
            )

        share([partial(task, part) for part in range(parts)], self.threads)
        return {name: np.concatenate([r[name] for r in results]) for name in self.outputs}

    def files(self) -> dict[str, bytes]:
        """Store the model."""
        return {"model.onnx": self.model}

    def _run(self, inputs: Arrays) -> dict[str, npt.NDArray[Any]]:
        values = self.session.run(self.outputs, {name: contiguous(x) for name, x in inputs.items()})
        return dict(zip(self.outputs, values, strict=True))
