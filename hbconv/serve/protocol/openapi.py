"""OpenAPI: the description of all routes, from their table and the signatures of the models."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hbconv import __version__
from hbconv.serve.batching import order_versions
from hbconv.serve.routes import ROUTES, Route
from hbconv.serve.served_model import ServedModel
from hbconv.serve.signature import BYTES, InputTensor, ModelSignature, OutputTensor

__all__ = ["openapi_document"]

_NUMBER = {"anyOf": [{"type": "number"}, {"enum": ["NaN", "Infinity", "-Infinity", None]}]}
_TEXT = {"type": ["string", "null"]}


def openapi_document(
    models: Mapping[str, Mapping[str, ServedModel]], *, secured: bool
) -> dict[str, Any]:
    """Describe each route of the table, those of models for each model, too.

    Parameters
    ----------
    models : mapping
        The versions of each model.
    secured : bool
        The server has a token.
    """
    paths = {
        path: {route.method.lower(): _describe(route, path, served, secured=secured)}
        for route in ROUTES
        for path, served in _paths(route, models)
    }
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


def _paths(
    route: Route, models: Mapping[str, Mapping[str, ServedModel]]
) -> Iterator[tuple[str, ServedModel | None]]:
    """Return the paths of a route, each with the model that answers there."""
    for path in route.paths:
        if "{model}" not in path:
            # Such a path asks the only model.
            if not route.asks_model:
                yield path, None
            elif len(models) == 1:
                (versions,) = models.values()
                yield path, versions[order_versions(versions)[-1]]
            continue
        for name, versions in models.items():
            answering = versions if "{version}" in path else order_versions(versions)[-1:]
            for version in answering:
                yield path.format(model=name, version=version), versions[version]


def _describe(
    route: Route, path: str, served: ServedModel | None, *, secured: bool
) -> dict[str, Any]:
    operation: dict[str, Any] = {"summary": route.summary.format(model="each model")}
    if served is not None:
        model = f"{served.name}, version {served.version}"
        operation["summary"] = route.summary.format(model=model)
    if served is not None and route.asks_model:
        operation |= _EXCHANGES[route.name](served.signature)
    else:
        operation |= _tell(route)
    if "{name}" in path:
        name = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
        operation["parameters"] = [name]
    if secured and not route.needs_token:
        operation["security"] = []
    return operation


def _tell(route: Route) -> dict[str, Any]:
    """Describe what asks no model."""
    responses = {"200": {"description": "Told"}}
    if not route.fields:
        return {"responses": responses}
    content = {"schema": _object(route.fields, []), "example": {}}
    return {"requestBody": {"content": {"application/json": content}}, "responses": responses}


def _predict(signature: ModelSignature) -> dict[str, Any]:
    body = _object(
        {
            "instances": {"type": "array", "items": _record(signature)},
            "outputs": {
                "type": "array",
                "items": {"enum": [tensor.name for tensor in signature.outputs]},
            },
        },
        ["instances"],
    )
    answer = {"predictions": {"type": "array", "items": {"type": "object"}}}
    example = {"instances": [_example_record(signature)]}
    return _exchange(body, example, _object(answer, ["predictions"]))


def _infer(signature: ModelSignature) -> dict[str, Any]:
    tensor = {
        "name": {"type": "string"},
        "datatype": {"type": "string"},
        "shape": {"type": "array", "items": {"type": "integer", "minimum": 0}},
        "data": {"type": "array"},
    }
    names = {"enum": [tensor.name for tensor in signature.outputs]}
    body = _object(
        {
            "id": {"type": "string"},
            "inputs": {"type": "array", "items": _object(tensor, list(tensor))},
            "outputs": {"type": "array", "items": _object({"name": names}, ["name"])},
        },
        ["inputs"],
    )
    first = signature.outputs[:1]
    example = {
        "inputs": [_example_tensor(tensor) for tensor in signature.inputs],
        "outputs": [{"name": tensor.name} for tensor in first],
    }
    answer = {"outputs": {"type": "array", "items": _object(tensor, list(tensor))}}
    return _exchange(body, example, _object(answer, ["outputs"]))


def _exchange(body: Any, example: Any, answer: Any) -> dict[str, Any]:
    content = {"application/json": {"schema": body, "example": example}}
    error = _object({"error": {"type": "string"}}, ["error"])
    return {
        "requestBody": {"required": True, "content": content},
        "responses": {
            "200": {"description": "Answers", "content": {"application/json": {"schema": answer}}},
            "400": {"description": "Refused", "content": {"application/json": {"schema": error}}},
            "503": {"description": "Busy: come again after the seconds of Retry-After"},
        },
    }


_EXCHANGES: Mapping[str, Callable[[ModelSignature], dict[str, Any]]] = {
    "infer": _infer,
    "invocations": _predict,
    "predict": _predict,
}
"""What describes the routes that ask a model."""


def _object(properties: Mapping[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required}


def _record(signature: ModelSignature) -> dict[str, Any]:
    """Return the schema of one record."""
    if signature.feeds == "matrix":
        width = signature.inputs[0].width
        return {"type": "array", "items": _NUMBER, "minItems": width, "maxItems": width}
    kinds = [_TEXT if tensor.datatype == BYTES else _NUMBER for tensor in signature.inputs]
    if signature.feeds in ("values", "items"):
        return dict(kinds[0])
    if signature.feeds == "positions":
        return {"type": "array", "prefixItems": kinds, "minItems": len(kinds)}
    names = [tensor.name for tensor in signature.inputs]
    return _object(dict(zip(names, kinds, strict=True)), names)


def _example_record(signature: ModelSignature) -> Any:
    values = [_example(tensor) for tensor in signature.inputs]
    if signature.feeds == "matrix":
        return [0.0] * (signature.inputs[0].width or 0)
    if signature.feeds in ("values", "items"):
        return values[0]
    if signature.feeds == "positions":
        return values
    return {tensor.name: value for tensor, value in zip(signature.inputs, values, strict=True)}


def _example(tensor: InputTensor | OutputTensor) -> Any:
    return "text" if tensor.datatype == BYTES else 0.0 if tensor.datatype.startswith("FP") else 0


def _example_tensor(tensor: InputTensor) -> dict[str, Any]:
    shape = [1] if tensor.width is None else [1, tensor.width]
    data = [_example(tensor)] * (tensor.width or 1)
    return {"name": tensor.name, "datatype": tensor.datatype, "shape": shape, "data": data}
