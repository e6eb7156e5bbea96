"""Predict, and on a CUDA device measure, the kernels of trees.

    python benchmarks/gpu.py [--models lightgbm-8 ...] [--rows 1 16 1000 1000000] [--folder DIR]
        [--peers nvforest ...] [--peer-rows 1 1000000] [--write docs/gpu.md] [--json FILE]

Without a device it prints what each kernel is predicted to take. With one, it first compares every
kernel's leaves and sums with the forest's own, bit for bit. Then it times each, beside its peers on
the same device: torch's plain operators, eager and compiled, XGBoost's own predictor, and nvForest
where it is installed. A mixed pipeline stands beside its trees alone. Times are those of a caller,
who waits for the answer: medians with their quartiles. Beside them stand medians of the device's
own clock. ``--write`` puts the tables into a page: predictions and measurements apart.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from statistics import median, quantiles
from tempfile import mkdtemp
from typing import Any

import numpy as np
import torch
from gpu_page import show, write
from gpu_peers import peers
from gpu_pipeline import mixed_pipeline
from models import SUBJECTS

import hbconv
from hbconv.backends.cuda.choose import Candidate, TreeKernels
from hbconv.backends.cuda.clocks import A100, H100, Device
from hbconv.backends.torch.device_trees import DeviceTrees, find_kernels
from hbconv.backends.torch.launches import describe_device
from hbconv.backends.torch.module import TensorModule
from hbconv.containers import TreeEnsemble
from hbconv.forest import Forest
from hbconv.parse import parse
from hbconv.tensor import Builder

MODELS = ("lightgbm-8", "lightgbm-31", "lightgbm-d8", "xgboost-d6")
ROWS = (1, 16, 64, 256, 1024, 4096, 16_384, 100_000, 1_000_000)
CLOCK = 1.755e9
"""Clocks a second that predictions assume, of an H100."""
REPEATS = 15
PEER_ROWS = (1, 1024, 100_000, 1_000_000)
CHECKED_ROWS = (1, 33, 1025, 3000)
FEW_ROWS = (1, 256, 4096)
"""Rows of calls of pipelines that are mostly the host's work."""


