"""Every route of the table is whole: it answers, and whatever is made from the table has it."""

from __future__ import annotations

import asyncio

import pytest
from docs.pages import ROOT
from served import Doubling, application

from hbconv.serve.failures import RefusedError
from hbconv.serve.routes import ROUTES, find_destination

NAMES = {"model": "m", "version": "1", "name": "m"}
PATHS = [(route, path.format(**NAMES)) for route in ROUTES for path in route.paths]
TOKEN = "0123456789abcdef"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
REQUESTS = [pytest.param(route, path, id=f"{route.method} {path}") for route, path in PATHS]


def ask(*requests, **settings):
    """Return the responses to requests, each given as the arguments of httpx."""

    async def run():
        async with application(Doubling(), **settings) as client:
            return [await client.request(method, path, **more) for method, path, more in requests]

    return asyncio.run(run())


@pytest.fixture(scope="module")
def document():
    """What OpenAPI says of a server that has a token."""
    (response,) = ask(("GET", "/openapi.json", {"headers": BEARER}), token=TOKEN)
    return response.json()


def operation(document, route, path):
    template = path if path in document["paths"] else route.paths[0]
    return document["paths"][template][route.method.lower()]


@pytest.mark.parametrize(("route", "path"), REQUESTS)
def test_it_answers_and_is_counted(route, path, document):
    described = operation(document, route, path)
    content = described.get("requestBody", {}).get("content", {}).get("application/json", {})
    response, metrics = ask(
        (route.method, path, {"json": content["example"]} if content else {}),
        ("GET", "/metrics", {}),
    )
    changes_models = route.name in ("load", "unload")  # what no client may without --control
    assert response.status_code == (403 if changes_models else 200), response.text
    label = f'route="{route.label or route.name}",status="{response.status_code}"'
    assert route.name == "metrics" or label in metrics.text


@pytest.mark.parametrize(("route", "path"), REQUESTS)
def test_it_is_asked_by_its_methods_alone(route, path):
    other = "GET" if route.method == "POST" else "POST"
    refused, head = ask((other, path, {}), ("HEAD", path, {}))
    assert (refused.status_code, refused.headers["allow"]) == (405, ", ".join(route.methods))
    assert head.status_code == (200 if "HEAD" in route.methods else 405)


@pytest.mark.parametrize(("route", "path"), REQUESTS)
def test_it_is_open_to_whom_the_table_says(route, path):
    sent = {"content": b"{}"} if route.method == "POST" else {}
    plain, elsewhere = ask(
        (route.method, path, sent),
        (route.method, path, sent | {"headers": BEARER | {"Host": "evil.example"}}),
        token=TOKEN,
        allowed_hosts=("127.0.0.1",),
    )
    assert (plain.status_code == 401) is route.needs_token
    assert (elsewhere.status_code == 421) is route.needs_host


@pytest.mark.parametrize(("route", "path"), REQUESTS)
def test_its_body_is_bounded(route, path):
    if route.method == "POST":
        (response,) = ask((route.method, path, {"content": b" " * (65 << 10)}))
        assert (response.status_code == 413) is not route.asks_model


@pytest.mark.parametrize(("route", "path"), REQUESTS)
def test_openapi_describes_it(route, path, document):
    described = operation(document, route, path)
    model = "m, version 1" if "{model}" in "".join(route.paths) else "each model"
    plain = route.summary.format(model="each model")
    assert described["summary"] in (route.summary.format(model=model), plain)
    assert described.get("security", document["security"]) == (
        [{"token": []}] if route.needs_token else []
    )
    assert ("requestBody" in described) is bool(route.asks_model or route.fields)


def test_openapi_describes_nothing_else(document):
    described = {(path, method) for path, found in document["paths"].items() for method in found}
    names = NAMES | {"name": "{name}"}
    paths = {(p.format(**names), r.method.lower()) for r in ROUTES for p in r.paths}
    assert described == paths


def test_the_page_of_the_docs_has_the_table(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs/site"))
    import routes_table

    page = routes_table.PAGE.read_text(encoding="utf-8")
    assert routes_table.FIRST in page
    assert page == routes_table.write_page(page), "Write it anew: python docs/site/routes_table.py"


def test_grpc_mirrors_the_methods_of_the_protocol():
    grpc_service = pytest.importorskip(
        "hbconv.serve.protocol.grpc_service", reason="the extra grpc is not installed"
    )
    methods = {name.removesuffix("Request") for name in grpc_service.message_names()}
    assert {route.rpc for route in ROUTES if route.rpc} == {
        name for name in methods if f"{name}Response" in methods
    }


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_a_path_leads_to_one_route(route):
    for path in route.paths:
        destination = find_destination(path)
        assert destination.route is route
        if "{" in path:
            assert destination.model in ("{model}", "{name}")
        assert destination.version == ("{version}" if "{version}" in path else None)


@pytest.mark.parametrize(
    "path",
    ["/v2/", "/v2/models", "/v2/models/a/b/infer", "/v1/models/a/b", "/V2", "//v2", "/docs/"],
)
def test_other_paths_are_refused(path):
    with pytest.raises(RefusedError, match="The page at / lists what there is"):
        find_destination(path)


@pytest.mark.parametrize("path", ["/v1/models/a/b:predict", "/v1/models/a/versions/1/2:predict"])
def test_records_have_one_form_of_path(path):
    with pytest.raises(RefusedError, match="no /v1/models/NAME:predict"):
        find_destination(path)
