"""What a CUDA device would run for every estimator, on torch's ``meta`` device: no tensor of the
CPU takes part, nothing is read by the host, and nothing is added in an order that may change.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from matrix.case import Case
from matrix.compiled import compiled
from matrix.estimators import first_names
from torch.utils._python_dispatch import TorchDispatchMode

from hbconv.backends.interface import label_tables
from hbconv.backends.torch import TensorModule, Torch
from hbconv.backends.torch import module as torch_module
from hbconv.backends.torch.functions import DTYPES
from hbconv.containers import Output
from hbconv.pipeline import Compilation, Planned
from hbconv.runtime.call.tensor_reader import TensorReader
from hbconv.runtime.programs import Programs
from hbconv.runtime.tied_rows import TiedRows

HOST = {"_local_scalar_dense", "nonzero", "equal", "is_nonzero", "masked_select", "_unique2"}
"""Operators whose result the host waits for."""
ANY_ORDER = {"index_add", "index_add_", "index_put", "index_put_", "scatter_add", "scatter_add_"}
"""Operators that add by atomics on a device."""
ALLOWED = {
    "scatter_add": "weights of distinct columns, and votes, which are whole numbers",
}


class Watch(TorchDispatchMode):
    """Collects what a device would not do well."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        tensors = [a for a in torch.utils._pytree.tree_leaves((args, kwargs)) if torch.is_tensor(a)]
        if any(t.device.type != "meta" for t in tensors):
            self.found.add(f"{name} of a tensor on the CPU")
        if name in HOST:
            self.found.add(f"{name}, which the host waits for")
        if name in ANY_ORDER and tensors[0].is_floating_point() and name not in ALLOWED:
            self.found.add(f"{name}, in any order")
        if name == "cumsum" and tensors[0].is_floating_point() and _scans_alone(args):
            self.found.add("cumsum of a single vector, in parallel")
        out = func(*args, **(kwargs or {}))
        made = [t for t in torch.utils._pytree.tree_leaves(out) if torch.is_tensor(t)]
        if any(t.device.type != "meta" for t in made):
            self.found.add(f"{name} makes a tensor on the CPU")
        return out


def _scans_alone(args: Any) -> bool:
    """Whether a scan has one vector, or goes along rows of memory: devices scan these in parallel."""
    x, dim = args[0], args[1] % args[0].dim()
    return dim == x.dim() - 1 and x.numel() > 0


def program_of(case: Case) -> Any:
    model = compiled(case, "torch")
    target = model.target.replace(device="cuda")
    methods = tuple(model.parsed.exported)
    return Compilation(Planned(model.parsed, model.dtypes, target), methods).prepared


@pytest.mark.parametrize("case", first_names(), ids=str, indirect=True)
@pytest.mark.share("light")
def test_a_device_runs_it_alone(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Torch, "remarks", lambda self, forest, target: ())
    monkeypatch.setattr(torch_module, "_may_look", lambda state: False)
    model = compiled(case, "torch")
    if not model.parsed.tensors or model.reads.entries:
        return
    program = program_of(case)
    module = TensorModule(program, "cuda").to("meta")
    watch = Watch()
    for n in (1, 7):
        inputs = [
            torch.zeros(n, *i.type.shape, dtype=DTYPES[i.type.dtype], device="meta")
            for i in module.inputs
        ]
        with watch:
            module(*inputs)
    assert not watch.found


@pytest.mark.parametrize("case", first_names(), ids=str, indirect=True)
@pytest.mark.share("light")
def test_tensors_stay_on_their_device(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all checks are settled, a copy to the host would fail: it has no values to give."""
    monkeypatch.setattr(Torch, "remarks", lambda self, forest, target: ())
    monkeypatch.setattr(torch_module, "_may_look", lambda state: False)
    monkeypatch.setattr(TensorReader, "_are_ordinary", lambda self, program, table: True)
    monkeypatch.setattr(TensorReader, "_are_flagged", lambda self, values: False)
    monkeypatch.setattr(TiedRows, "_are_tied", lambda self, tied: False)
    model = compiled(case, "torch")
    if len(set(model.dtypes)) > 1 or not isinstance(case.rows(1), np.ndarray):
        return
    programs = Programs(model.parsed, model.target.replace(device="meta"))
    rows = torch.empty(7, model.n_features_in_, dtype=torch.float64, device="meta")
    for method in [m for m, output in model.parsed.outputs.items() if answers_tensors(output)][:1]:
        guard = programs.program((method,), model.dtypes).guard
        reads_other = model.reads.text or model.schema.conventions.sequence
        if guard.needs_host or reads_other:
            return
        found = TensorReader(model.parsed, programs, model.reads, method)(rows)
        for tensor in found if isinstance(found, list) else [found]:
            assert tensor.device.type == "meta"


def answers_tensors(output: Output) -> bool:
    texts = label_tables(output) is None and output.classes is not None
    sparse = output.for_rows(sparse=False).returns_sparse
    return output.is_tensor and not texts and not sparse


def test_the_watch_sees_what_it_looks_for() -> None:
    x = torch.zeros(3, 1, device="meta")
    where = torch.zeros(3, dtype=torch.int64, device="meta")
    watch = Watch()
    with watch:
        x.index_add(0, where, x)
        x.cumsum(1)
        torch.zeros(2)
    assert sorted(watch.found) == [
        "cumsum of a single vector, in parallel",
        "index_add, in any order",
        "zeros makes a tensor on the CPU",
    ]
