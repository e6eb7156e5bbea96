"""Access: who may ask, as the table of routes says, and by which names of the server.

A page of another site may let its own name lead to 127.0.0.1. The browser of a person who runs the
server takes that for one site, and lets the page read answers. But it sends that name as ``Host``.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Iterable

from hbconv.errors import OptionError
from hbconv.serve.failures import RefusedError
from hbconv.serve.http.messages import Head
from hbconv.serve.routes import Route
from hbconv.serve.settings import Settings

__all__ = ["list_hosts", "require_access", "require_host", "require_token"]

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")

_AS_BEARER = ((b"www-authenticate", b"Bearer"),)


def list_hosts(address: str, named: Iterable[str]) -> tuple[str, ...]:
    """Return the names that are allowed; none where any is.

    Parameters
    ----------
    address : str
        What the server listens on.
    named : iterable of str
        Names that are allowed too. For an address of the network these alone, if there are any.

    Raises
    ------
    OptionError
        A name is empty.

    Examples
    --------
    >>> list_hosts("127.0.0.1", ["models.test"])
    ('localhost', '127.0.0.1', '[::1]', 'models.test')
    >>> list_hosts("0.0.0.0", ["fe80::1"])
    ('[fe80::1]',)
    >>> list_hosts("0.0.0.0", [])
    ()
    """
    names = [name.strip() for name in named]
    if "" in names:
        raise OptionError("--allowed-host names no host. Name one, or leave the option out.")
    own = (*LOOPBACK, address) if _is_loopback(address) else ()
    return tuple(dict.fromkeys(_as_sent(name.lower()) for name in (*own, *names)))


def _as_sent(name: str) -> str:
    """Return a name as ``Host`` has it: an address of IPv6 in brackets."""
    try:
        return f"[{name}]" if ipaddress.ip_address(name).version == 6 else name
    except ValueError:
        return name


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def require_host(host: bytes, allowed: Iterable[str]) -> None:
    """Refuse a request for a host of another name.

    Raises
    ------
    RefusedError
        421: the name is not allowed.

    Examples
    --------
    >>> require_host(b"localhost:8000", ["localhost"])
    >>> require_host(b"evil.example", [])
    """
    name = host.decode("latin-1").lower()
    if allowed and name not in allowed and name.rpartition(":")[0] not in allowed:
        raise RefusedError(
            421,
            "Misdirected",
            f"This server is not {name:.200}. Start it with --allowed-host to answer there.",
        )


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
