"""Backend ``onnx``: programs as ONNX graphs, run by ONNX Runtime.

Trees are ``TreeEnsemble`` operators.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hbconv.backends.base import SEARCHES_REFUSED, Artifact, Backend
from hbconv.backends.onnx.emit import EMITS, REWRITES, emit_model
from hbconv.backends.onnx.trees import count_tree_work, fit_trees, tree_remarks
from hbconv.errors import MissingPackageError, StoreError
from hbconv.trees.strategy import lower_trees, strategies

if TYPE_CHECKING:
    from hbconv.containers import Graph
    from hbconv.cost_model import Work
    from hbconv.target import Target
    from hbconv.tensor import ProgramTypes, TensorProgram
    from hbconv.trees.forest import Forest

__all__ = ["BACKEND", "Onnx", "export_onnx"]


OLDEST_RUNTIME = (1, 24)
"""First version of ONNX Runtime that reads every TreeEnsemble correctly."""


class Onnx(Backend):
    """Opset 20 and ai.onnx.ml 5, with one or a few operators for each primitive."""

    name = "onnx"
    needs = ("onnx", "onnxruntime")
    extra = "onnx"
    stored_with = ("onnx", "onnxruntime")
    emits = EMITS
    rewrites = REWRITES
    refuses = SEARCHES_REFUSED

    def require_packages(self) -> None:
        """Raise MissingPackageError unless the packages are installed, and not too old."""
        super().require_packages()
        import onnxruntime

        installed = onnxruntime.__version__
        if tuple(map(int, installed.split(".")[:2])) < OLDEST_RUNTIME:
            needed = ".".join(map(str, OLDEST_RUNTIME))
            raise MissingPackageError(
                f"Backend 'onnx' needs onnxruntime {needed} or later (found {installed}), "
                "since older ones misread trees. Install with: pip install 'hbconv[onnx]'"
            )

    def native_trees(self, target: Target) -> frozenset[str]:
        """Return all strategies if trees may be TreeEnsemble operators, none for core operators."""
        return frozenset(strategies()) if target.tree_ops == "native" else frozenset()

    def tree_work(
        self,
        strategy: str,  # noqa: ARG002
        forest: Forest,
        dtype: str,
        target: Target,  # noqa: ARG002
        *,
        added: bool = True,
    ) -> Work:
        """Count the work of the operator, and of those that decide category sets before it."""
        return count_tree_work(forest, dtype, added=added)

    def remarks(self, forest: Forest, target: Target) -> tuple[str, ...]:
        """List the parts of the trees that core operators compute."""
        return tree_remarks(forest) if target.tree_ops == "native" else ()

    def prepare(self, program: TensorProgram, target: Target) -> TensorProgram:
        """Bring native trees to forms that TreeEnsemble computes exactly, then rewrite the rest."""
        return super().prepare(fit_trees(lower_trees(program, self.native_trees(target))), target)

    def emit(self, program: TensorProgram, target: Target) -> Artifact:
        """Write the graph and open a session on it."""
        from hbconv.backends.onnx.artifact import OnnxArtifact

        return OnnxArtifact(emit_model(program), target)

    def load(
        self,
        files: Mapping[str, bytes],
        types: ProgramTypes,  # noqa: ARG002
        target: Target,
    ) -> Artifact | None:
        """Open a session on the stored graph; None if there is none."""
        if "model.onnx" not in files:
            return None
        self.require_packages()
        from hbconv.backends.onnx.artifact import OnnxArtifact

        try:
            return OnnxArtifact(files["model.onnx"], target)
        # Each kind of damage has its own class in ONNX Runtime, with no common base.
        except Exception as error:
            raise StoreError(f"ONNX Runtime cannot read the stored model: {error}") from error


BACKEND = Onnx()


def export_onnx(graph: Graph, target: Target) -> bytes:
    """Write a self-contained ONNX file.

    The graph encodes text columns, decodes class labels, and checks inputs.

    Parameters
    ----------
    graph : Graph
        Planned.
    target : Target
        ``tree_ops`` and ``precision`` are read.

    Returns
    -------
    bytes
        A serialized ``onnx.ModelProto``, for ONNX Runtime 1.24 or later. If all columns are numbers
        of one dtype, its input is one matrix ``X`` (n, width). Otherwise each column that the model
        reads is an input (n, 1) of the column's name. Outputs are named after the methods, with the
        shapes of the source model, except that sparse ones are dense.

    Raises
    ------
    BackendError
        ONNX cannot hold the labels or names, or the model exceeds 2 GB.
    """
    BACKEND.require_packages()
    from hbconv.backends.onnx.export import export_model

    return export_model(graph, target, BACKEND)
