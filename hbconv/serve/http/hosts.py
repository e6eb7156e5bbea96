"""Hosts: the names that clients may ask the server by.

A page of another site may let its own name lead to 127.0.0.1. The browser of a person who runs the
server takes that for one site, and lets the page read answers. But it sends that name as ``Host``.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from hbconv.errors import OptionError
from hbconv.serve.refusal import RefusedError

__all__ = ["hosts_of", "require_host"]

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


def hosts_of(address: str, named: Iterable[str]) -> tuple[str, ...]:
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
    >>> hosts_of("127.0.0.1", ["models.test"])
    ('localhost', '127.0.0.1', '[::1]', 'models.test')
    >>> hosts_of("0.0.0.0", ["fe80::1"])
    ('[fe80::1]',)
    >>> hosts_of("0.0.0.0", [])
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
