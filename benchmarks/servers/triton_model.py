"""A saved model in Triton's python backend, with no more around it than the backend asks for."""

from pathlib import Path

import numpy as np
import triton_python_backend_utils as triton

import hbconv


class TritonPythonModel:
    """Answers all requests of a batch by one call."""

    def initialize(self, args: dict[str, str]) -> None:
        """Load the model that lies beside this file."""
        folder = Path(args["model_repository"], args["model_version"])
        self.model = hbconv.load(folder / "model.hbc", trusted=True)

    def execute(self, requests: list) -> list:
        """Answer the rows of all requests."""
        rows = [triton.get_input_tensor_by_name(one, "X").as_numpy() for one in requests]
        found = self.model.predict(rows[0] if len(rows) == 1 else np.concatenate(rows))
        parts = np.split(found[:, None], np.cumsum([len(one) for one in rows])[:-1])
        return [triton.InferenceResponse([triton.Tensor("predict", part)]) for part in parts]
