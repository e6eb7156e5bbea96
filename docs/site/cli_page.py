"""Write ``docs/reference/cli.md`` from the parsers of the commands.

python docs/site/cli_page.py
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from hbconv.cli import COMMANDS, parser

PAGE = Path(__file__).parents[1] / "reference/cli.md"
HEAD = """# Command line

<!-- Written by docs/site/cli_page.py. -->

`hbconv COMMAND --help` shows the same in a terminal.
Results go to standard output, as JSON with `--json`.
Errors and progress go to standard error.

| exit code | meaning |
| --- | --- |
| 0 | done |
| 1 | failed, for instance at a damaged model or a row that the model refuses |
| 2 | asked wrongly: an option, a file that is not there, a port in use |
| 130 | interrupted |
| 141 | nobody reads the results |
| 143 | terminated |
"""


def write_page() -> str:
    """Return the page: a section for each command, with its examples and its options."""
    return "\n".join([HEAD, *(line for name in COMMANDS for line in _section(name))])


def _section(name: str) -> Iterator[str]:
    command = _parser_of(name)
    examples = [line.strip() for line in (command.epilog or "").splitlines()]
    yield from (
        f"## {name}",
        "",
        " ".join((command.description or "").split("\n\n")[0].split()),
        "",
    )
    yield from (f"    {line}" for line in examples if line.startswith("hbconv "))
    yield from ("", "| argument | meaning |", "| --- | --- |")
    for action in command._actions:  # noqa: SLF001
        if action.help != argparse.SUPPRESS and action.dest != "help":
            yield f"| {_names(action)} | {_meaning(action)} |"
    yield ""


def _parser_of(name: str) -> argparse.ArgumentParser:
    actions = parser([name])._actions  # noqa: SLF001
    (commands,) = (a for a in actions if isinstance(a, argparse._SubParsersAction))  # noqa: SLF001
    found: argparse.ArgumentParser = commands.choices[name]
    return found


def _names(action: argparse.Action) -> str:
    """Return the names of an option with what it takes, or the name of an argument."""
    value = action.metavar or ("|".join(map(str, action.choices)) if action.choices else "")
    shown = "" if action.nargs == 0 else str(value or action.dest.upper())
    names = action.option_strings or [""]
    return ", ".join(f"`{f'{name} {shown}'.strip()}`" for name in names).replace("|", "\\|")


def _meaning(action: argparse.Action) -> str:
    text = (action.help or "") % {"default": action.default, "prog": "hbconv"}
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    PAGE.write_text(write_page(), encoding="utf-8")
