"""Access: who may ask. The health of the server and its page hold no secrets, so all may.

Whether a model is ready is a secret: the answer tells which names there are.
"""

from __future__ import annotations

import hmac

from hbconv.serve.http.hosts import require_host
from hbconv.serve.http.messages import Head
from hbconv.serve.refusal import RefusedError
from hbconv.serve.routes import Route
from hbconv.serve.settings import Settings

__all__ = ["is_bearer", "require_access"]

_HEALTH = frozenset({"live", "ready"})
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
    is_health = route.name in _HEALTH and not route.model
    if not is_health:
        require_host(host or b"", settings.allowed_hosts)
    given, token = head.headers.get(b"authorization", b""), settings.token
    is_open = is_health or route.name == "page"
    if token is not None and not is_open and not is_bearer(given, token):
        told = "Send the header Authorization: Bearer TOKEN."
        raise RefusedError(401, "Unauthorized", told, _AS_BEARER)
    origin = head.headers.get(b"origin")
    if origin is not None and origin.partition(b"://")[2] != host:
        site = origin.decode("latin-1")
        raise RefusedError(403, "Forbidden", f"Pages of {site:.200} may not ask this server.")


def is_bearer(authorization: bytes, token: str) -> bool:
    """Tell whether a header holds the token, in a time that does not depend on how much of it."""
    scheme, _, given = authorization.partition(b" ")
    return scheme.lower() == b"bearer" and hmac.compare_digest(given.strip(), token.encode())
