"""The application: requests of HTTP to answers, as plain ASGI.

Errors of any kind become answers here, and here alone.
"""

from __future__ import annotations

import asyncio
import logging
import time

from hbconv.serve.access import require_access
from hbconv.serve.handlers import Handlers
from hbconv.serve.messages import GoneError, Receive, Request, Response, Scope, Send, as_json
from hbconv.serve.refusal import RefusedError, refusal_of
from hbconv.serve.routes import Route, find_route

__all__ = ["Application"]

_log = logging.getLogger("hbconv.serve")
_UNKNOWN = Route("unknown")


class Application:
    """Answers requests of HTTP.

    Parameters
    ----------
    handlers : Handlers
    """

    def __init__(self, handlers: Handlers) -> None:
        self._handlers = handlers
        self._settings = handlers.settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, as ASGI has it."""
        began = time.perf_counter()
        request = Request(scope, receive, self._settings.body_bytes)
        route = _UNKNOWN
        try:
            route = find_route(request.path)
            async with asyncio.timeout(self._settings.seconds):
                response = await self._answer(route, request)
        except GoneError:
            return
        except Exception as error:
            response = _refused(error)
        self._handlers.count(route, response.status, time.perf_counter() - began)
        await self._send(response, send)

    async def _answer(self, route: Route, request: Request) -> Response:
        if request.method not in (route.method, "HEAD" if route.method == "GET" else ""):
            raise RefusedError(
                405, "MethodNotAllowed", f"Ask {request.path:.200} by {route.method}."
            )
        require_access(route, request, self._settings.token)
        return await self._handlers.find(route)(route, request)

    async def _send(self, response: Response, send: Send) -> None:
        headers = [
            (b"content-type", response.content_type.encode()),
            (b"content-length", b"%d" % len(response.body)),
            *response.headers,
        ]
        if self._handlers.leaving is not None or response.status == 413:
            headers.append((b"connection", b"close"))
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        await send({"type": "http.response.body", "body": response.body})


def _refused(error: Exception) -> Response:
    refusal = refusal_of(error)
    if refusal.status >= 500 and not isinstance(error, RefusedError):
        _log.error("A request failed", exc_info=error)
    headers: list[tuple[bytes, bytes]] = []
    if refusal.retry_after is not None:
        headers.append((b"retry-after", b"%d" % refusal.retry_after))
    if refusal.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    body = as_json({"error": str(refusal)}, refusal.status)
    return Response(body.body, body.status, body.content_type, tuple(headers))
