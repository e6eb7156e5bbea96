"""Serve saved models over HTTP: the Open Inference Protocol, plain records, and a page to try them.

A model's name is its file's stem. A folder serves all of its models.
"""

from __future__ import annotations

import argparse
import importlib
import math
import os
import ssl
from pathlib import Path

from hbconv.cli import port, positive, require_file, seconds
from hbconv.errors import MissingPackageError, OptionError

EXAMPLES = """
examples:
  hbconv serve model.hbc
  hbconv serve models/ --port 9000 --workers 2
"""


def arguments(command: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    command.add_argument(
        "models", nargs="+", metavar="MODEL", help=".hbc file, or a folder of them"
    )
    command.add_argument("--name", help="name of the only model (default: its file's stem)")
    command.add_argument("--host", default="127.0.0.1", help="address (default 127.0.0.1)")
    command.add_argument(
        "--port", type=port, default=8000, help="port (default 8000; 0: a free one)"
    )
    command.add_argument(
        "--grpc-port", type=port, help="port of gRPC (default: none; 0: a free one)"
    )
    command.add_argument("--backend", help="compile the models for this backend")
    command.add_argument(
        "--trusted",
        action="store_true",
        help="run the programs stored in the files: only of people you trust",
    )
    command.add_argument(
        "--methods",
        metavar="NAMES",
        help="answer only these, separated by commas, and compile all of them at the start",
    )
    command.add_argument(
        "--workers", type=positive, default=1, help="processes that share the models (default 1)"
    )
    command.add_argument(
        "--control", action="store_true", help="let clients load and unload models"
    )
    _limits(command)
    _access(command)
    _log(command)


def _limits(command: argparse.ArgumentParser) -> None:
    limits = command.add_argument_group("limits")
    for name, default, meaning in (
        ("--max-rows", 100_000, "rows of a request"),
        ("--max-body-mb", 64, "size of a request, in MB"),
        ("--max-answer-mb", 256, "size of an answer, in MB"),
        ("--max-requests", 256, "requests at once; others get 503"),
        ("--batch-rows", 1024, "rows computed together"),
    ):
        limits.add_argument(name, type=positive, default=default, help=f"{meaning} ({default})")
    limits.add_argument(
        "--batch-delay-ms", type=_delay, default=0.0, help="milliseconds to wait for more rows (0)"
    )
    limits.add_argument("--timeout", type=seconds, default=30.0, help="seconds for a request (30)")


def _access(command: argparse.ArgumentParser) -> None:
    access = command.add_argument_group("access")
    access.add_argument(
        "--token-file", type=Path, help="file with the token that requests must carry"
    )
    access.add_argument(
        "--allowed-host",
        action="append",
        default=[],
        metavar="NAME",
        help="host name that requests may use, too (may be given several times)",
    )
    access.add_argument("--certificate", help="PEM file of TLS")
    access.add_argument("--key", help="PEM file of the certificate's key")


def _log(command: argparse.ArgumentParser) -> None:
    log = command.add_argument_group("log")
    levels, formats = ("debug", "info", "warning", "error"), ("text", "json")
    log.add_argument(
        "--log-level",
        choices=levels,
        default="info",
        help="lowest level that is logged (default info)",
    )
    log.add_argument(
        "--log-format", choices=formats, default="text", help="form of a line (default text)"
    )
    log.add_argument(
        "--no-access-log", action="store_true", help="log no line for each answered request"
    )


def run(options: argparse.Namespace) -> int:
    """Serve until the process is told to end."""
    try:
        from hbconv.serve.http.exchange import list_hosts
        from hbconv.serve.processes.supervisor import serve
        from hbconv.serve.settings import Settings

        if options.grpc_port is not None:
            importlib.import_module("hbconv.serve.protocol.grpc_service")
    except ModuleNotFoundError as error:
        raise MissingPackageError(
            f"Serving needs {error.name}. Install with: pip install 'hbconv[serve,grpc]'"
        ) from error
    if (options.certificate is None) != (options.key is None):
        raise OptionError("TLS needs both --certificate and --key.")
    for path in filter(None, (options.token_file, options.certificate, options.key)):
        require_file(path)
    if options.certificate is not None:
        _require_pair(options.certificate, options.key)
    settings = Settings(
        host=options.host,
        port=options.port,
        grpc_port=options.grpc_port,
        token=_token(options.token_file),
        allowed_hosts=list_hosts(options.host, options.allowed_host),
        certificate=options.certificate,
        key=options.key,
        body_bytes=options.max_body_mb << 20,
        answer_bytes=options.max_answer_mb << 20,
        rows=options.max_rows,
        seconds=options.timeout,
        batch_rows=options.batch_rows,
        batch_delay=options.batch_delay_ms / 1000,
        queued=options.max_requests,
        workers=options.workers,
        control=options.control,
        backend=options.backend,
        trusted=options.trusted,
        methods=tuple(options.methods.split(",")) if options.methods else (),
        log_level=options.log_level,
        log_format=options.log_format,
        access_log=not options.no_access_log,
    )
    return serve([Path(model) for model in options.models], settings, options.name)


def _delay(text: str) -> float:
    """Read milliseconds for argparse; 0 waits for nothing."""
    number = float(text)
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of milliseconds")
    return number


def _require_pair(certificate: str, key: str) -> None:
    """Refuse files that are no certificate and its key, before any worker reads them."""
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(certificate, key)
    except OSError as error:
        raise OptionError(
            f"{certificate} and {key} are no certificate in PEM with its key: {error}."
        ) from error


def _token(path: Path | None) -> str | None:
    """Read the token from its file, or from HBCONV_TOKEN; it is in no list of processes."""
    token = os.environ.get("HBCONV_TOKEN") if path is None else path.read_text("utf-8").strip()
    # Headers carry printable ASCII; 16 characters of it are beyond guessing over a network.
    if token is not None and not (token.isascii() and token.isprintable() and len(token) >= 16):
        raise OptionError("The token is not 16 or more printable characters of ASCII.")
    return token
