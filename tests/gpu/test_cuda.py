"""The torch backends on a CUDA device: the same answers as on the CPU. Run with ``make gpu``
where there is one.
"""

from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from sources import dense
from torch.export.passes import move_to_device_pass

import hbconv
from hbconv.backends.torch import device_calls, jit
from hbconv.backends.torch.device_calls import Cuda
from hbconv.backends.torch.functions import pairwise

X = np.random.default_rng(0).normal(size=(500, 8)).astype(np.float32)
ROOM = 1 << 30
Y = (X[:, 0] + X[:, 1] * X[:, 2] > 0).astype(int)


def lightgbm():
    from lightgbm import LGBMClassifier

    return LGBMClassifier(n_estimators=20, verbose=-1)


def xgboost():
    from xgboost import XGBClassifier

    return XGBClassifier(n_estimators=20)


ESTIMATORS = {
    "linear": lambda: make_pipeline(
        StandardScaler(), PolynomialFeatures(), LogisticRegression(max_iter=500)
    ),
    "forest": lambda: RandomForestRegressor(n_estimators=20, max_depth=6, random_state=0),
    "lightgbm": lightgbm,
    "xgboost": xgboost,
}


@cache
def fitted(name):
    return ESTIMATORS[name]().fit(X, Y)


@pytest.mark.parametrize("backend", ["torch", "torchscript"])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_cuda_answers_as_the_cpu(name, backend):
    estimator = fitted(name)
    model = hbconv.convert(estimator, backend=backend, device="cuda")
    on_cpu = hbconv.convert(estimator, backend=backend)
    for rows in (X, X[:1], X[:0], X.astype(np.float64)):
        for method in model.methods:
            # Products of matrices add in another order on a GPU; trees do not depend on it.
            np.testing.assert_allclose(
                dense(getattr(model, method)(rows)),
                dense(getattr(on_cpu, method)(rows)),
                rtol=1e-4,
                atol=1e-5,
            )


@pytest.mark.parametrize("strategy", ["gemm", "tree_traversal", "perfect_tree_traversal", "select"])
def test_every_strategy_reaches_the_same_leaves_on_cuda(strategy):
    forest = fitted("forest")
    model = hbconv.convert(forest, backend="torch", device="cuda", strategy=strategy)
    np.testing.assert_array_equal(model.apply(X), forest.apply(X))


