"""Access: who may ask. The health of the server and its page hold no secrets, so all may."""

from __future__ import annotations

import hmac

from hbconv.serve.messages import Request
from hbconv.serve.refusal import RefusedError
from hbconv.serve.routes import Route

__all__ = ["is_bearer", "require_access"]

_OPEN = frozenset({"live", "ready", "page"})


def require_access(route: Route, request: Request, token: str | None) -> None:
    """Refuse a request without the token, and one that a page of another site makes.

    Raises
    ------
    RefusedError
        401: it has no token, or another one. 403: a browser sends it for another site.
    """
    given = request.headers.get(b"authorization", b"")
    if token is not None and route.name not in _OPEN and not is_bearer(given, token):
        raise RefusedError(401, "Unauthorized", "Send the header Authorization: Bearer TOKEN.")
    origin = request.header(b"origin")
    if origin is not None and origin.partition("://")[2] != request.header(b"host"):
        raise RefusedError(403, "Forbidden", f"Pages of {origin:.200} may not ask this server.")


def is_bearer(authorization: bytes, token: str) -> bool:
    """Tell whether a header holds the token, in a time that does not depend on how much of it."""
    scheme, _, given = authorization.partition(b" ")
    return scheme.lower() == b"bearer" and hmac.compare_digest(given.strip(), token.encode())
