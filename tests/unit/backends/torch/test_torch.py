"""What users do with the module: compile, export, trace, move, copy, save; and what the
artifact leaves alone.
"""

from __future__ import annotations

import copy
import io
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from emulated_device import DEVICE, emulate_launches, launched
from fake_streams import FakeDevice
from forests import random_forest
from primitive_cases import CASES, Case
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import hbconv
from hbconv.backends import find_backend
from hbconv.backends.base import SEARCHES_REFUSED
from hbconv.backends.reference import evaluate
from hbconv.backends.torch import TensorModule, TorchArtifact, export_module, find_device
from hbconv.backends.torch.device_trees import DeviceTrees
from hbconv.backends.torch.jit import without_deprecation
from hbconv.backends.torchscript import FILE, TorchScriptArtifact
from hbconv.errors import BackendError, InputError, StoreError
from hbconv.target import Target
from hbconv.tensor import PRIMITIVES, Builder, TensorProgram
from hbconv.tensor.primitives.products import PAIRWISE

TREES = {"tree_scores", "tree_leaves"}
EVERY_PRIMITIVE = [
    next(c for c in CASES if c.primitive == name)
    for name in PRIMITIVES
    if name not in TREES | SEARCHES_REFUSED.keys()
]
EAGER = ("torch", "torchscript")


def pipeline() -> TensorProgram:
    """Scaled numbers beside looked-up codes, through trees and a linear model: numbers that sum
    exactly in any order.
    """
    b = Builder()
    x, codes = b.input("x", "float32", 3), b.input("codes", "int32", 2)
    table = b.constant(np.arange(5.0) / 8, "float32")
    features = b.concat([x * b.constant([2.0, 0.25, 0.125], "float32"), b.lookup(table, codes)])
    forest = random_forest(np.random.default_rng(0), n_trees=8, n_features=5, n_outputs=2)
    scores = b.op("tree_scores", features, forest=forest, strategy="tree_traversal")
    linear = b.matmul(features, b.constant(np.arange(10).reshape(5, 2), "float32"))
    return find_backend("torch").prepare(
        b.program({"scores": scores, "linear": linear, "codes": codes}), Target("torch")
    )


def rows(n: int) -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(n)
    return {
        "x": rng.integers(-9, 9, (n, 3)).astype(np.float32),
        "codes": rng.integers(0, 5, (n, 2), dtype=np.int32),
    }


def tensors(n: int) -> list[torch.Tensor]:
    return [torch.tensor(x) for x in rows(n).values()]


def check_answers(answers: Any, n: int) -> None:
    expected = evaluate(pipeline(), rows(n))
    for got, values in zip(answers, expected.values(), strict=True):
        np.testing.assert_array_equal(got.numpy(), values)


def prepared(case: Case) -> TensorProgram:
    """Write the primitives that torch emits."""
    return find_backend("torch").prepare(case.program(case.dtypes[0]), Target("torch"))


@pytest.mark.share("light")
@pytest.mark.parametrize("case", EVERY_PRIMITIVE, ids=str)
def test_compiles_without_graph_breaks(case: Case) -> None:
    program = prepared(case)
    torch.compiler.reset()
    compiled = torch.compile(TensorModule(program), backend="eager", fullgraph=True, dynamic=True)
    for n in (7, 64):
        check_case(case, program, compiled, n)


@pytest.mark.share("light")
@pytest.mark.parametrize("case", EVERY_PRIMITIVE, ids=str)
def test_exports_for_any_number_of_rows(case: Case) -> None:
    program = prepared(case)
    exported = export_module(TensorModule(program)).module()
    for n in (0, 1, 7):
        check_case(case, program, exported, n)


def check_case(case: Case, program: TensorProgram, function: Any, n: int) -> None:
    inputs = case.rows(n, case.dtypes[0])
    widened = [
        torch.tensor(x.astype(np.int64) if x.dtype == np.int32 else x) for x in inputs.values()
    ]
    answer, expected = function(*widened), evaluate(program, inputs)
    for got, values in zip(
        (answer,) if len(expected) == 1 else answer, expected.values(), strict=True
    ):
        case.agrees(got.numpy().astype(values.dtype), values)


def test_exported_program_is_saved_and_loaded() -> None:
    buffer = io.BytesIO()
    torch.export.save(export_module(TensorModule(pipeline())), buffer)
    buffer.seek(0)
    loaded = torch.export.load(buffer).module()
    for n in (0, 1, 5):
        x, codes = tensors(n)
        check_answers(loaded(x, codes.long()), n)


