"""MLflow: save, log and load converted models as a flavour, without a pickle."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hbconv
from hbconv.engines.scorer import Scorer
from hbconv.errors import OptionError

if TYPE_CHECKING:
    import pandas as pd

    from hbconv.model import Model

__all__ = ["FLAVOR", "MlflowModel", "load_model", "log_model", "save_model"]

FLAVOR = "hbconv"
DATA = "model.hbc"
"""Name of the model's file in an MLflow model."""
EXTRAS = {"tvm": "tvm", "torch": "torch", "torchscript": "torch", "onnx": "onnx"}
"""The extra that compiles, by backend."""


def save_model(
    model: Model,
    path: str | os.PathLike[str],
    *,
    method: str | None = None,
    signature: Any = None,
    input_example: Any = None,
    pip_requirements: Sequence[str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    mlflow_model: Any = None,
) -> None:
    """Save a model as an MLflow model of the flavours ``hbconv`` and ``python_function``.

    The folder holds the .hbc file, which has no pickle, and what MLflow needs to serve it.

    Parameters
    ----------
    model : Model
    path : path
        A folder that does not exist, or is empty.
    method : str, optional
        What ``predict`` of the ``python_function`` calls. By default ``predict``, or the model's
        first. A caller may name another by ``params={"method": ...}``.
    signature : mlflow.models.ModelSignature, optional
        By default the columns that the model reads, and those of the answers. Types are those of
        ``input_example``, else of the sample that the model was converted with.
    input_example : optional
        Rows to save beside the model.
    pip_requirements : sequence of str, optional
        By default this version of hbconv with the extra of the model's backend, pandas and pyarrow.
    metadata : mapping, optional
    mlflow_model : mlflow.models.Model, optional
        What ``log_model`` fills.

    Raises
    ------
    OptionError
        The model lacks the method, or its answers are no columns.
    """
    from mlflow import pyfunc
    from mlflow.models import Model as Description

    score = Scorer(model, method)
    described = mlflow_model or Description()
    described.signature = signature or _signature(score, input_example)
    if metadata is not None:
        described.metadata = dict(metadata)
    folder = Path(path)
    if folder.exists() and any(folder.iterdir()):
        raise OptionError(f"{folder} is not empty. Give a new folder.")
    folder.mkdir(parents=True, exist_ok=True)
    _save_example(described, input_example, folder)
    model.save(folder / DATA)
    pyfunc.add_to_model(
        described, "hbconv.mlflow", data=DATA, conda_env="conda.yaml", python_env="python_env.yaml"
    )
    described.add_flavor(
        FLAVOR, hbconv_version=hbconv.__version__, data=DATA, method=score.methods[0]
    )
    described.save(str(folder / "MLmodel"))
    _save_environment(folder, list(pip_requirements or _requirements(model)))


def log_model(model: Model, name: str, **options: Any) -> Any:
    """Log a model to the active run; return MLflow's ModelInfo.

    Parameters
    ----------
    model : Model
    name : str
        Of the logged model.
    **options
        Those of ``save_model``, and those of ``mlflow.models.Model.log``:
        ``registered_model_name``, for example.
    """
    from mlflow.models import Model as Description

    module = sys.modules[__name__]
    return Description.log(artifact_path=None, name=name, flavor=module, model=model, **options)


def load_model(uri: str | os.PathLike[str], *, trusted: bool = False) -> Model:
    """Load the hbconv.Model of an MLflow model.

    Parameters
    ----------
    uri : str or path
        A folder, or any URI of MLflow: ``models:/churn/3``, for example.
    trusted : bool
        Run the compiled programs of the file, as ``hbconv.load`` does; its author is trusted.

    Raises
    ------
    OptionError
        The MLflow model has no flavour ``hbconv``.
    """
    from mlflow.artifacts import download_artifacts
    from mlflow.models import Model as Description

    folder = Path(download_artifacts(artifact_uri=str(uri)))
    flavors = Description.load(str(folder)).flavors
    if FLAVOR not in flavors:
        raise OptionError(
            f"{uri} has no flavour {FLAVOR!r}. It has: {', '.join(flavors)}. "
            "hbconv.mlflow.save_model writes it."
        )
    data = folder / flavors[FLAVOR]["data"]
    return hbconv.load(data, trusted=trusted, on_new_dtypes="compile")


class MlflowModel:
    """What ``mlflow.pyfunc.load_model`` wraps: rows in a pandas frame, answers in another.

    Parameters
    ----------
    path : path
        The .hbc file.
    method : str
        What ``predict`` calls where the caller names no method.
    """

    def __init__(self, path: Path, method: str) -> None:
        self.path = path
        self.method = method

    def predict(self, data: Any, params: Mapping[str, Any] | None = None) -> Any:
        """Answer rows; one column of answers is an array, several are a frame with their index."""
        method = (params or {}).get("method") or self.method
        frame = _frame(data, Scorer(self.path, method))
        return frame.iloc[:, 0].to_numpy() if frame.shape[1] == 1 else frame

    def get_raw_model(self) -> Model:
        """Return the hbconv.Model."""
        return Scorer(self.path).model


def _load_pyfunc(path: str) -> MlflowModel:
    """Load the ``python_function``; MLflow calls this by its name with the .hbc file."""
    from mlflow.models import Model as Description

    data = Path(path)
    settings = Description.load(str(data.parent)).flavors[FLAVOR]
    return MlflowModel(data, settings["method"])


def _frame(data: Any, score: Scorer) -> pd.DataFrame:
    import pandas as pd

    from hbconv.engines.pandas import score_frame

    return score_frame(data if isinstance(data, pd.DataFrame) else pd.DataFrame(data), score)


def _signature(score: Scorer, example: Any) -> Any:
    """Return the columns that the model reads and gives, and the parameter ``method``."""
    from mlflow.models import ModelSignature
    from mlflow.types import ParamSchema, ParamSpec

    columns = _given(score, example)
    answers = score.schema(columns)
    single = len(answers) == 1
    return ModelSignature(
        inputs=_matrix(score.model) or _columns(columns),
        outputs=_columns(answers, named=not single),
        params=ParamSchema([ParamSpec("method", "string", score.methods[0])]),
    )


def _given(score: Scorer, example: Any) -> Any:
    """Return the schema of the rows: of the columns that are read of an example that is a frame."""
    import pandas as pd
    import pyarrow as pa

    if not isinstance(example, pd.DataFrame):
        return score.inputs()
    schema = pa.Schema.from_pandas(example, preserve_index=False)
    return pa.schema([schema.field(name) for name in score.needed(schema.names)])


def _matrix(model: Model) -> Any:
    """Return the schema of an array, for a model of numbers without names; None for others."""
    import numpy as np
    from mlflow.types import Schema, TensorSpec

    dtypes = set(model.schema.dtypes)
    if model.schema.named or len(dtypes) != 1 or "string" in dtypes:
        return None
    return Schema([TensorSpec(np.dtype(dtypes.pop()), (-1, model.n_features_in_))])


def _columns(schema: Any, *, named: bool = True) -> Any:
    from mlflow.types import ColSpec, Schema

    return Schema(
        [ColSpec(_data_type(field.type), field.name if named else None) for field in schema]
    )


def _data_type(kind: Any) -> Any:
    """Return MLflow's type of an Arrow type.

    Raises
    ------
    OptionError
        MLflow has none.
    """
    from mlflow.types import DataType

    names = {
        "bool": "boolean", "int8": "integer", "int16": "integer", "int32": "integer",
        "int64": "long", "float": "float", "double": "double", "string": "string",
        "large_string": "string", "uint8": "integer", "uint16": "integer", "uint32": "long",
    }  # fmt: skip
    if str(kind) not in names:
        raise OptionError(f"MLflow has no type for columns of {kind}. Give a signature.")
    return DataType[names[str(kind)]]


def _save_example(described: Any, example: Any, folder: Path) -> None:
    from mlflow.models.utils import _save_example as save

    if example is not None:
        save(described, example, str(folder))


def _requirements(model: Model) -> list[str]:
    extra = EXTRAS.get(model.backend)
    package = f"hbconv[{extra}]" if extra else "hbconv"
    return [f"{package}=={hbconv.__version__}", "pandas", "pyarrow"]


def _save_environment(folder: Path, requirements: list[str]) -> None:
    """Write the environment in the three forms that MLflow reads."""
    import yaml
    from mlflow.utils.environment import _mlflow_conda_env, _PythonEnv

    environment = _mlflow_conda_env(additional_pip_deps=requirements)
    (folder / "conda.yaml").write_text(yaml.safe_dump(environment), encoding="utf-8")
    packages = environment["dependencies"][-1]["pip"]
    (folder / "requirements.txt").write_text("\n".join(packages), encoding="utf-8")
    _PythonEnv.current().to_yaml(str(folder / "python_env.yaml"))
