"""Write the table of routes in ``docs/serving.md`` from the table of the server.

python docs/site/routes_table.py
"""

from __future__ import annotations

from pathlib import Path

from hbconv.serve.routes import ROUTES, Route

PAGE = Path(__file__).parents[1] / "serving.md"
FIRST, LAST = "<!-- Written by docs/site/routes_table.py. -->\n", "<!-- End of the routes. -->\n"


def write_page(page: str) -> str:
    """Return the page with the table of the routes that there are."""
    before, _, rest = page.partition(FIRST)
    _, _, after = rest.partition(LAST)
    table = ["| request | what it does | token | gRPC |", "| --- | --- | --- | --- |"]
    lines = [*table, *map(_row, ROUTES)]
    return f"{before}{FIRST}\n" + "".join(f"{line}\n" for line in lines) + f"\n{LAST}{after}"


def _row(route: Route) -> str:
    requests = "<br>".join(f"`{route.method} {path}`" for path in route.paths)
    token = "needed" if route.needs_token else ""
    rpc = f"`{route.rpc}`" if route.rpc else ""
    cells = (requests, route.summary.format(model="a model"), token, rpc)
    return "|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|"


if __name__ == "__main__":
    PAGE.write_text(write_page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