def test_module_takes_tensors_of_any_number_of_rows() -> None:
    module = TensorModule(pipeline())
    assert module.output_names == ("scores", "linear", "codes")
    for n in (0, 1, 7):
        check_answers(module(*tensors(n)), n)


def test_user_may_trace_the_module() -> None:
    module = TensorModule(pipeline())
    traced = without_deprecation(torch.jit.trace, module, tuple(tensors(4)))
    for n in (0, 1, 7):
        check_answers(traced(*tensors(n)), n)


@pytest.mark.parametrize(
    "convert",
    [lambda m: m.half(), lambda m: m.double(), lambda m: m.to(torch.bfloat16), lambda m: m.float()],
)
def test_dtypes_are_kept(convert: Any) -> None:
    module = TensorModule(pipeline())
    before = {name: buffer.clone() for name, buffer in module.state_dict().items()}
    assert convert(module) is module
    for name, buffer in module.state_dict().items():
        assert buffer.dtype == before[name].dtype
        np.testing.assert_array_equal(buffer.numpy(), before[name].numpy())
    check_answers(module(*tensors(7)), 7)


def test_points_lie_column_by_column_on_the_cpu() -> None:
    b = Builder()
    x = b.input("x", "float64", 3)
    points = b.constant(np.arange(15.0).reshape(5, 3))
    program = b.program({"y": b.op("pairwise", x, points, kind="square", p=2.0)})
    for device, shape in (("cpu", (3, 5)), ("cuda", (5, 3))):
        module = TensorModule(program, device)
        (held,) = module.buffers()
        assert held.is_contiguous()
        assert held.shape == shape
        given = np.ones((2, 3))
        np.testing.assert_array_equal(
            module(torch.tensor(given)), evaluate(program, {"x": given})["y"]
        )


def test_all_constants_move() -> None:
    """On the meta device, an operator that still meets a constant of the CPU raises."""
    module = TensorModule(pipeline()).to("meta")
    assert {buffer.device.type for buffer in module.buffers()} == {"meta"}
    assert [tuple(y.shape) for y in module(*module.example())] == [(2, 2), (2, 2), (2, 2)]


