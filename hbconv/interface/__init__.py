"""The interface of a file for another runtime: its arguments, its answers, and text in both."""

from __future__ import annotations

from hbconv.interface.interface import (
    FileInput,
    FileOutput,
    Interface,
    argument_names,
    inputs_with_codes,
    inputs_with_text,
    label_tables,
    labels,
    lower_with_checks,
    require_one_meaning,
    text_codes,
    text_columns,
)

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
