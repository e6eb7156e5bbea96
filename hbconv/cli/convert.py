"""Convert a model file and save it, or export it for another runtime.

The suffix of the output decides: .hbc (hbconv's own), .onnx, .pt (TorchScript),
.pt2 (torch.export).
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from hbconv.cli import answer
from hbconv.cli.outputs import check_folder
from hbconv.cli.sources import load_model, model_arguments
from hbconv.compiler import tune_model
from hbconv.runtime.storage.export import find_writer


def arguments(command: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    model_arguments(command)
    command.add_argument(
        "-o", "--output", required=True, help="file to write: .hbc, .onnx, .pt or .pt2"
    )
    command.add_argument(
        "--tune",
        nargs="?",
        const=True,
        type=float,
        metavar="SECONDS",
        help="time the ways to compile that are nearest in prediction, for about a second",
    )


def run(options: argparse.Namespace) -> int:
    """Convert and write."""
    check_folder(Path(options.output))
    if Path(options.output).suffix != ".hbc":
        find_writer(options.output)
    began = time.perf_counter()
    model = tune_model(load_model(options), options.tune)
    model.export(options.output)
    seconds = time.perf_counter() - began
    size = Path(options.output).stat().st_size
    result = {
        "output": str(options.output),
        "bytes": size,
        "seconds": round(seconds, 3),
        "backend": model.backend,
        "methods": list(model.methods),
        "tuned": model.explain().tuning.splitlines(),
    }
    answer(
        options,
        result,
        f"{options.output}: {size:,} bytes, methods {', '.join(model.methods)}, "
        f"converted in {seconds:.2f} s",
    )
    return 0
