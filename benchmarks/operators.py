"""Time single operators of scikit-learn beside the library itself, by turns in one process.

    taskset -c 0 python benchmarks/operators.py [--models LogisticRegression ...]
        [--rows 1 1000000] [--json FILE]

The operators are those of tables 11 and 12 of the Hummingbird paper (OSDI'20). As in the paper,
the data has 20 features and 3 classes, and 150 rows to fit to, as many as Iris has. Other rows of
the same kind are scored, all of them float32.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from comparing import compare, options
from models import Subject
from paper_models import OPERATORS
from results import parse_options, save

from hbconv_datasets import generated

PEERS = (
    "source",
    "onnxruntime",
    "onnxruntime float32",
    "hbconv torch",
    "hbconv torchscript",
    "hbconv tvm",
    "hbconv tvm fast",
)


def fit(operator: Any, X: Any, y: Any) -> Any:
    """Fit to as many rows as Iris has."""
    return operator.fit(X[:150], y[:150])


def subjects() -> dict[str, Subject]:
    """Return the operators by name."""
    draw = partial(generated.numbers, 20, classes=3)
    names = [type(operator).__name__ for operator in OPERATORS]
    return {
        name: Subject(name, "20 features, 3 classes", draw, partial(fit, operator))
        for name, operator in zip(names, OPERATORS, strict=True)
    }


def main() -> None:
    """Run the benchmark."""
    known = subjects()
    parser = options(__doc__, known, list(known), PEERS, (1, 100_000))
    chosen = parse_options(
        parser, peers=["source", "onnxruntime", "hbconv tvm"], rows=[1, 10_000], seconds=0.1
    )
    save(compare([known[name] for name in chosen.models], chosen), chosen)


if __name__ == "__main__":
    main()