def test_module_stands_inside_another() -> None:
    class Doubled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = TensorModule(pipeline())

        def forward(self, x: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
            return self.inner(x, codes)[1] * 2

    expected = evaluate(pipeline(), rows(7))["linear"] * 2
    np.testing.assert_array_equal(Doubled().half()(*tensors(7)).numpy(), expected)


def test_module_is_copied_and_pickled() -> None:
    module = TensorModule(pipeline())
    check_answers(copy.deepcopy(module)(*tensors(7)), 7)
    buffer = io.BytesIO()
    torch.save(module, buffer)
    buffer.seek(0)
    check_answers(torch.load(buffer, weights_only=False)(*tensors(7)), 7)


@pytest.mark.parametrize(
    ("x", "codes", "message"),
    [
        (
            torch.zeros(4, 2),
            torch.zeros(4, 2, dtype=torch.int64),
            r"'x' is float32\[4, 2\]; .* float32\[n, 3\]",
        ),
        (
            torch.zeros(4, 3, dtype=torch.float64),
            torch.zeros(4, 2, dtype=torch.int64),
            r"'x' is float64\[4, 3\]",
        ),
        (torch.zeros(3), torch.zeros(4, 2, dtype=torch.int64), r"'x' is float32\[3\]"),
        (torch.zeros(4, 3), torch.zeros(4, 2), r"'codes' is float32\[4, 2\]; .* int32\[n, 2\]"),
    ],
)
def test_module_refuses_other_inputs(x: torch.Tensor, codes: torch.Tensor, message: str) -> None:
    with pytest.raises(InputError, match=message):
        TensorModule(pipeline())(x, codes)


@pytest.mark.parametrize("name", EAGER)
def test_inputs_are_left_alone(name: str) -> None:
    """Read-only arrays are taken, writeable ones stay as they were."""
    artifact = find_backend(name).compile(pipeline(), Target(name))
    inputs, given = rows(7), rows(7)
    artifact.run(given)
    frozen = {key: x.copy() for key, x in inputs.items()}
    for x in frozen.values():
        x.setflags(write=False)
    answers = artifact.run(frozen)
    for key, x in inputs.items():
        np.testing.assert_array_equal(given[key], x)
    np.testing.assert_array_equal(answers["scores"], evaluate(pipeline(), inputs)["scores"])


@pytest.mark.parametrize("name", EAGER)
@pytest.mark.parametrize("n", [1, 7])
def test_answers_belong_to_the_caller(name: str, n: int) -> None:
    """Writing into them changes neither the inputs nor the model."""
    b = Builder()
    x = b.input("x", "float32", 3)
    constant = b.op("expand", x, b.constant([1.0, 2.0], "float32"))
    artifact = find_backend(name).compile(
        b.program({"same": x, "other": b.reshape(x, 1, 3), "constant": constant}), Target(name)
    )
    given = rows(n)["x"]
    first = artifact.run({"x": given})
    for answer in first.values():
        assert answer.flags.c_contiguous
        answer[...] = 99
    np.testing.assert_array_equal(given, rows(n)["x"])
    second = artifact.run({"x": given})
    np.testing.assert_array_equal(second["same"], given)
    np.testing.assert_array_equal(second["constant"], np.tile(np.float32([1, 2]), (n, 1)))


def on_recorder(program: TensorProgram) -> tuple[Any, FakeDevice]:
    """Return an artifact as it is on a device, and what its streams were told."""
    device = FakeDevice()
    module = TensorModule(program, "cuda").eval()
    return TorchArtifact(module, program.types, Target("torch"), device), device


def test_a_device_replays_programs_of_many_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    emulate_launches(monkeypatch)
    monkeypatch.setattr(DeviceTrees, "forward", lambda trees, x: trees.compute(x, DEVICE))
    artifact, device = on_recorder(pipeline())
    for n in (7, 8, 5, 6):
        want = evaluate(pipeline(), rows(n))
        tensors = {name: torch.tensor(array) for name, array in rows(n).items()}
        answers = (artifact.run(rows(n)), artifact.compute(tensors))
        for name, expected in want.items():
            for found in (answers[0][name], answers[1][name].numpy()):
                assert found.dtype == expected.dtype
                np.testing.assert_array_equal(found, expected)
    assert device.told == ["capture", *["replay"] * 6]
    assert "few" in launched


def test_a_device_launches_a_forest_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    emulate_launches(monkeypatch)
    monkeypatch.setattr(DeviceTrees, "forward", lambda trees, x: trees.compute(x, DEVICE))
    forest = random_forest(np.random.default_rng(0), n_trees=8, n_features=3, n_outputs=2)
    b = Builder()
    x = b.input("x", "float32", 3)
    scores = b.op("tree_scores", x, forest=forest, strategy="tree_traversal")
    artifact, device = on_recorder(b.program({"scores": scores}))
    given = rows(5)["x"]
    for _ in range(4):
        found = artifact.compute({"x": torch.tensor(given)})["scores"]
        np.testing.assert_array_equal(found.numpy(), forest.scores(given))
    assert not device.told


def test_number_of_threads_is_put_back() -> None:
    artifact: Any = find_backend("torch").compile(pipeline(), Target("torch", threads=2))
    seen = []
    artifact.module.register_forward_hook(lambda *_: seen.append(torch.get_num_threads()))
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        artifact.run(rows(7))
        assert (seen, torch.get_num_threads()) == ([2], 1)
        with pytest.raises(InputError):
            artifact.run({**rows(7), "x": np.zeros((7, 9), np.float32)})
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("name", EAGER)
def test_threads_may_share_an_artifact(name: str) -> None:
    artifact = find_backend(name).compile(pipeline(), Target(name))
    sizes = [1, 0, 7, 64, 1000, 3] * 5
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda n: artifact.run(rows(n))["scores"], sizes))
    for n, answer in zip(sizes, answers, strict=True):
        np.testing.assert_array_equal(answer, evaluate(pipeline(), rows(n))["scores"])


@pytest.mark.parametrize("name", EAGER)
def test_missing_device_is_refused(name: str) -> None:
    with pytest.raises(BackendError, match=r"'cuda:99' does not exist: torch .* Use device='cpu'"):
        find_backend(name).compile(pipeline(), Target(name, device="cuda:99"))


def test_torchscript_file_is_loaded_again() -> None:
    backend, target = find_backend("torchscript"), Target("torchscript")
    files = backend.compile(pipeline(), target).files()
    assert list(files) == [FILE]
    loaded = backend.load(files, pipeline().types, target)
    for n in (0, 1, 7):
        answers, expected = loaded.run(rows(n)), evaluate(pipeline(), rows(n))
        for name, values in expected.items():
            np.testing.assert_array_equal(answers[name], values)
            assert answers[name].dtype == values.dtype


