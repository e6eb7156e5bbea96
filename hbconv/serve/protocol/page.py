"""The page that a browser shows: it reads ``/openapi.json``, and sends requests that one edits."""

from __future__ import annotations

from functools import cache
from importlib import resources

__all__ = ["page"]


@cache
def page() -> bytes:
    """Return the page: one file, which loads nothing from elsewhere."""
    return resources.files("hbconv.serve.protocol").joinpath("page.html").read_bytes()
