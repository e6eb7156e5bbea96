"""Routes: the one table of the requests that the server takes.

All else is made from it: how a path is found, who may send it, how long a body may be, what handles
it, what metrics call it, what OpenAPI describes, and what gRPC mirrors. So is the table of
``docs/serving.md``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hbconv.serve.failures import RefusedError

__all__ = [
    "ABSENT",
    "ROUTES",
    "UNKNOWN",
    "Asked",
    "RequestDestination",
    "Route",
    "find_destination",
]


@dataclass(frozen=True)
class Route:
    """A row of the table.

    Parameters
    ----------
    name : str
        ``Handlers.on_NAME`` handles it, or reads its body where it asks a model.
    paths : tuple of str
        ``{model}`` stands for a model that is served, ``{name}`` for one of the repository.
    summary : str
        What it does; ``{model}`` stands for the model.
    method : {"GET", "POST"}
        HEAD is answered where GET is.
    asks_model : bool
        A model answers, so a request takes a place, and its body may be long.
    needs_token : bool
        The client bears the token, where the server has one.
    needs_host : bool
        The client asks by a name that the server answers to.
    fields : mapping
        JSON schemas of what the body may hold, where no model is asked.
    rpc : str
        The method of gRPC that mirrors it; empty where none does.
    label : str
        What metrics call it, where that is not its name.
    """

    name: str
    paths: tuple[str, ...]
    summary: str
    method: str = "GET"
    asks_model: bool = False
    needs_token: bool = True
    needs_host: bool = True
    fields: Mapping[str, Any] = field(default_factory=dict)
    rpc: str = ""
    label: str = ""

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods of HTTP that it is asked by."""
        return ("GET", "HEAD") if self.method == "GET" else (self.method,)


ROUTES = (
    Route(
        "predict",
        ("/v1/models/{model}:predict", "/v1/models/{model}/versions/{version}:predict"),
        "Run {model} on records",
        "POST",
        asks_model=True,
    ),
    Route(
        "invocations",
        ("/invocations",),
        "Run the only model on records, answered by bare values (MLflow)",
        "POST",
        asks_model=True,
    ),
    Route(
        "infer",
        ("/v2/models/{model}/infer", "/v2/models/{model}/versions/{version}/infer"),
        "Run {model} on tensors (Open Inference Protocol)",
        "POST",
        asks_model=True,
        rpc="ModelInfer",
    ),
    Route(
        "model",
        ("/v2/models/{model}", "/v2/models/{model}/versions/{version}"),
        "Describe {model}",
        rpc="ModelMetadata",
    ),
    Route(
        "model_ready",
        (
            "/v1/models/{model}",
            "/v2/models/{model}/ready",
            "/v2/models/{model}/versions/{version}/ready",
        ),
        "Report whether {model} takes requests",
        # It needs the token, unlike the health of the server: it reveals which names there are.
        rpc="ModelReady",
        label="ready",
    ),
    Route(
        "model_config",
        ("/v2/models/{model}/config", "/v2/models/{model}/versions/{version}/config"),
        "Describe {model} as the Triton server does",
        rpc="ModelConfig",
    ),
    Route(
        "model_stats",
        (
            "/v2/models/stats",
            "/v2/models/{model}/stats",
            "/v2/models/{model}/versions/{version}/stats",
        ),
        "Report how often {model} was asked",
        rpc="ModelStatistics",
    ),
    Route("models", ("/v1/models",), "List the models that are served"),
    Route("server", ("/v2",), "Describe the server", rpc="ServerMetadata"),
    Route(
        "live",
        ("/v2/health/live",),
        "Report that the server runs",
        needs_token=False,
        needs_host=False,
        rpc="ServerLive",
    ),
    Route(
        "ready",
        ("/v2/health/ready",),
        "Report whether the server takes requests",
        needs_token=False,
        needs_host=False,
        rpc="ServerReady",
    ),
    Route(
        "index",
        ("/v2/repository/index",),
        "List the models that are there, served or not",
        "POST",
        fields={"ready": {"type": "boolean"}},
        rpc="RepositoryIndex",
    ),
    Route(
        "load",
        ("/v2/repository/models/{name}/load",),
        "Load a model as its files are now",
        "POST",
        fields={"parameters": {"type": "object", "maxProperties": 0}},
        rpc="RepositoryModelLoad",
    ),
    Route(
        "unload",
        ("/v2/repository/models/{name}/unload",),
        "Stop serving a model",
        "POST",
        rpc="RepositoryModelUnload",
    ),
    Route("metrics", ("/metrics",), "Report what was counted, for Prometheus"),
    Route("openapi", ("/openapi.json",), "Describe all routes"),
    Route("page", ("/", "/docs"), "Show a page that sends requests", needs_token=False),
)


