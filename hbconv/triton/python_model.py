"""Run in Triton's python backend: a saved model that predicts batches of requests.

``1/model.py`` of an exported repository imports ``TritonPythonModel`` from here.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hbconv.errors import HbconvError
from hbconv.model import Model, load
from hbconv.triton.rows import RowReader, answer_array

__all__ = ["TritonPythonModel"]


class TritonPythonModel:
    """The class that Triton's python backend makes for each instance of a model.

    A request that the model refuses gets an error, and the others in its batch get their outputs.
    """

    def initialize(self, args: dict[str, str]) -> None:
        """Load ``model.hbc`` next to ``model.py``, for the device of the instance."""
        import triton_python_backend_utils as backend

        self.backend = backend
        folder = Path(args["model_repository"]) / args["model_version"]
        on_gpu = args["model_instance_kind"] == "GPU"
        device = f"cuda:{args['model_instance_device_id']}" if on_gpu else "cpu"
        self.model: Model = load(folder / "model.hbc", device=device)
        self.reader = RowReader.of(self.model)
        config = json.loads(args["model_config"])
        self.dtypes = {
            output["name"]: backend.triton_string_to_numpy(output["data_type"])
            for output in config["output"]
        }

    def execute(self, requests: list[Any]) -> list[Any]:
        """Answer requests together, or each by itself where the model refuses one of them."""
        if len(requests) > 1 and self.model.parsed.answers_together:
            return self._each(requests)
        try:
            inputs = [self._inputs(request) for request in requests]
            methods = sorted({m for request in requests for m in request.requested_output_names()})
            counts = np.cumsum([len(next(iter(rows.values()))) for rows in inputs])
            joined = {name: np.concatenate([g[name] for g in inputs]) for name in inputs[0]}
            answers = self._answers(joined, methods)
        except (HbconvError, ValueError) as error:
            if len(requests) == 1:
                return [self._refusal(error)]
            return self._each(requests)
        parts = {m: np.split(values, counts[:-1]) for m, values in answers.items()}
        return [self._response(request, parts, i) for i, request in enumerate(requests)]

    def _each(self, requests: list[Any]) -> list[Any]:
        return [response for request in requests for response in self.execute([request])]

    def _inputs(self, request: Any) -> dict[str, npt.NDArray[Any]]:
        get = self.backend.get_input_tensor_by_name
        return {name: get(request, name).as_numpy() for name in self.reader.names}

    def _answers(
        self, inputs: dict[str, npt.NDArray[Any]], methods: list[str]
    ) -> dict[str, npt.NDArray[Any]]:
        with warnings.catch_warnings():
            # A server has no user to warn, and each batch would repeat the warning.
            warnings.simplefilter("ignore")
            rows = self.reader.read(inputs)
            return {
                method: answer_array(self.model, method, rows, self.dtypes[method])
                for method in methods
            }

    def _response(self, request: Any, parts: dict[str, list[Any]], number: int) -> Any:
        tensors = [
            self.backend.Tensor(name, np.ascontiguousarray(parts[name][number]))
            for name in request.requested_output_names()
        ]
        return self.backend.InferenceResponse(output_tensors=tensors)

    def _refusal(self, error: Exception) -> Any:
        return self.backend.InferenceResponse(
            output_tensors=[], error=self.backend.TritonError(str(error))
        )
