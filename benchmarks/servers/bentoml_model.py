"""A saved model as a service of BentoML; the variable ``MODEL`` names the file."""

import os

import bentoml
import numpy as np

import hbconv


@bentoml.service
class SavedModel:
    """Answers rows with their labels."""

    def __init__(self) -> None:
        self.model = hbconv.load(os.environ["MODEL"], trusted=True)

    @bentoml.api
    async def predict(self, rows: np.ndarray) -> np.ndarray:
        """Answer a request."""
        return self.model.predict(rows)
