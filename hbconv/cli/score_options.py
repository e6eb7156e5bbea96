"""Refuse options of ``hbconv score`` that do not apply, before any work is done."""

from __future__ import annotations

import argparse
import codecs
import os
from pathlib import Path

from hbconv.cli.device_pool import parse_devices
from hbconv.cli.formats import SUFFIXES
from hbconv.errors import OptionError

__all__ = ["require_options"]


def require_options(options: argparse.Namespace, *, into_folder: bool) -> None:
    """Refuse options that do not apply, and files that are not there.

    Raises
    ------
    OptionError
    """
    output = options.output
    if into_folder:
        if options.resume and options.force:
            raise OptionError("--resume goes on with a run, and --force replaces it. Give one.")
    else:
        if SUFFIXES.get(os.path.splitext(output.partition("?")[0])[1].lower()) is None:
            raise OptionError(
                f"-o {output}: unknown table format. Known: {', '.join(SUFFIXES)}, or a folder/."
            )
        for name in ("resume", "output_format"):
            if getattr(options, name):
                raise OptionError(
                    f"--{name.replace('_', '-')} is for folders of answers. Give -o folder/."
                )
    if options.encoding:
        require_encoding(options.encoding)
    if options.checksum and not into_folder:
        raise OptionError("--checksum is for folders of answers. Give -o folder/.")
    if options.devices:
        if options.device:
            raise OptionError("--devices names all devices. Leave --device out.")
        options.device = parse_devices(options.devices)[0]  # for what is asked of the model here
    if (
        options.rejects
        and SUFFIXES.get(Path(options.rejects.partition("?")[0]).suffix.lower()) != "json"
    ):
        raise OptionError(f"--rejects {options.rejects}: give a file that ends in .jsonl.")
    if "-" in options.input and (len(options.input) > 1 or not options.input_format):
        raise OptionError("Standard input (-) is given alone, and with --input-format.")
    if not Path(options.model).is_file():
        raise OptionError(f"No file {options.model}.")


def require_encoding(name: str) -> None:
    """Refuse what is no encoding of text.

    Raises
    ------
    OptionError

    Examples
    --------
    >>> require_encoding("Latin1")
    >>> require_encoding("hex")
    Traceback (most recent call last):
    hbconv.errors.OptionError: --encoding hex: no encoding of text. Name one such as latin-1.
    """
    try:
        is_text = codecs.getincrementaldecoder(name)().decode(b"", final=True) == ""
    except (LookupError, ValueError, TypeError):
        is_text = False
    if not is_text:
        raise OptionError(f"--encoding {name}: no encoding of text. Name one such as latin-1.")
