"""The loop that a process answers on: uvloop's, and asyncio's where that is missing.

uvloop has no build for Windows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

__all__ = ["run_loop"]


def run_loop(work: Coroutine[Any, Any, None]) -> None:
    """Run some work to its end."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(work)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    new_loop: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return new_loop
