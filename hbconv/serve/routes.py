"""Routes: what a path of HTTP asks for."""

from __future__ import annotations

from dataclasses import dataclass

from hbconv.serve.refusal import RefusedError

__all__ = ["Route", "find_route"]

_PLAIN = {
    "": "page",
    "docs": "page",
    "openapi.json": "openapi",
    "metrics": "metrics",
    "v2": "server",
    "v2/health/live": "live",
    "v2/health/ready": "ready",
    "v2/repository/index": "index",
}


@dataclass(frozen=True, slots=True)
class Route:
    """What is asked for, and of which model.

    Parameters
    ----------
    name : str
    model : str
        Empty where no model is asked.
    version : str, optional
        None: the newest one.
    """

    name: str
    model: str = ""
    version: str | None = None

    @property
    def asks_model(self) -> bool:
        """Whether a model answers, and not the server."""
        return self.name in ("infer", "predict")

    @property
    def method(self) -> str:
        """The method of HTTP that it is asked by."""
        return "POST" if self.name in ("infer", "predict", "index", "load", "unload") else "GET"


def find_route(path: str) -> Route:
    """Return what a path asks for.

    Raises
    ------
    RefusedError
        There is no such path.

    Examples
    --------
    >>> find_route("/v2/models/iris/versions/2/infer")
    Route(name='infer', model='iris', version='2')
    """
    match path[1:].split("/"):
        case ["v2", "models", model, "infer" | "ready" as name]:
            return Route(name, model)
        case ["v2", "models", model]:
            return Route("model", model)
        case ["v2", "models", model, "versions", version]:
            return Route("model", model, version)
        case ["v2", "models", model, "versions", version, "infer" | "ready" as name]:
            return Route(name, model, version)
        case ["v1", "models", *rest] if rest[-1:] and rest[-1].endswith(":predict"):
            return _predict(rest)
        case ["v2", "repository", "models", model, "load" | "unload" as name]:
            return Route(name, model)
    if path[1:] in _PLAIN:
        return Route(_PLAIN[path[1:]])
    raise RefusedError(
        404, "NotFound", f"There is no {path:.200}. The page at / lists what there is."
    )


def _predict(rest: list[str]) -> Route:
    last = rest[-1].removesuffix(":predict")
    match [*rest[:-1], last]:
        case [model]:
            return Route("predict", model)
        case [model, "versions", version]:
            return Route("predict", model, version)
    raise RefusedError(404, "NotFound", "The path is no /v1/models/NAME:predict.")
