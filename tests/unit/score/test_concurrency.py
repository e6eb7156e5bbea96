"""The pool of devices: answers in order from a process each, and what is said where one ends."""

from __future__ import annotations

import os
import signal
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.linear_model import LinearRegression

import hbconv
from hbconv.errors import BackendError, InputError, OptionError
from hbconv.score.concurrency import BATCHES_A_DEVICE, DevicePool, parse_devices


def scorer(path: str, device: str) -> Any:
    """Load a model in the process of a device."""
    model = hbconv.load(path, device=device)
    return lambda batch: (os.getpid(), pa.array(model.predict(batch)))


def failing(device: str) -> Any:
    raise OptionError(f"There is no {device}.")


def ending(device: str) -> Any:
    return lambda batch: os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> str:
    x = np.random.default_rng(0).standard_normal((50, 2))
    model = hbconv.convert(LinearRegression().fit(x, x[:, 0]), backend="reference")
    file = tmp_path_factory.mktemp("pool") / "model.hbc"
    model.save(file)
    return str(file)


def batch(start: int, rows: int = 10) -> pa.RecordBatch:
    x = np.arange(start, start + rows, dtype=np.float64)
    return pa.RecordBatch.from_arrays([pa.array(x), pa.array(x)], names=["a", "b"])


def test_two_devices_share_the_batches_and_keep_their_order(path):
    with DevicePool(partial(scorer, path), ("cpu", "cpu")) as pool:
        found = list(pool.answers(batch(10 * i) for i in range(20)))
        assert len({process for process, _ in found}) == 2
        assert os.getpid() not in {process for process, _ in found}
        whole = np.concatenate([answers.to_numpy() for _, answers in found])
        np.testing.assert_allclose(whole, np.arange(200.0), atol=1e-9)

        taken = []
        first = next(pool.answers(taken.append(i) or batch(i) for i in range(100)))
        assert len(first[1]) == 10
        assert len(taken) == 2 * BATCHES_A_DEVICE + 1

        with pytest.raises(InputError, match="columns"):
            list(pool.answers([batch(0).select(["a"])]))
        assert len(list(pool.answers([batch(0)]))) == 1


def test_what_goes_wrong_in_loading_is_raised():
    with DevicePool(failing, ["cuda:7"]) as pool, pytest.raises(OptionError, match="no cuda:7"):
        list(pool.answers([batch(0)]))


def test_a_process_that_ends_is_named():
    with DevicePool(ending, ["cpu"]) as pool:
        with pytest.raises(BackendError, match="device 'cpu' ended"):
            list(pool.answers([batch(0)]))
        with pytest.raises(BackendError):
            list(pool.answers([batch(0)]))


def test_devices_are_named_apart_by_commas():
    assert parse_devices("cuda:0,cuda:1") == ("cuda:0", "cuda:1")
    assert parse_devices("cpu, cpu") == ("cpu", "cpu")


@pytest.mark.parametrize("names", ["", "cuda:", "cuda:x", "gpu", "cpu:0", "cuda:0,"])
def test_other_names_are_refused(names):
    with pytest.raises(OptionError, match="is no device"):
        parse_devices(names)
