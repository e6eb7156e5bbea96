"""Say in five lines how a model runs, or show its plan, costs, graphs and kernels.

With --json everything is printed.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from hbconv.cli import answer, require_parent
from hbconv.cli.sources import load_model, model_arguments
from hbconv.cli.waiting import waiting
from hbconv.containers.show import dot
from hbconv.errors import OptionError
from hbconv.model import Model
from hbconv.runtime.report.derivations import STAGES

EXAMPLES = """
examples:
  hbconv explain model.hbc
  hbconv explain model.txt --verbose
  hbconv explain model.txt --svg model.svg
  hbconv explain model.hbc --html model.html
"""
HINT = "Costs, graphs and rewrites: --verbose. Kernels: --kernel."


def arguments(command: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    model_arguments(command)
    command.add_argument(
        "--verbose",
        action="store_true",
        help="show costs and refusals, and the graph before and after each rewrite",
    )
    command.add_argument(
        "--kernel",
        action="store_true",
        help="count what the compiled kernels hold, read and write, and predict their operators",
    )
    command.add_argument(
        "--stage",
        metavar="NAME",
        help=f"show what the compiler makes up to a stage: {', '.join(STAGES)}",
    )
    command.add_argument(
        "--dot", metavar="FILE", help="write the optimized graph in graphviz' language"
    )
    command.add_argument("--svg", metavar="FILE", help="draw the optimized graph")
    command.add_argument(
        "--html",
        metavar="FILE",
        help="write a page: graphs before and after, rewrites, plan, kernels; it loads nothing",
    )


def run(options: argparse.Namespace) -> int:
    """Explain, and draw where asked."""
    if options.stage and (options.kernel or options.verbose):
        raise OptionError("--stage shows one stage alone. Leave --kernel and --verbose out.")
    for flag in ("dot", "svg", "html"):
        if output := getattr(options, flag):
            require_parent(Path(output), f"--{flag}")
    with waiting(f"Converting {options.model}"):
        model = load_model(options)
    if options.stage:
        report = model.explain(options.stage)
        answer(options, report.to_dict(), str(report))
    else:
        _explain(model, options)
    if options.dot:
        Path(options.dot).write_text(dot(model.graph), encoding="utf-8")
    if options.svg:
        model.explain().to_svg(options.svg)
    if options.html:
        Path(options.html).write_text(model.explain().to_html(), encoding="utf-8")
    return 0


def _explain(model: Model, options: argparse.Namespace) -> None:
    explanation = model.explain()
    kernels = explanation.kernels if options.kernel else ()
    facts = {"kernels": [kernel.to_dict() for kernel in kernels]} if options.kernel else {}
    text = str(explanation) if options.verbose else f"{explanation.summary}\n{HINT}"
    answer(options, explanation.to_dict() | facts, "\n\n".join([text, *map(str, kernels)]))
