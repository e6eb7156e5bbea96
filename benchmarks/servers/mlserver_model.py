"""A saved model as a runtime of MLServer."""

from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse

import hbconv


class SavedModel(MLModel):
    """Answers tensors with the labels of their rows."""

    async def load(self) -> bool:
        """Load the file that the settings name."""
        self.model = hbconv.load(self.settings.parameters.uri, trusted=True)
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        """Answer a request."""
        rows = NumpyCodec.decode_input(payload.inputs[0])
        found = NumpyCodec.encode_output("predict", self.model.predict(rows))
        return InferenceResponse(model_name=self.name, outputs=[found])
