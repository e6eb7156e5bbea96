"""ONNX files, of hbconv and of others, run by ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from peers.setting import Call, Setting, Unavailable
from peers.trees import booster

__all__ = ["onnxmltools", "onnxruntime", "skl2onnx"]


def onnxruntime(setting: Setting, precision: str = "exact") -> Call:
    """Run the ONNX file that hbconv exports, cut down to the method timed."""
    import onnx

    import hbconv

    path = setting.fitted.folder / f"{setting.fitted.name}-{precision}.onnx"
    method = setting.fitted.method
    hbconv.convert(
        setting.model, backend="onnx", precision=precision, sample=setting.sample
    ).export(path)
    whole = onnx.load(path)
    part = onnx.utils.Extractor(whole).extract_model([i.name for i in whole.graph.input], [method])
    (feed,) = (i.name for i in part.graph.input)
    return _run(part, setting, method, lambda x: {feed: x})


def skl2onnx(setting: Setting) -> Call:
    """Run the float32 file of skl2onnx: numbers are converted to float32 in each call.

    A DataFrame gives an input for each column.
    """
    from skl2onnx import convert_sklearn

    kinds, feed = _inputs(setting.sample)
    method = setting.fitted.method
    last = setting.model[-1] if hasattr(setting.model, "steps") else setting.model
    options = {}
    if method in ("predict_proba", "decision_function") and hasattr(last, "classes_"):
        raw = {"raw_scores": True} if method == "decision_function" else {}
        options[id(last)] = {"zipmap": False, **raw}
    opsets = {"": 18, "ai.onnx.ml": 3}
    written = convert_sklearn(
        setting.model, initial_types=kinds, options=options or None, target_opset=opsets
    )
    outputs = [output.name for output in written.graph.output]
    # The label comes first, where there is one.
    has_label = method != "predict" and len(outputs) > 1
    return _run(written, setting, outputs[has_label], feed)


def onnxmltools(setting: Setting) -> Call:
    """Run the file of onnxmltools, which writes boosted trees as one operator."""
    import onnxmltools
    from onnxmltools.convert.common.data_types import FloatTensorType

    if booster(setting) is None:
        raise Unavailable("reads models of LightGBM and XGBoost")
    kinds = [("x", FloatTensorType([None, setting.sample.shape[1]]))]
    if setting.fitted.library == "lightgbm":
        written = onnxmltools.convert_lightgbm(setting.model, initial_types=kinds, zipmap=False)
    else:
        written = onnxmltools.convert_xgboost(setting.model, initial_types=kinds)
    return _run(written, setting, written.graph.output[1].name, lambda x: {"x": x})


def _run(
    written: Any, setting: Setting, output: str, feed: Callable[[Any], dict[str, Any]]
) -> Call:
    """Return a call of a model of ONNX for one output."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = setting.threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        written.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return lambda x: session.run([output], feed(x))[0]


def _inputs(sample: Any) -> tuple[list[Any], Callable[[Any], dict[str, Any]]]:
    """Return the types of inputs that skl2onnx is told, and what makes them of rows."""
    from skl2onnx.common.data_types import FloatTensorType, StringTensorType

    if isinstance(sample, list):
        return [("text", StringTensorType([None, 1]))], lambda x: {
            "text": np.array(x, object)[:, None]
        }
    if not hasattr(sample, "columns"):
        kinds = [("x", FloatTensorType([None, sample.shape[1]]))]
        return kinds, lambda x: {"x": x.astype(np.float32, copy=False)}
    numeric = {name: sample[name].dtype.kind == "f" for name in sample}
    kinds = [
        (name, (FloatTensorType if is_number else StringTensorType)([None, 1]))
        for name, is_number in numeric.items()
    ]

    def feed(x: Any) -> dict[str, Any]:
        return {
            name: x[name].to_numpy(np.float32 if is_number else object)[:, None]
            for name, is_number in numeric.items()
        }

    return kinds, feed
