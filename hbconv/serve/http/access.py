"""Access: who may ask, as the table of routes says."""

from __future__ import annotations

import hmac

from hbconv.serve.http.hosts import require_host
from hbconv.serve.http.messages import Head
from hbconv.serve.refusal import RefusedError
from hbconv.serve.routes import Route
from hbconv.serve.settings import Settings

__all__ = ["require_access", "require_token"]

_AS_BEARER = ((b"www-authenticate", b"Bearer"),)


def require_access(route: Route, head: Head, settings: Settings) -> None:
    """Refuse a request without the token, and one that a page of another site makes.

    Raises
    ------
    RefusedError
        400: it names no host. 421: it names another one. 401: it has no token, or another one. 403:
        a browser sends it for another site.
    """
    host = head.headers.get(b"host")
    if host is None and head.version != "1.0":
        raise RefusedError(400, "BadRequest", "A request of HTTP/1.1 has one header Host.")
    if route.needs_host:
        require_host(host or b"", settings.allowed_hosts)
    require_token(
        route, head.headers.get(b"authorization", b""), settings.token, "header Authorization"
    )
    origin = head.headers.get(b"origin")
    if origin is not None and origin.partition(b"://")[2] != host:
        site = origin.decode("latin-1")
        raise RefusedError(403, "Forbidden", f"Pages of {site:.200} may not ask this server.")


def require_token(route: Route, authorization: bytes, token: str | None, where: str) -> None:
    """Refuse a request without the token, in a time that does not depend on what it bears.

    Raises
    ------
    RefusedError
        401: the server has a token, the route needs it, and the client does not bear it.
    """
    if token is None or not route.needs_token:
        return
    scheme, _, credentials = authorization.partition(b" ")
    is_bearer = scheme.lower() == b"bearer"
    if not (is_bearer and hmac.compare_digest(credentials.strip(), token.encode())):
        raise RefusedError(401, "Unauthorized", f"Send the {where}: Bearer TOKEN.", _AS_BEARER)
