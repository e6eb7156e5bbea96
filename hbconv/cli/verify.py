"""Compare a converted model with its source on a table, method by method.

The file of a booster is compared with its own library. Exits with 1 when a decision differs.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from hbconv.cli import answer, positive
from hbconv.cli.boosters import asked_source
from hbconv.cli.sources import (
    convert_options,
    is_saved,
    load_source,
    model_arguments,
    refuse_trusted,
)
from hbconv.engines.scorer import rows_for
from hbconv.errors import OptionError
from hbconv.parse.spark.saved_model import SparkModel
from hbconv.score.formats import SUFFIXES
from hbconv.score.tables import read_all

EXAMPLES = """
examples:
  hbconv verify model.txt rows.parquet
  hbconv verify model.joblib --allow-pickle rows.csv --rows 1000
"""


def arguments(command: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    model_arguments(command)
    command.add_argument("data", help=f"table of rows to compare on ({', '.join(SUFFIXES)})")
    command.add_argument("--rows", type=positive, help="only the first rows")


def run(options: argparse.Namespace) -> int:
    """Convert, predict with both, and report."""
    import hbconv

    path = Path(options.model)
    if is_saved(path):
        raise OptionError(
            f"{path.name} holds no source to compare with. Give the model file that it was "
            f"converted from: hbconv verify SOURCE {options.data}."
        )
    refuse_trusted(options)
    source = load_source(path, allow_pickle=options.allow_pickle)
    model = hbconv.convert(source, **convert_options(options))
    source = asked_source(source, path)
    if isinstance(source, SparkModel):
        raise OptionError(
            f"{path.name} is a model of Spark, which hbconv does not run. Compare the answers of "
            f"hbconv score {path.name} {options.data} with those of your cluster."
        )
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
