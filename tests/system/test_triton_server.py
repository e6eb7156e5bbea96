"""An exported repository behind a real Triton server, asked by Triton's own client."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch
from fitted import fit, matrix, table
from triton_server import WHY_NOT, running_server

import hbconv

pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """Serve two models through the python backend."""
    repository = tmp_path_factory.mktemp("repository")
    for name, sample in (("mixed", table()), ("linear", matrix())):
        model = hbconv.convert(fit(name), backend="reference", sample=sample[:2])
        model.export(repository, format="triton", name=name, file=".hbc")
    with running_server(repository, tmp_path_factory.mktemp("server")) as found:
        yield found


def ask(address, model, tensors, *methods):
    """Send arrays by name; return the answers by method."""
    from tritonclient import http

    inputs = []
    for name, values in tensors.items():
        kind = {"O": "BYTES", "f": "FP64"}[values.dtype.kind]
        inputs.append(http.InferInput(name, list(values.shape), kind))
        inputs[-1].set_data_from_numpy(values)
    outputs = [http.InferRequestedOutput(method) for method in methods]
    with http.InferenceServerClient(address) as client:
        found = client.infer(model, inputs, outputs=outputs)
    return [found.as_numpy(method) for method in methods]


def columns(rows):
    return {name: rows[[name]].fillna("").to_numpy(object) for name in ("colour",)} | {
        name: rows[[name]].to_numpy(float) for name in ("age", "fare")
    }


@pytest.mark.parametrize("count", [1, 2, 203])
def test_text_columns_and_text_labels(address, count):
    rows = table()[:count].copy()
    rows.loc[0, "colour"] = "purple ü"
    labels, scores = ask(address, "mixed", columns(rows), "predict", "predict_proba")
    assert [label.decode() for label in labels[:, 0]] == fit("mixed").predict(rows).tolist()
    np.testing.assert_array_equal(scores, fit("mixed").predict_proba(rows))


def test_many_clients_are_batched_and_one_bad_request_harms_no_other(address):
    """Rows with NaN are refused by name, whatever stands beside them in a batch."""
    from tritonclient.utils import InferenceServerException

    found, refused = {}, []

    def client(number):
        rows = matrix()[number : number + 2].copy()
        rows[0, 0] = np.nan if number % 5 == 0 else rows[0, 0]
        try:
            found[number] = ask(address, "linear", {"X": rows}, "decision_function")[0]
        except InferenceServerException as error:
            refused.append((number, str(error)))

    threads = [threading.Thread(target=client, args=(number,)) for number in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(number for number, _ in refused) == list(range(0, 40, 5))
    assert all("NaN" in message for _, message in refused)
    for number, scores in found.items():
        expected = fit("linear").decision_function(matrix()[number : number + 2])
        np.testing.assert_allclose(scores, expected, rtol=1e-12)


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is here, so the server takes it")
def test_a_server_without_a_gpu_names_what_it_lacks(tmp_path):
    model = hbconv.convert(fit("linear"), backend="torch", sample=matrix()[:2])
    repository = tmp_path / "models"
    repository.mkdir()
    model.export(repository, format="triton", file=".hbc", device="cuda")
    folder = tmp_path / "server"
    folder.mkdir()
    with pytest.raises(RuntimeError), running_server(repository, folder):
        pass
    told = (folder / "server.log").read_text()
    assert "has kind KIND_GPU but no GPUs are available" in told
