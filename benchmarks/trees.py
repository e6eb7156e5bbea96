"""Time tree ensembles on hbconv's backends beside their peers, by turns in one process.

    taskset -c 0 python benchmarks/trees.py [--models lightgbm-8 ...] [--rows 1 20000]
        [--threads 1] [--folder DIR] [--json FILE]
    python benchmarks/trees.py --list

The peers are the source library, ONNX Runtime, oneDAL, lleaves, treelite, tl2cgen, YDF, Snap ML
and lignum.
Everything is counted, from a row-major float32 matrix to the answer. Answers are compared with the
source's before anything is timed. Figures are medians with their quartiles; machines drift, so
quote ratios of one run. YDF reads ``gradient-8``, ``gradient-31``, ``gradient-d8`` and ``forest``.
With ``--threads 2`` or more, the compiled model runs on one thread too, by turns with several.
"""

from __future__ import annotations

from typing import Any

from comparing import compare, options
from models import SUBJECTS
from peers import ONE_THREAD, TREE_PEERS
from results import parse_options, save

MODELS = ("lightgbm-8", "lightgbm-31", "lightgbm-d8")
ROWS = (1, 16, 100, 1000, 20_000)
SHORT_PEERS = (
    *("source", "onnxruntime", "onedal", "snapml", "ydf"),
    *("hbconv torchscript", "hbconv tvm", "hbconv tvm fast", "hbconv tvm bound"),
)
OWN = ("hbconv tvm", "hbconv tvm fast", "hbconv tvm bound")


def main() -> None:
    """Run the benchmark."""
    parser = options(__doc__, SUBJECTS, MODELS, list(TREE_PEERS), ROWS)
    parser.add_argument("--list", action="store_true", help="name all models")
    chosen = parse_options(
        parser,
        models=["lightgbm-8", "lightgbm-31", "xgboost-d6", "gradient-8"],
        peers=list(SHORT_PEERS),
        rows=[1, 100, 20_000],
        seconds=0.3,
        longest=5.0,
    )
    if chosen.list:
        print("\n".join(f"{name:<32} {subject.about}" for name, subject in SUBJECTS.items()))
        return
    figures = compare([SUBJECTS[name] for name in chosen.models], chosen)
    print_goals(figures)
    print_scaling(figures)
    save(figures, chosen)


def print_goals(figures: list[dict[str, Any]]) -> None:
    """Print the ratio of the fastest peer to the compiled kernels, by model and rows."""
    print(
        "\n"
        + " ".join(
            [f"{'model':<24} {'rows':>9}  {'fastest peer':<20}", *(f"{name:>17}" for name in OWN)]
        )
    )
    for model, rows in dict.fromkeys((figure["model"], figure["rows"]) for figure in figures):
        here = {
            figure["contender"]: figure["median"]
            for figure in figures
            if (figure["model"], figure["rows"]) == (model, rows) and not figure["wrong"]
        }
        peers = {name: median for name, median in here.items() if not name.startswith("hbconv")}
        if peers:
            best = min(peers, key=peers.__getitem__)
            ratios = [
                f"{peers[best] / here[name]:>16.1f}x" if name in here else "-".rjust(17)
                for name in OWN
            ]
            print(" ".join([f"{model:<24} {rows:>9,}  {best:<20}", *ratios]))


def print_scaling(figures: list[dict[str, Any]]) -> None:
    """Print how many times as fast as one thread several are, by median and by fastest call."""
    of = {(figure["model"], figure["rows"], figure["contender"]): figure for figure in figures}
    for (model, rows, contender), one in of.items():
        if contender == ONE_THREAD and (many := of.get((model, rows, "hbconv tvm"))):
            print(
                f"{model:<24} {rows:>9,} rows, {many['threads']} threads:",
                f"{one['median'] / many['median']:.2f} times one by median,",
                f"{one['fastest'] / many['fastest']:.2f} by the fastest call",
            )


if __name__ == "__main__":
    main()
