"""A scorer answers where torch, TVM and the source libraries are missing."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from alone import run_alone
from sklearn.ensemble import HistGradientBoostingClassifier

import hbconv

MISSING = {
    *("torch", "tvm", "tvm_ffi", "sklearn", "scipy", "pandas", "polars", "onnx", "onnxruntime"),
    *("lightgbm", "xgboost", "catboost", "joblib", "skops", "tqdm", "platformdirs"),
}
SCRIPT = """
import pickle, sys
import pyarrow as pa
sys.path[:0] = sys.argv[3:]
import hbconv
score = pickle.loads(pickle.dumps(hbconv.Scorer(sys.argv[1], keep=["id"], trusted=True)))
with pa.ipc.open_file(sys.argv[2]) as rows:
    table = pa.Table.from_batches([score(rows.get_batch(i)) for i in range(rows.num_record_batches)])
print(table["predict"].to_pylist(), table["id"].to_pylist(), score.model.backend)
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    return tmp_path


def test_a_scorer_needs_numpy_and_pyarrow(folder):
    x = np.random.default_rng(0).normal(size=(60, 3))
    import pandas as pd

    frame = pd.DataFrame(x, columns=list("abc"))
    source = HistGradientBoostingClassifier(max_iter=5).fit(frame, x[:, 0] > 0)
    hbconv.convert(source, "tvm", sample=frame).save(folder / "model.hbc")
    table = pa.table({"id": range(60), **{name: frame[name] for name in "cab"}})
    with (
        pa.OSFile(str(folder / "rows.arrow"), "wb") as sink,
        pa.ipc.new_file(sink, table.schema) as out,
    ):
        out.write_table(table, max_chunksize=7)
    home = [str(path) for path in hbconv.__path__]
    root = home[0].rpartition("/")[0]
    said = run_alone(
        folder / "script.py", folder / "model.hbc", folder / "rows.arrow",
        root, f"{root}/strategies", refused=MISSING,
    )  # fmt: skip
    assert said == f"{source.predict(frame).tolist()} {list(range(60))} tvm\n"
