"""Names a user may misspell: unknown ones are refused with the nearest that exist."""

import difflib
from collections.abc import Iterable

from hbconv.errors import OptionError

__all__ = ["unknown"]


def unknown(kind: str, name: object, known: Iterable[str]) -> OptionError:
    """Return the error for a name that does not exist.

    Examples
    --------
    >>> str(unknown("backend", "torhc", ["torch", "tvm"]))
    "Unknown backend 'torhc'. Did you mean 'torch'? Known: torch, tvm."
    """
    names = sorted(known)
    near = difflib.get_close_matches(str(name), names, n=2, cutoff=0.5)
    guess = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    return OptionError(f"Unknown {kind} {name!r}.{guess} Known: {', '.join(names)}.")