def main() -> None:
    """Run the benchmark."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--models", nargs="+", default=MODELS, choices=SUBJECTS)
    options.add_argument("--rows", nargs="+", type=int, default=ROWS)
    options.add_argument("--peers", nargs="*", help="beginnings of the names of peers to time")
    options.add_argument("--peer-rows", nargs="+", type=int, default=PEER_ROWS)
    options.add_argument("--folder", type=Path, help="keep fitted models here")
    options.add_argument("--write", type=Path, help="page whose tables to replace")
    options.add_argument("--json", type=Path)
    chosen = options.parse_args()
    folder = chosen.folder or Path(mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    models = {name: SUBJECTS[name].fitted(folder).model for name in chosen.models}
    forests = {name: forest_of(model) for name, model in models.items()}
    figures = {"predicted": list(predictions(forests)), "measured": []}
    show("predicted", figures["predicted"])
    if torch.cuda.is_available():
        figures["device"] = torch.cuda.get_device_name()
        figures["measured"] = [
            *measurements(forests, chosen.rows),
            *(row for name in models for row in timed_peers(name, models, forests, folder, chosen)),
            *timed_pipelines(),
        ]
        show("measured", figures["measured"])
    else:
        print("\nNo CUDA device: nothing was measured.")
    if chosen.json:
        chosen.json.write_text(json.dumps(figures, indent=1) + "\n")
    if chosen.write:
        write(chosen.write, figures)


def forest_of(model: Any) -> Forest:
    """Return the forest of a model."""
    return next(node.forest for node in parse(model).nodes() if isinstance(node, TreeEnsemble))


def predictions(forests: dict[str, Forest]) -> Iterator[dict[str, Any]]:
    """Predict each kernel that takes a forest on two devices."""
    for name, forest in forests.items():
        for label, device in (("H100", H100), ("A100", A100)):
            kernels = TreeKernels(forest, "float32", True, device)
            for candidate in kernels.candidates():
                yield {
                    "model": name,
                    "device": label,
                    "kernel": kernel_of(candidate),
                    "chosen": "yes" if candidate is best(kernels, candidate) else "",
                    "clocks a row": round(candidate.clocks.total, 1),
                    "limit": candidate.clocks.limit,
                    "shared bytes": candidate.shared_bytes,
                    "rows before": kernels.few_rows,
                }


def best(kernels: TreeKernels, candidate: Candidate) -> Candidate | None:
    """Return the candidate if it is the one that is chosen for batches."""
    return candidate if kernel_of(kernels.batch) == kernel_of(candidate) else None


def kernel_of(candidate: Candidate) -> str:
    """Name the kernel that goes through the trees, with its tile."""
    constants = dict(candidate.main.constants)
    rows = {32: "1,024", 16: "512"}.get(constants.get("LANES"), "")
    return f"{candidate.main.name}, {rows} rows" if rows else candidate.main.name


def measurements(forests: dict[str, Forest], rows: list[int]) -> Iterator[dict[str, Any]]:
    """Check and time each kernel, and the plain operators, on this device."""
    device = describe_device(torch.device("cuda", torch.cuda.current_device()))
    for name, forest in forests.items():
        trees = device_trees(forest)
        kernels = find_kernels(forest, "float32", True, device)
        for candidate in (kernels.few, *kernels.candidates()):
            check(trees, candidate, forest)
        for count in rows:
            yield from timed_rows(name, forest, trees, kernels, count, device)


def timed_peers(
    name: str,
    models: dict[str, Any],
    forests: dict[str, Forest],
    folder: Path,
    chosen: argparse.Namespace,
) -> Iterator[dict[str, Any]]:
    """Time what else computes a forest; what fails, for want of memory or a version, is named."""
    for peer, call in peers(models[name], forests[name], folder):
        if chosen.peers is not None and not peer.startswith(tuple(chosen.peers)):
            continue
        for count in chosen.peer_rows:
            x = torch.randn(count, forests[name].n_features, device="cuda")
            try:
                yield row_of(name, count, peer, lambda call=call, x=x: call(x))
            except Exception as error:
                print(f"{peer} of {name}, {count:,} rows: {type(error).__name__}: {error}"[:300])


def timed_pipelines() -> Iterator[dict[str, Any]]:
    """Time a mixed pipeline beside its trees, and arrays of the host beside their copy."""
    data, source = mixed_pipeline()
    for backend in ("torch", "tvm") if find_spec("tvm") else ("torch",):
        for label, model, rows in (
            (f"mixed pipeline, {backend}", source, data),
            (f"its trees alone, {backend}", source[-1], source[:-1].transform(data)),
        ):
            on_device = hbconv.convert(model, backend=backend, device="cuda")
            for count in (*FEW_ROWS, len(rows)):
                x = torch.tensor(rows[:count], device="cuda")
                call = lambda m=on_device, x=x: m.decision_function(x)  # noqa: E731
                yield row_of(label, count, "tensors", call)
        on_device = hbconv.convert(source, backend=backend, device="cuda")
        call = lambda m=on_device: m.decision_function(data)  # noqa: E731
        yield row_of(f"mixed pipeline, {backend}", len(data), "host arrays", call)
    pinned = torch.tensor(data).pin_memory()
    copy = lambda: pinned.to("cuda")  # noqa: E731
    yield row_of("copy to the device", len(data), "pinned memory", copy)


def row_of(model: str, count: int, way: str, call: Callable[[], Any]) -> dict[str, Any]:
    """Time a call, and write a line of the table of measurements."""
    low, middle, high = quantiles(caller_seconds(call), n=4)
    row = {
        "model": model,
        "rows": count,
        "kernel": way,
        "microseconds": round(middle * 1e6, 1),
        "quartiles": f"{low * 1e6:.1f} to {high * 1e6:.1f}",
        "rows a second": f"{count / middle:.3g}",
        "device microseconds": "",
        "predicted, without launch": "",
    }
    print(*row.values(), sep=", ", flush=True)
    return row


def timed_rows(
    name: str, forest: Forest, trees: DeviceTrees, kernels: TreeKernels, count: int, device: Device
) -> Iterator[dict[str, Any]]:
    """Time all ways to compute some rows."""
    x = torch.randn(count, forest.n_features, device="cuda")
    ways: dict[str, tuple[Callable[[], Any], float]] = {}
    for candidate in (kernels.few, *kernels.candidates()):
        seconds = candidate.clocks.total * count / device.processors / CLOCK
        if not (candidate is kernels.few and count > 100_000):
            call = lambda candidate=candidate: trees.run(x, candidate)  # noqa: E731
            ways[kernel_of(candidate)] = call, seconds
    for way, (call, predicted) in ways.items():
        yield {
            **row_of(name, count, way, call),
            "device microseconds": round(median(device_seconds(call)) * 1e6, 1),
            "predicted, without launch": round(predicted * 1e6, 1),
        }


def device_trees(forest: Forest) -> DeviceTrees:
    """Return the module of a forest on the device."""
    b = Builder()
    x = b.input("x", "float32", forest.n_features)
    scores = b.op("tree_scores", x, forest=forest, strategy="tree_traversal")
    module = TensorModule(b.program({"y": scores}), "cuda").to("cuda")
    return next(m for m in module.modules() if isinstance(m, DeviceTrees))


def check(trees: DeviceTrees, candidate: Candidate, forest: Forest) -> None:
    """Compare a kernel's sums with the forest's own, to the last bit."""
    rng = np.random.default_rng(0)
    thresholds = forest.threshold.data.astype(np.float32)
    for count in CHECKED_ROWS:
        x = rng.choice([*thresholds, np.nan, np.inf, -np.inf, 0.0], (count, forest.n_features))
        rows = x.astype(np.float32)
        got = trees.run(torch.tensor(rows, device="cuda"), candidate).cpu().numpy()
        if got.tobytes() != forest.scores(rows).tobytes():
            raise SystemExit(f"{candidate} is wrong for {count} rows: nothing is timed.")


def caller_seconds(call: Callable[[], Any]) -> list[float]:
    """Return seconds of calls by the host's clock, each until the device has done everything.

    The third call may capture a graph.
    """
    for _ in range(4):
        call()
    seconds = []
    for _ in range(REPEATS):
        torch.cuda.synchronize()
        began = time.perf_counter()
        call()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - began)
    return seconds


def device_seconds(call: Callable[[], Any]) -> list[float]:
    """Return seconds of what calls put on torch's stream, by the device's clock."""
    seconds = []
    for _ in range(REPEATS):
        begin = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        begin.record()
        call()
        end.record()
        end.synchronize()
        seconds.append(begin.elapsed_time(end) * 1e-3)
    return seconds


if __name__ == "__main__":
    main()
