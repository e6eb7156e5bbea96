"""OpenAPI: a description of all routes, made from the signatures of the models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hbconv import __version__
from hbconv.serve.datatypes import BYTES
from hbconv.serve.served_model import ServedModel
from hbconv.serve.signature import Given, ModelSignature, Taken

__all__ = ["openapi_document"]

_NUMBER = {"anyOf": [{"type": "number"}, {"enum": ["NaN", "Infinity", "-Infinity", None]}]}
_TEXT = {"type": ["string", "null"]}


def openapi_document(models: Sequence[ServedModel], *, secured: bool) -> dict[str, Any]:
    """Describe the routes of some models, and those of the server."""
    paths: dict[str, Any] = {}
    for served in models:
        version = f"/versions/{served.version}"
        paths[f"/v1/models/{served.name}{version}:predict"] = {"post": _predict(served)}
        paths[f"/v2/models/{served.name}{version}/infer"] = {"post": _infer(served)}
        paths[f"/v2/models/{served.name}{version}"] = {"get": _plain("Tell of the model")}
    for path, summary in {
        "/v2": "Tell of the server",
        "/v2/health/live": "Tell that the server runs",
        "/v2/health/ready": "Tell whether the server takes requests",
        "/metrics": "Tell what was counted, for Prometheus",
    }.items():
        paths[path] = {"get": _plain(summary)}
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "hbconv", "version": __version__},
        "paths": paths,
    }
    if secured:
        document["components"] = {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}
        }
        document["security"] = [{"token": []}]
    return document


def _plain(summary: str) -> dict[str, Any]:
    return {"summary": summary, "responses": {"200": {"description": "Told"}}}


def _predict(served: ServedModel) -> dict[str, Any]:
    signature = served.signature
    body = _object(
        {
            "instances": {"type": "array", "items": _record(signature)},
            "outputs": {"type": "array", "items": {"enum": [one.name for one in signature.given]}},
        },
        ["instances"],
    )
    answer = {"predictions": {"type": "array", "items": {"type": "object"}}}
    example = {"instances": [_example_record(signature)]}
    summary = f"Answer records by {served.name}, version {served.version}"
    return _operation(summary, body, example, _object(answer, ["predictions"]))


def _infer(served: ServedModel) -> dict[str, Any]:
    signature = served.signature
    tensor = {
        "name": {"type": "string"},
        "datatype": {"type": "string"},
        "shape": {"type": "array", "items": {"type": "integer", "minimum": 0}},
        "data": {"type": "array"},
    }
    names = {"enum": [one.name for one in signature.given]}
    body = _object(
        {
            "id": {"type": "string"},
            "inputs": {"type": "array", "items": _object(tensor, list(tensor))},
            "outputs": {"type": "array", "items": _object({"name": names}, ["name"])},
        },
        ["inputs"],
    )
    first = signature.given[:1]
    example = {
        "inputs": [_example_tensor(one) for one in signature.taken],
        "outputs": [{"name": one.name} for one in first],
    }
    answer = {"outputs": {"type": "array", "items": _object(tensor, list(tensor))}}
    summary = f"Answer tensors by {served.name}, version {served.version} (Open Inference Protocol)"
    return _operation(summary, body, example, _object(answer, ["outputs"]))


def _operation(summary: str, body: Any, example: Any, answer: Any) -> dict[str, Any]:
    content = {"application/json": {"schema": body, "example": example}}
    error = _object({"error": {"type": "string"}}, ["error"])
    return {
        "summary": summary,
        "requestBody": {"required": True, "content": content},
        "responses": {
            "200": {"description": "Answers", "content": {"application/json": {"schema": answer}}},
            "400": {"description": "Refused", "content": {"application/json": {"schema": error}}},
            "503": {"description": "Busy: come again after the seconds of Retry-After"},
        },
    }


def _object(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required}


def _record(signature: ModelSignature) -> dict[str, Any]:
    """Return the schema of one record."""
    if signature.feeds == "matrix":
        width = signature.taken[0].width
        return {"type": "array", "items": _NUMBER, "minItems": width, "maxItems": width}
    kinds = [_TEXT if one.datatype == BYTES else _NUMBER for one in signature.taken]
    if signature.feeds in ("values", "items"):
        return dict(kinds[0])
    if signature.feeds == "positions":
        return {"type": "array", "prefixItems": kinds, "minItems": len(kinds)}
    names = [one.name for one in signature.taken]
    return _object(dict(zip(names, kinds, strict=True)), names)


def _example_record(signature: ModelSignature) -> Any:
    values = [_example(one) for one in signature.taken]
    if signature.feeds == "matrix":
        return [0.0] * (signature.taken[0].width or 0)
    if signature.feeds in ("values", "items"):
        return values[0]
    if signature.feeds == "positions":
        return values
    return {one.name: value for one, value in zip(signature.taken, values, strict=True)}


def _example(one: Taken | Given) -> Any:
    return "text" if one.datatype == BYTES else 0.0 if one.datatype.startswith("FP") else 0


def _example_tensor(taken: Taken) -> dict[str, Any]:
    shape = [1] if taken.width is None else [1, taken.width]
    data = [_example(taken)] * (taken.width or 1)
    return {"name": taken.name, "datatype": taken.datatype, "shape": shape, "data": data}
