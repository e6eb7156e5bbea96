"""The interface of a file for another runtime: its arguments, its answers, and text in both."""

from __future__ import annotations

from hbconv.interface.inputs import (
    FileInput,
    argument_names,
    inputs_with_codes,
    inputs_with_text,
    lower_with_checks,
    text_columns,
)
from hbconv.interface.interface import FileOutput, Interface, label_tables
from hbconv.interface.text import labels, require_one_meaning, text_codes

__all__ = [
    "FileInput",
    "FileOutput",
    "Interface",
    "argument_names",
    "inputs_with_codes",
    "inputs_with_text",
    "label_tables",
    "labels",
    "lower_with_checks",
    "require_one_meaning",
    "text_codes",
    "text_columns",
]
