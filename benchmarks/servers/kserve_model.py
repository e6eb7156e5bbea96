"""A saved model behind KServe's own server: ``python kserve_model.py FILE NAME PORT``."""

import sys

from kserve import InferOutput, InferRequest, InferResponse, Model, ModelServer

import hbconv


class SavedModel(Model):
    """Answers tensors with the labels of their rows."""

    def __init__(self, name: str, file: str) -> None:
        super().__init__(name)
        self.model = hbconv.load(file, trusted=True)
        self.ready = True

    async def predict(self, payload: InferRequest, *others: object) -> InferResponse:  # noqa: ARG002
        """Answer a request."""
        found = self.model.predict(payload.inputs[0].as_numpy())
        output = InferOutput("predict", list(found.shape), "INT64", found.tolist())
        return InferResponse(payload.id or "", self.name, [output])


if __name__ == "__main__":
    file, name, port = sys.argv[1:]
    ModelServer(
        http_port=int(port), enable_grpc=False, enable_latency_logging=False, access_log_format=""
    ).start([SavedModel(name, file)])
