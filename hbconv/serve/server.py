"""The server: it loads and warms models, and answers requests until it is told to end."""

from __future__ import annotations

import logging
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from hbconv.errors import HbconvError, OptionError, StoreError
from hbconv.model import load
from hbconv.serve.model_files import ModelFile, find_models
from hbconv.serve.served_model import ServedModel, warmed
from hbconv.serve.settings import Settings
from hbconv.serve.worker import work

__all__ = ["serve"]


def serve(
    paths: Sequence[Path],
    settings: Settings,
    name: str | None = None,
    backend: str | None = None,
    *,
    trusted: bool = False,
) -> int:
    """Serve models, and return the exit code of the process.

    Parameters
    ----------
    paths : sequence of Path
        Files and folders.
    settings : Settings
    name : str, optional
        Of the only model.
    backend : str, optional
        Compile the models for it, instead of that they were saved for.
    trusted : bool
        Run the programs that the files hold.
    """
    logging.captureWarnings(capture=True)
    logging.basicConfig(level=logging.INFO, format="hbconv: %(message)s")
    files = find_models(paths, name)
    if not files:
        raise OptionError(f"There is no model in {', '.join(map(str, paths))}.")
    with _listen(settings) as listening:
        models = [_ready(file, backend, trusted=trusted) for file in files]
        work(models, settings, listening, lambda: _tell(settings, listening, models))
    return 0


def _listen(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family, backlog=2048)
    except OSError as error:
        raise OptionError(
            f"Cannot listen on {settings.host}:{settings.port}: {error.strerror or error}. "
            "Choose another --port or --host."
        ) from error


def _ready(file: ModelFile, backend: str | None, *, trusted: bool) -> ServedModel:
    try:
        return warmed(file.name, file.version, load(file.path, backend, trusted=trusted))
    except HbconvError as error:
        raise StoreError(f"{file.path}: {error}") from error


def _tell(settings: Settings, listening: socket.socket, models: Sequence[ServedModel]) -> None:
    scheme = "https" if settings.certificate else "http"
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    names = ", ".join(f"{served.name} (version {served.version})" for served in models)
    print(f"Serving {names} on {scheme}://{host}:{listening.getsockname()[1]}", file=sys.stderr)
    sys.stderr.flush()