def test_a_model_moves_between_devices():
    model = hbconv.convert(fitted("linear"), backend="torch")
    before = model.predict_proba(X)
    np.testing.assert_allclose(model.to("cuda").predict_proba(X), before, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(model.to("cpu").predict_proba(X), before)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_tensors_are_answered_on_the_device(name):
    model = hbconv.convert(fitted(name), backend="torch", device="cuda")
    for rows in (X, X[:1], X[:0]):
        for method in model.methods:
            if method == "decision_path":
                continue
            got = getattr(model, method)(torch.tensor(rows, device="cuda"))
            assert got.is_cuda
            np.testing.assert_array_equal(got.cpu().numpy(), getattr(model, method)(rows))


def test_arrays_of_cupy_are_answered_by_cupy():
    cupy = pytest.importorskip("cupy", reason="cupy is optional: its wheels are for one CUDA each")
    model = hbconv.convert(fitted("xgboost"), backend="torch", device="cuda")
    got = model.predict_proba(cupy.asarray(X))
    assert isinstance(got, cupy.ndarray)
    np.testing.assert_array_equal(cupy.asnumpy(got), model.predict_proba(X))


@pytest.mark.parametrize("name", ESTIMATORS)
def test_chunks_and_graphs_answer_as_one_call(name, monkeypatch):
    source = fitted(name)
    model = hbconv.convert(source, backend="torch", device="cuda")
    method = "predict_proba" if hasattr(source, "predict_proba") else "predict"
    rows = np.random.default_rng(1).normal(size=(20_000, 8)).astype(np.float32)
    want = getattr(model, method)(torch.tensor(rows, device="cuda")).cpu().numpy()
    monkeypatch.setattr(device_calls, "CHUNK_BYTES", 1)
    monkeypatch.setattr(device_calls, "PAGEABLE_BYTES", 1)
    for _ in range(2):
        # Products of matrices may add in another order for another number of rows.
        np.testing.assert_allclose(getattr(model, method)(rows), want, rtol=1e-5, atol=1e-6)
    for n in (100, 100, 100, 90, 128):
        got = getattr(model, method)(rows[:n])
        np.testing.assert_allclose(got, want[:n], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("backend", ["torch", "tvm"])
@pytest.mark.parametrize("name", ["linear", "lightgbm"])
def test_tensors_that_come_again_are_answered_alike(name, backend):
    """By graphs, of which no answer that is held may change."""
    model = hbconv.convert(fitted(name), backend=backend, device="cuda")
    given = torch.tensor(X, device="cuda")
    want = model.predict_proba(X)
    held = [(n, model.predict_proba(given[:n])) for n in (100, 100, 100, 90, 128, 1, 1, 1, 1)]
    for _ in range(3):
        model.predict_proba(given[300:400])
    for n, got in held:
        # Products of matrices may add in another order for another number of rows.
        np.testing.assert_allclose(got.cpu().numpy(), want[:n], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("backend", ["torch", "tvm"])
@pytest.mark.parametrize("name", ["linear", "lightgbm"])
def test_threads_and_streams_answer_alike(name, backend):
    """Each thread is fresh, so torch may give it memory before it has a context."""
    model = hbconv.convert(fitted(name), backend=backend, device="cuda")
    given = torch.tensor(X, device="cuda")
    want = model.predict_proba(X)

    def answer(n: int) -> list[torch.Tensor]:
        stream = torch.cuda.Stream() if n % 2 else torch.cuda.current_stream()
        stream.wait_stream(torch.cuda.default_stream())
        with torch.cuda.stream(stream):
            found = [model.predict_proba(given[:n]) for _ in range(20)]
            stream.synchronize()
        return found

    sizes = (7, 8, 100, 65, 33, 128)
    with ThreadPoolExecutor(len(sizes)) as pool:
        found = list(pool.map(answer, sizes))
    for n, answers in zip(sizes, found, strict=True):
        for got in answers:
            np.testing.assert_allclose(got.cpu().numpy(), want[:n], rtol=1e-5, atol=1e-6)


def test_a_call_of_trees_is_captured_by_its_caller():
    model = hbconv.convert(fitted("lightgbm"), backend="torch", device="cuda")
    given = torch.tensor(X[:64], device="cuda")
    model.raw_scores(given)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = model.raw_scores(given)
    given.copy_(torch.tensor(X[64:128]))
    graph.replay()
    np.testing.assert_array_equal(found.cpu().numpy(), model.raw_scores(X[64:128]))


def test_a_capture_that_fails_leaves_the_stream_and_later_captures_alone():
    device = Cuda(torch.device("cuda", torch.cuda.current_device()))
    given = torch.arange(4.0, device="cuda")
    before = torch.cuda.current_stream()
    with pytest.raises(RuntimeError):
        device.capture(lambda: [(given + 1).cpu()], ROOM)
    with pytest.raises(RuntimeError, match="would keep"):
        device.capture(lambda: [given + 1], 0)
    assert torch.cuda.current_stream() == before
    (found,), replay, n_bytes = device.capture(lambda: [given @ given.reshape(4, 1) + given], ROOM)
    assert n_bytes > 0
    given += 1
    replay()
    np.testing.assert_array_equal(found.cpu(), [31.0, 32.0, 33.0, 34.0])


def test_gradients_and_wrapped_tensors_take_plain_operators():
    x = torch.tensor(X[:6], device="cuda", requires_grad=True)
    points = torch.tensor(X[6:9], device="cuda")
    pairwise(x, points, "square", 2.0).sum().backward()
    want = 2 * (X[:6, None] - X[6:9]).sum(axis=1)
    np.testing.assert_allclose(x.grad.cpu(), want, rtol=1e-5, atol=1e-5)
    with torch.no_grad():
        got = torch.vmap(lambda rows: pairwise(rows, points, "square", 2.0))(x.reshape(2, 3, 8))
        assert torch.equal(got.flatten(0, 1), pairwise(x, points, "square", 2.0))


def test_a_moved_torchscript_file_adds_in_order(tmp_path):
    source = fitted("lightgbm")
    model = hbconv.convert(source, backend="torch")
    model.export(tmp_path / "model.pt")
    rows = X.astype(model.dtypes[0])
    program = jit.load(tmp_path / "model.pt")
    want = [found.numpy() for found in program(torch.tensor(rows))]
    program = jit.load(tmp_path / "model.pt", map_location="cuda")
    for n in (500, 1):
        found = program(torch.tensor(rows[:n], device="cuda"))
        for got, expected in zip(found, want, strict=True):
            np.testing.assert_allclose(got.cpu().numpy(), expected[:n], rtol=1e-12)


def test_a_program_written_for_devices_runs_after_a_move(tmp_path):
    source = fitted("forest")
    model = hbconv.convert(source, backend="torch")
    model.export(tmp_path / "model.pt2", device="cuda")
    program = torch.export.load(tmp_path / "model.pt2")
    moved = move_to_device_pass(program, "cuda").module()
    rows = torch.tensor(X.astype(model.dtypes[0]), device="cuda")
    found = dict(zip(model.parsed.exported, moved(rows), strict=True))
    np.testing.assert_array_equal(found["predict"].cpu().numpy(), source.predict(X))


@pytest.mark.parametrize("name", ["linear", "lightgbm"])
def test_a_compiled_program_answers_as_the_source(name, tmp_path):
    source = fitted(name)
    model = hbconv.convert(source, backend="torch", device="cuda")
    model.export(tmp_path / "model.pt2", methods=["predict_proba"], compiled=True)
    program = torch._inductor.aoti_load_package(str(tmp_path / "model.pt2"))
    for n in (500, 1):
        rows = torch.tensor(X[:n].astype(model.dtypes[0]), device="cuda")
        np.testing.assert_allclose(
            program(rows).cpu().numpy(), source.predict_proba(X[:n]), rtol=1e-4, atol=1e-5
        )
