"""The contenders: each makes a function from rows to the answer of a fitted model.

Every contender is optional: it says if it is not installed, or if it refuses a model.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from peers import trees
from peers.onnx_files import onnxmltools, onnxruntime, skl2onnx
from peers.own import ONE_THREAD, bound, hbconv_backend, one_thread, source
from peers.pipelines import faiss, hnswlib, sklearnex, torch_by_hand
from peers.setting import Call, Contender, Setting, Unavailable

__all__ = [
    "ONE_THREAD", "PEERS", "TREE_PEERS", "Call", "Contender", "Setting", "Unavailable", "answer",
    "contenders",
]  # fmt: skip


TREE_PEERS: dict[str, Callable[[Setting], Call]] = {
    "source": source,
    "onnxruntime": onnxruntime,
    "onnxruntime float32": lambda setting: onnxruntime(setting, "fast"),
    "onedal": trees.onedal,
    "lleaves": trees.lleaves,
    "lleaves float32": lambda setting: trees.lleaves(setting, single=True),
    "treelite": trees.treelite,
    "tl2cgen": trees.tl2cgen,
    "ydf": trees.ydf,
    "snapml": trees.snapml,
    "lignum": trees.lignum,
    "lignum compiled": trees.lignum_compiled,
    "hbconv torch": hbconv_backend("torch"),
    "hbconv torchscript": hbconv_backend("torchscript"),
    "hbconv tvm": hbconv_backend("tvm"),
    "hbconv tvm fast": hbconv_backend("tvm", "fast"),
    "hbconv tvm bound": bound,
    ONE_THREAD: one_thread,
}
"""Contenders of tree ensembles; the first is the one that others are compared with."""
PEERS: dict[str, Callable[[Setting], Call]] = TREE_PEERS | {
    "onnxmltools": onnxmltools,
    "skl2onnx": skl2onnx,
    "sklearnex": sklearnex,
    "faiss": faiss,
    "hnswlib": hnswlib,
    "torch by hand": torch_by_hand,
    "hbconv onnx": hbconv_backend("onnx"),
}
"""All contenders by name."""


def contenders(setting: Setting, names: list[str]) -> Iterator[Contender | tuple[str, str]]:
    """Yield each contender, or its name and the reason why it is left out."""
    for name in names:
        began = time.perf_counter()
        try:
            call = PEERS[name](setting)
            call(setting.sample)
        except ImportError as error:
            yield name, f"{error.name} is not installed"
        except Unavailable as error:
            yield name, str(error)
        except Exception as error:
            yield name, f"{type(error).__name__}: {error}"
        else:
            yield Contender(name, call, time.perf_counter() - began)


def answer(values: Any) -> np.ndarray:
    """Return an answer as a matrix; for two classes it holds the second one alone."""
    matrix = np.asarray(values, np.float64).reshape(len(values), -1)
    return matrix[:, 1:] if matrix.shape[1] == 2 else matrix
