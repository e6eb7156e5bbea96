"""The command line: ``hbconv COMMAND``, where ``COMMANDS`` lists them.

Results go to standard output (as JSON with ``--json``), errors and progress to standard error.
Exit codes: 0 done; 1 the command failed (bad model, bad input, answers that differ);
2 it was asked wrongly (an option, a file that is not there, a port in use), as each
``OptionError`` says; 129 the terminal was closed; 130 interrupted (ctrl-C);
141 nobody reads the results; 143 terminated.
Shells complete names and options where argcomplete is installed and registered.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import signal
import sys
import textwrap
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from hbconv.errors import HbconvError, OptionError
from hbconv.names import printable

__all__ = ["main"]

COMMANDS = (
    *("convert", "explain", "score", "verify", "bench"),
    *("support", "tune-machine", "serve", "report"),
)
EXAMPLES = """
examples:
  hbconv convert model.txt -o model.hbc
  hbconv verify model.txt rows.parquet
  hbconv score model.hbc rows.parquet -o answers.parquet
  hbconv COMMAND --help
"""


ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Signals that end a command as ctrl-C does: a request, and the end of its terminal."""


class Terminated(BaseException):
    """The process was asked to end, by one of the signals ``ENDING``."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    as_json = "--json" in arguments
    _complete()
    if not arguments:
        parser().print_help(sys.stderr)
        return 2
    try:
        with _terminable():
            return _run(arguments)
    except (KeyboardInterrupt, Terminated) as stopped:
        how = "Terminated" if isinstance(stopped, Terminated) else "Interrupted"
        return fail(f"{how}; nothing was written.", as_json=as_json, code=code_of(stopped))
    except BrokenPipeError:
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
        )  # what is left to flush at exit goes nowhere
        return 141


def _run(argv: Sequence[str]) -> int:
    # One command imports its own modules alone, which keeps its start short.
    named = [name for name in COMMANDS if name == argv[0]]
    options = parser(named or COMMANDS).parse_args(argv)
    try:
        code: int = options.run(options)
        sys.stdout.flush()
    except OptionError as error:
        return fail(str(error), as_json=options.json, code=2)
    except HbconvError as error:
        return fail(str(error), as_json=options.json)
    except BrokenPipeError:
        raise
    except OSError as error:
        return fail(
            f"{error.strerror or error}: {error.filename}" if error.filename else str(error),
            as_json=options.json,
        )
    return code


@contextmanager
def _terminable() -> Iterator[None]:
    """Let signals end a command as ctrl-C does, so that what it began is removed.

    A signal that is ignored stays so: nohup asks for it.
    """
    # Python sets handlers of signals in the main thread alone.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in ENDING}
    heard = [number for number, handler in before.items() if handler != signal.SIG_IGN]
    for number in heard:
        signal.signal(number, _terminate)
    try:
        yield
    finally:
        for number in heard:
            signal.signal(number, before[number])


def _terminate(number: int, _: object) -> None:
    """End by the first signal; a shell that is closed sends more, which would disturb the end."""
    # A second signal would interrupt the removal of half-written files.
    for other in ENDING:
        signal.signal(other, signal.SIG_IGN)
    raise Terminated(number)


def code_of(stopped: BaseException) -> int:
    """Return the exit code of a command that ctrl-C or a signal ended.

    >>> code_of(KeyboardInterrupt()), code_of(Terminated(15))
    (130, 143)
    """
    number = stopped.args[0] if isinstance(stopped, Terminated) else signal.SIGINT
    return 128 + int(number)


def _complete() -> None:
    """Answer a shell that asks how to go on, and end; without argcomplete there is no answer."""
    if "_ARGCOMPLETE" not in os.environ:
        return
    import argcomplete

    argcomplete.autocomplete(parser())


def parser(names: Sequence[str] = COMMANDS) -> argparse.ArgumentParser:
    """Build the argument parser; each of the named commands adds its own arguments."""
    from hbconv import __version__

    top = argparse.ArgumentParser(
        prog="hbconv",
        description="Compile scikit-learn, LightGBM, XGBoost and CatBoost models "
        "to tensor programs.",
        epilog=EXAMPLES,
        formatter_class=_Help,
    )
    top.add_argument("--version", action="version", version=f"hbconv {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in names:
        module = importlib.import_module(f"hbconv.cli.{name.replace('-', '_')}")
        command = commands.add_parser(
            name,
            help=(module.__doc__ or "").splitlines()[0],
            description=module.__doc__,
            epilog=module.EXAMPLES,
            formatter_class=_Help,
        )
        command.add_argument(
            "--json", action="store_true", help="print the result as JSON on standard output"
        )
        module.arguments(command)
        command.set_defaults(run=module.run)
    return top


class _Help(argparse.HelpFormatter):
    """Fills paragraphs to the terminal's width, and leaves indented examples as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        parts = textwrap.dedent(text).strip("\n").split("\n\n")
        return "\n\n".join(
            part if "\n  " in part else super(_Help, self)._fill_text(part, width, indent)
            for part in parts
        )


def fail(message: str, *, as_json: bool, code: int = 1) -> int:
    """Print an error where the user asked for it, and return the exit code."""
    if as_json:
        print(json.dumps({"error": message}))
        return code
    with suppress(OSError):  # the terminal was closed
        print(f"hbconv: {printable(message)}", file=sys.stderr, flush=True)
    return code


def answer(
    options: argparse.Namespace, result: dict[str, Any], text: str, file: Any = None
) -> None:
    """Print a result as JSON or as text, on standard output or to a file."""
    told = json.dumps(result, indent=2, default=str) if options.json else printable(text)
    print(told, file=file)


def require_file(path: str | os.PathLike[str]) -> None:
    """Refuse an argument that leads to no file and no folder.

    Raises
    ------
    OptionError
    """
    # Path.exists raises for a name that no system takes.
    if not os.path.exists(path):
        raise OptionError(f"No file {str(path)[:200]}.")


def require_parent(path: Path, flag: str) -> None:
    """Refuse an output whose folder is not there, before it is computed.

    Raises
    ------
    OptionError
    """
    if not path.parent.is_dir():
        raise OptionError(f"{flag} {path}: there is no folder {path.parent}. Make it first.")


def pair(text: str) -> tuple[str, str]:
    """Read NAME=VALUE for argparse.

    >>> pair("spend=SPEND=1")
    ('spend', 'SPEND=1')
    """
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form NAME=VALUE")
    return name, value


def port(text: str) -> int:
    """Read the number of a port for argparse; 0 stands for a free one."""
    number = int(text) if text.isdecimal() else -1
    if not 0 <= number < 1 << 16:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: they go from 0 to 65,535")
    return number


def seconds(text: str) -> float:
    """Read a positive number for argparse.

    >>> seconds("0.5")
    0.5
    """
    number = float(text)
    if not (number > 0 and math.isfinite(number)):
        raise argparse.ArgumentTypeError(f"{text!r} is no positive number of seconds")
    return number


def positive(text: str) -> int:
    """Read a whole number from 1 to 2,147,483,647 for argparse.

    An Arrow batch holds no more rows.
    """
    # isdecimal refuses signs, blanks and underscores, which int takes.
    number = int(text) if text.isdecimal() else 0
    if not 0 < number < 1 << 31:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 to {(1 << 31) - 1:,}")
    return number
