"""Compare a converted model with its source on a table, method by method.

Exits with 1 when a decision differs.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from hbconv.cli import answer, positive
from hbconv.cli.sources import convert_options, load_source, model_arguments
from hbconv.cli.tables import read_all
from hbconv.containers import Graph
from hbconv.errors import OptionError
from hbconv.scorer import rows_for


def arguments(command: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    model_arguments(command)
    command.add_argument(
        "data", help="table of rows to compare on: .parquet, .csv, .arrow, .feather"
    )
    command.add_argument("--rows", type=positive, help="only the first rows")


def run(options: argparse.Namespace) -> int:
    """Convert, predict with both, and report."""
    import hbconv

    source = load_source(Path(options.model), allow_pickle=options.allow_pickle)
    if isinstance(source, Graph):
        raise OptionError(
            "verify needs the fitted estimator itself (.skops, .joblib, .pkl): "
            "the file of a booster cannot predict without its library."
        )
    model = hbconv.convert(source, **convert_options(options))
    names = getattr(model, "feature_names_in_", None)
    rows = rows_for(
        model,
        read_all(
            Path(options.data), None if names is None else [str(n) for n in names], options.rows
        ),
    ).to_pandas()
    report = hbconv.verify(source, model, rows if names is not None else rows.to_numpy())
    answer(options, report.to_dict(), str(report))
    return 0 if report.ok else 1
