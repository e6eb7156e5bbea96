"""The server: an address, and a supervisor of the processes that answer there."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from hbconv.errors import OptionError
from hbconv.serve.failures import begin_log
from hbconv.serve.model_files import find_models
from hbconv.serve.processes.supervisor import Supervisor
from hbconv.serve.settings import Settings

__all__ = ["serve"]


def serve(paths: Sequence[Path], settings: Settings, name: str | None = None) -> int:
    """Serve models, and return the exit code of the process.

    Parameters
    ----------
    paths : sequence of Path
        Files and folders.
    settings : Settings
    name : str, optional
        Of the only model.

    Raises
    ------
    OptionError
        There is no model, or the address cannot be had.
    StoreError
        A model cannot be loaded.
    """
    if not find_models(paths, name):
        raise OptionError(f"There is no model in {', '.join(map(str, paths))}.")
    with ExitStack() as stack:
        listening = stack.enter_context(_listen(settings))
        if settings.grpc_port is not None:
            held = stack.enter_context(_hold(settings, settings.grpc_port))
            settings = replace(settings, grpc_port=held.getsockname()[1])
        begin_log()
        asyncio.run(Supervisor(paths, name, settings, listening).run())
    return 0


def _hold(settings: Settings, port: int) -> socket.socket:
    """Hold a port that workers listen on, each by a socket of its own."""
    held = socket.socket(socket.AF_INET6 if ":" in settings.host else socket.AF_INET)
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        held.bind((settings.host, port))
    except OSError as error:
        held.close()
        raise _unavailable(settings.host, port, error) from error
    return held


def _listen(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family, backlog=2048)
    except OSError as error:
        raise _unavailable(settings.host, settings.port, error) from error


def _unavailable(host: str, port: int, error: OSError) -> OptionError:
    return OptionError(
        f"Cannot listen on {host}:{port}: {error.strerror or error}. "
        "Choose another --port or --host."
    )