class Asked(NamedTuple):
    """The model and version that a request asks, once it is found; empty before."""

    model: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True)
class RequestDestination:
    """Where a request goes.

    Parameters
    ----------
    route : Route
    model : str
        Empty where the route names none.
    version : str, optional
        None: the newest one.
    """

    route: Route
    model: str = ""
    version: str | None = None


@dataclass(frozen=True)
class Extension:
    """What the protocol of Triton has and the server has not.

    Parameters
    ----------
    path : str
        Part of its paths over HTTP.
    rpcs : tuple of str
        Its methods of gRPC.
    reason : str
        What a client is told, and what it can do.
    """

    path: str
    rpcs: tuple[str, ...]
    reason: str


ABSENT = (
    Extension(
        "/v2/systemsharedmemory/",
        ("SystemSharedMemoryStatus", "SystemSharedMemoryRegister", "SystemSharedMemoryUnregister"),
        "Shared memory is not supported. Send the data of tensors in the request.",
    ),
    Extension(
        "/v2/cudasharedmemory/",
        ("CudaSharedMemoryStatus", "CudaSharedMemoryRegister", "CudaSharedMemoryUnregister"),
        "Shared memory of CUDA is not supported. Send the data of tensors in the request.",
    ),
    Extension(
        "/generate",
        ("ModelStreamInfer",),
        "Streams are not supported: an answer comes whole. Ask by infer.",
    ),
    Extension(
        "/trace/setting",
        ("TraceSetting",),
        "Traces are not supported. /metrics has times, and the log has each request.",
    ),
    Extension(
        "/v2/logging",
        ("LogSettings",),
        "The log is set at the start of the server: --log-level, --log-format, --no-access-log.",
    ),
)
"""Extensions of Triton that are refused by name, so that a client knows what is missing."""

UNKNOWN = RequestDestination(Route("unknown", (), ""))
"""What requests for other paths are counted as."""
_PLAIN = {
    path[1:]: RequestDestination(route)
    for route in ROUTES
    for path in route.paths
    if "{" not in path
}
_PATTERNS = tuple(
    # A name ends at a slash, and the server has one kind of name: {name} reads like {model}.
    (re.compile(re.sub(r"{(\w+)}", r"(?P<\1>[^/:]+)", path.replace("{name}", "{model}"))), route)
    for route in ROUTES
    for path in route.paths
    if "{" in path
)


def find_destination(path: str) -> RequestDestination:
    """Find where a path goes.

    Raises
    ------
    RefusedError
        There is no such path.

    Examples
    --------
    >>> destination = find_destination("/v2/models/iris/versions/2/infer")
    >>> destination.route.name, destination.model, destination.version
    ('infer', 'iris', '2')
    """
    # Paths without names are found by a dict, so that probes try no pattern.
    plain = _PLAIN.get(path[1:])
    if plain is not None:
        return plain
    for pattern, route in _PATTERNS:
        match = pattern.fullmatch(path)
        if match is not None:
            return RequestDestination(route, match["model"], match.groupdict().get("version"))
    for extension in ABSENT:
        if extension.path in path:
            raise RefusedError(404, "NotSupported", extension.reason)
    if path.startswith("/v1/models/") and path.endswith(":predict"):
        raise RefusedError(404, "NotFound", "The path is no /v1/models/NAME:predict.")
    raise RefusedError(
        404, "NotFound", f"There is no {path:.200}. The page at / lists what there is."
    )