LOOPS = [
    *(("pairwise", {"kind": kind, "p": 2.0}) for kind in sorted(PAIRWISE)),
    ("nearest_donors", {"k": 2}),
]


@pytest.mark.parametrize(("primitive", "attributes"), LOOPS)
def test_a_trace_holds_distances_as_a_loop(primitive: str, attributes: dict[str, Any]) -> None:
    """A trace of 527 features had some operators for each, and took 2 s."""
    counts = []
    for width in (33, 500):
        b = Builder()
        values = np.where(np.eye(3, width) > 0, np.nan, 1.0)
        x, points = b.input("x", "float64", width), b.constant(values)
        program = b.program({"y": b.op(primitive, x, points, **attributes)})
        artifact = find_backend("torchscript").compile(program, Target("torchscript"))
        counts.append(str(artifact.module.inlined_graph).count("aten::"))
    assert counts[0] == counts[1]


def test_damaged_torchscript_file_is_refused() -> None:
    backend, target = find_backend("torchscript"), Target("torchscript")
    content = backend.compile(pipeline(), target).files()[FILE]
    for damaged in (b"", b"no file", content[: len(content) // 2]):
        with pytest.raises(StoreError, match=FILE):
            backend.load({FILE: damaged}, pipeline().types, target)
    assert backend.load({}, pipeline().types, target) is None


def test_torchscript_file_needs_torch_alone(tmp_path: Any) -> None:
    (tmp_path / FILE).write_bytes(
        find_backend("torchscript").compile(pipeline(), Target("torchscript")).files()[FILE]
    )
    for n in (0, 1, 7):
        torch.save(tensors(n), tmp_path / f"rows{n}.pt")
    script = (
        "import sys, torch\n"
        f"model = torch.jit.load({FILE!r})\n"
        "for n in (0, 1, 7):\n"
        "    torch.save(model(*torch.load(f'rows{n}.pt')), f'answers{n}.pt')\n"
        "assert 'hbconv' not in sys.modules\n"
    )
    subprocess.run(
        [sys.executable, "-I", "-c", script], cwd=tmp_path, check=True, capture_output=True
    )
    for n in (0, 1, 7):
        check_answers(torch.load(tmp_path / f"answers{n}.pt"), n)


@pytest.mark.parametrize("backend", ["torch", "torchscript"])
def test_autocast_around_a_call_changes_no_answer(backend: str) -> None:
    """It would compute products in bfloat16."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 20)).astype(np.float32)
    source = make_pipeline(StandardScaler(), LogisticRegression()).fit(x, x[:, 0] > 0)
    model = hbconv.convert(source, backend=backend, sample=x[:5])
    want, one = model.predict_proba(x), model.predict_proba(x[:1])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (torch.ones(1, 1) @ torch.ones(1, 1)).dtype == torch.bfloat16
        np.testing.assert_array_equal(model.predict_proba(x), want)
        np.testing.assert_array_equal(model.predict_proba(x[:1]), one)
        if backend == "torch":
            found = model.module(torch.tensor(x))
            np.testing.assert_array_equal(found[1].numpy(), want)


def test_a_device_has_a_number_whatever_the_current_one_is(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    for name, number in (("cuda", 0), ("cuda:0", 0), ("cuda:1", 1)):
        assert find_device(Target(device=name)) == torch.device("cuda", number)
    with pytest.raises(BackendError, match="sees 2 CUDA devices"):
        find_device(Target(device="cuda:2"))


@pytest.fixture
def _fuser():
    """Let torch compile chains of operators on the CPU too, of which its wheels are not able."""
    before = torch._C._jit_can_fuse_on_cpu(), torch._C._jit_texpr_fuser_enabled()
    torch._C._jit_override_can_fuse_on_cpu(True)
    torch._C._jit_set_texpr_fuser_enabled(True)
    yield
    torch._C._jit_override_can_fuse_on_cpu(before[0])
    torch._C._jit_set_texpr_fuser_enabled(before[1])


@pytest.mark.usefixtures("_fuser")
def test_a_traced_module_is_not_fused_on_a_device(monkeypatch):
    """Torch compiles at the third call. The CPU stands for a device, and its answers are exact."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    traced = find_backend("torchscript").compile(pipeline(), Target("torchscript"))
    target = Target("torchscript", device="cuda")
    on_device = TorchScriptArtifact(traced.module, pipeline().types, target)
    with torch.no_grad():
        for _ in range(4):
            check_answers(on_device.call(*tensors(9)), 9)
    assert torch._C._get_graph_executor_optimize()
