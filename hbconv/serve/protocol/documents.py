"""Documents that tell of the server and its models, as the Open Inference Protocol names them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hbconv import __version__
from hbconv.serve.served_model import ServedModel

__all__ = ["EXTENSIONS", "model_document", "server_document"]

EXTENSIONS = ("binary_tensor_data", "model_repository")


def server_document() -> dict[str, Any]:
    """Tell of the server."""
    return {"name": "hbconv", "version": __version__, "extensions": list(EXTENSIONS)}


def model_document(served: ServedModel, versions: Iterable[str]) -> dict[str, Any]:
    """Tell of a model: its versions, inputs and outputs; -1 stands for the number of rows."""
    signature = served.signature
    return {
        "name": served.name,
        "versions": list(versions),
        "platform": "hbconv",
        "inputs": [
            {"name": one.name, "datatype": one.datatype, "shape": list(one.shape)}
            for one in signature.taken
        ],
        "outputs": [
            {"name": one.name, "datatype": one.datatype, "shape": list(one.shape)}
            for one in signature.given
        ],
    }
