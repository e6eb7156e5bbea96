"""Describe a model and this machine for a bug report, without any value of yours.

Versions, processor and plan are printed. The folder of -o gets a model of the same structure whose
numbers, names and texts are noise, with a script that runs it. Without a model only the machine is
described.
"""

from __future__ import annotations

import argparse
import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

from hbconv.backends import backend_names, find_backend
from hbconv.cli import answer
from hbconv.cli.sources import load_model, model_arguments
from hbconv.cli.waiting import waiting
from hbconv.errors import HbconvError, MissingPackageError, OptionError, UnsupportedError
from hbconv.model import Model
from hbconv.runtime.report.noise import make_noise, without_data
from hbconv.system.processor import find_flags, find_processor

__all__: list[str] = []

EXAMPLES = """
examples:
  hbconv report
  hbconv report model.joblib --allow-pickle -o report
"""
ROWS = 1_000
"""Rows of noise that the model is run with."""
SCRIPT = '''"""A model of the same structure as one that has a bug; its values are noise."""

import hbconv
from hbconv.runtime.report.noise import make_noise

model = hbconv.load("reproducer.hbc")
judge = hbconv.load("reproducer.hbc", backend="reference")
print(hbconv.verify(judge, model, make_noise(model.parsed, {rows})))
'''


def arguments(command: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    model_arguments(command, nargs="?")
    command.add_argument(
        "-o", "--output", metavar="FOLDER", help="folder to write, which is not there yet"
    )


def run(options: argparse.Namespace) -> int:
    """Describe the machine, then the model, and write what repeats the bug."""
    if options.output and options.model is None:
        raise OptionError("-o is for the reproducer of a model. Name the model file.")
    if options.output and Path(options.output).exists():
        raise OptionError(f"-o {options.output} is there already. Name a new folder.")
    parts = {"machine": describe_environment()}
    if options.model is not None:
        parts["model"] = _describe_model(options)
    lines = [
        f"{name}: {value}" for facts in parts.values() for name, value in facts.items() if value
    ]
    text = "\n".join(lines)
    if options.output and "reproducer" in parts["model"]:
        Path(options.output, "report.txt").write_text(text + "\n", encoding="utf-8")
    answer(options, parts, text)
    return 0


def _describe_model(options: argparse.Namespace) -> dict[str, str]:
    """Return what may be told of a model: its kind, its plan, and how noise is answered."""
    with waiting(f"Converting {options.model}"):
        try:
            model = load_model(options)
        except UnsupportedError as error:
            # The message quotes the value of the parameter, which may be the user's.
            return {"refused": f"{error.estimator}, parameter {error.parameter}"}
    try:
        noise = Model(without_data(model.parsed), model.target)
    except (HbconvError, ValueError) as error:
        return {"no reproducer": f"noise does not make such a model: {type(error).__name__}"}
    facts: dict[str, Any] = {"plan": f"\n{noise.explain().summary}\n{noise.plan}"}
    with waiting("Running the model of noise"):
        facts["answers"] = _verify(noise)
    if options.output:
        folder = Path(options.output)
        folder.mkdir()
        noise.save(folder / "reproducer.hbc")
        (folder / "reproduce.py").write_text(SCRIPT.format(rows=ROWS), encoding="utf-8")
        facts["reproducer"] = f"{folder}: report.txt, reproducer.hbc, reproduce.py"
    return facts


def _verify(noise: Model) -> str:
    """Return how the backend answers beside the reference, or the error."""
    import hbconv

    judge = noise.for_target(backend="reference", device="cpu")
    try:
        return f"\n{hbconv.verify(judge, noise, make_noise(noise.parsed, ROWS))}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"


PACKAGES = (
    *("hbconv", "numpy", "scikit-learn", "lightgbm", "xgboost", "catboost", "pandas", "pyarrow"),
    *("apache-tvm", "torch", "onnx", "onnxruntime", "safetensors"),
)
FEATURES = ("avx2", "fma", "avx512f", "avx512vbmi", "asimd", "sve")
"""Of processors, those that kernels use."""


def describe_environment() -> dict[str, str]:
    """Return facts by their names, without paths, users or hosts."""
    return {
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "Python": platform.python_version(),
        **{name: version for name in PACKAGES if (version := _version(name))},
        "backends": ", ".join(name for name in backend_names() if _is_ready(name)),
        "HBCONV_MACHINE": os.environ.get("HBCONV_MACHINE", ""),
    }


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _is_ready(name: str) -> bool:
    try:
        find_backend(name).require_packages()
    except MissingPackageError:
        return False
    return True


def _processor() -> str:
    """Return the processor's name and the features that kernels use."""
    flags = find_flags()
    return " ".join([find_processor(), *(name for name in FEATURES if name in flags)])
