"""OpenAPI: the description of all routes, from their table and the signatures of the models."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hbconv import __version__
from hbconv.serve.batching import order_versions
from hbconv.serve.examples import Example, find_example
from hbconv.serve.routes import ROUTES, Asked, Route
from hbconv.serve.served_model import ServedModel
from hbconv.serve.signature import BYTES, InputTensor, ModelSignature

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
    examples = {
        served.asked: find_example(served)
        for versions in models.values()
        for served in versions.values()
    }
    paths = {
        path: {route.method.lower(): _describe(route, path, served, examples, secured=secured)}
        for route in ROUTES
        for path, served in _paths(route, models)
        if not (served and route.name == "infer" and _holds_objects(examples[served.asked]))
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


def _holds_objects(example: Example) -> bool:
    """Whether rows are mappings or lists, which no tensor holds: records alone bring them."""
    return any(isinstance(value, dict | list) for value in example.values.values())


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
    route: Route,
    path: str,
    served: ServedModel | None,
    examples: Mapping[Asked, Example],
    *,
    secured: bool,
) -> dict[str, Any]:
    operation: dict[str, Any] = {"summary": route.summary.format(model="each model")}
    if served is not None:
        model = f"{served.name}, version {served.version}"
        operation["summary"] = route.summary.format(model=model)
    if served is not None and route.asks_model:
        operation |= _EXCHANGES[route.name](served, examples[served.asked])
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


def _predict(served: ServedModel, example: Example) -> dict[str, Any]:
    signature = served.signature
    body = _object(
        {
            "instances": {"type": "array", "items": _record(signature, example)},
            "outputs": {
                "type": "array",
                "items": {"enum": [tensor.name for tensor in signature.outputs]},
            },
        },
        ["instances"],
    )
    answer = {"predictions": {"type": "array", "items": {"type": "object"}}}
    record = {"instances": [_example_record(signature, example)]}
    return _exchange(body, record, _object(answer, ["predictions"]))


def _invocations(served: ServedModel, example: Example) -> dict[str, Any]:
    described = _predict(served, example)
    answer = _object({"predictions": {"type": "array"}}, ["predictions"])
    described["responses"]["200"]["content"]["application/json"]["schema"] = answer
    return described


def _infer(served: ServedModel, example: Example) -> dict[str, Any]:
    signature = served.signature
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
    request = {
        "inputs": [_example_tensor(tensor, example) for tensor in signature.inputs],
        "outputs": [{"name": tensor.name} for tensor in signature.usual[:1]],
    }
    answer = {"outputs": {"type": "array", "items": _object(tensor, list(tensor))}}
    return _exchange(body, request, _object(answer, ["outputs"]))


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


_EXCHANGES: Mapping[str, Callable[[ServedModel, Example], dict[str, Any]]] = {
    "infer": _infer,
    "invocations": _invocations,
    "predict": _predict,
}
"""What describes the routes that ask a model."""


def _object(properties: Mapping[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required}


def _record(signature: ModelSignature, example: Example) -> dict[str, Any]:
    """Return the schema of one record."""
    if signature.feeds == "matrix" and not example.choices:
        width = signature.inputs[0].width
        return {"type": "array", "items": _NUMBER, "minItems": width, "maxItems": width}
    if signature.feeds == "items":
        return {}
    kinds = [_kind(name, signature, example) for name in example.values]
    if signature.feeds == "values":
        return kinds[0]
    if signature.feeds == "names":
        names = list(example.values)
        return _object(dict(zip(names, kinds, strict=True)), names)
    width = len(kinds)
    return {"type": "array", "prefixItems": kinds, "minItems": width, "maxItems": width}


def _kind(name: str, signature: ModelSignature, example: Example) -> dict[str, Any]:
    """Return the schema of a value: those that are known, where any other one is refused."""
    if name in example.choices:
        return {"enum": list(example.choices[name])}
    datatypes = {tensor.name: tensor.datatype for tensor in signature.inputs}
    return dict(_TEXT if datatypes.get(name) == BYTES else _NUMBER)


def _example_record(signature: ModelSignature, example: Example) -> Any:
    values = list(example.values.values())
    if signature.feeds in ("values", "items"):
        return values[0]
    return dict(example.values) if signature.feeds == "names" else values


def _example_tensor(tensor: InputTensor, example: Example) -> dict[str, Any]:
    is_column = tensor.width is None
    data = [example.values[tensor.name]] if is_column else list(example.values.values())
    shape = [1] if is_column else [1, tensor.width]
    return {"name": tensor.name, "datatype": tensor.datatype, "shape": shape, "data": data}
