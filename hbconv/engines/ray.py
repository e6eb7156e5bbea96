"""Ray Data: actors that hold the model, and batches that come to them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hbconv.engines import scorer_of
from hbconv.errors import OptionError

if TYPE_CHECKING:
    from hbconv.engines.scorer import Scorer
    from hbconv.model import Model

__all__ = ["ScoringActor", "score_dataset"]


class ScoringActor:
    """What ``map_batches`` makes once an actor: it loads the model, then answers Arrow tables.

    Parameters
    ----------
    score : Scorer
    """

    def __init__(self, score: Scorer) -> None:
        self.score = score
        # It loads the model, and refuses methods before a batch arrives.
        _ = score.names

    def __call__(self, table: Any) -> Any:
        """Answer a pyarrow Table by one."""
        return self.score(table)


def score_dataset(
    dataset: Any,
    model: Model | Scorer | str | os.PathLike[str],
    methods: str | Sequence[str] | None = None,
    keep: Sequence[str] = (),
    *,
    actors: int | None = None,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    batch_rows: int = 65_536,
    reasons: str | None = None,
) -> Any:
    """Answer a dataset's rows lazily: columns that are kept, then those of the answers.

    Ray restarts the actor of a lost process, and its batches are scored again.

    An actor keeps its CPUs while the job runs. Actors that keep all of them leave none to the tasks
    that read or shuffle, and Ray then waits for ever. So one CPU stays free.

    Parameters
    ----------
    dataset : ray.data.Dataset
    model : Model, path or Scorer
        A path must be one that all nodes can read.
    methods : str or sequence of str, optional
        As for ``hbconv.Scorer``.
    keep : sequence of str
    actors : int, optional
        By default as many as the cluster has CPUs for, beside the one that stays free; with
        ``num_gpus``, as it has GPUs for.
    num_cpus : float, optional
        CPUs that Ray counts for an actor. By default the model's threads; with ``num_gpus``, 0.
    num_gpus : float, optional
        GPUs for an actor: for a model that was converted or loaded with ``device="cuda"``.
    batch_rows : int
        Rows of a batch, at most.
    reasons : str, optional
        As for ``hbconv.Scorer``: a column that tells why a row is refused.

    Returns
    -------
    ray.data.Dataset

    Raises
    ------
    OptionError
        The actors would keep all CPUs, or the cluster lacks their GPUs, or a model that computes on
        the CPU is given GPUs.
    """
    import ray

    score = scorer_of(model, methods, keep, reasons)
    _check_device(score.model, num_gpus)
    cpus = _cpus(score.model, num_cpus, num_gpus)
    size = actors or _actors(ray.cluster_resources(), cpus, num_gpus)
    _check_cpus(ray.cluster_resources().get("CPU", 0), size, cpus)
    return dataset.map_batches(
        ScoringActor,
        fn_constructor_args=(score,),
        batch_format="pyarrow",
        batch_size=batch_rows,
        num_cpus=cpus,
        num_gpus=num_gpus,
        compute=ray.data.ActorPoolStrategy(size=size),
    )


def _cpus(model: Model, num_cpus: float | None, num_gpus: float | None) -> float:
    if num_cpus is not None:
        return num_cpus
    return 0 if num_gpus else model.target.threads


def _actors(cluster: dict[str, float], cpus: float, num_gpus: float | None) -> int:
    """Return how many actors the cluster has room for."""
    if num_gpus:
        gpus = cluster.get("GPU", 0)
        if gpus < num_gpus:
            raise OptionError(
                f"num_gpus={num_gpus:g}, and the cluster has {gpus:g} GPUs, so Ray would wait for "
                "ever. Give actors too, if nodes with GPUs start as they are asked for."
            )
        return int(gpus // num_gpus)
    return max(1, int((cluster.get("CPU", 1) - 1) // max(cpus, 1)))


def _check_device(model: Model, num_gpus: float | None) -> None:
    if num_gpus and model.target.device == "cpu":
        raise OptionError(
            f"num_gpus={num_gpus}, but the model computes on the CPU, so the GPUs would idle. "
            'Leave num_gpus out, or load it with hbconv.load(path, device="cuda").'
        )


def _check_cpus(cluster: float, actors: int, cpus: float) -> None:
    if actors * cpus > max(cluster - 1, 0) and actors * cpus > 0:
        raise OptionError(
            f"{actors} actors of {cpus:g} CPUs keep {actors * cpus:g} of the cluster's "
            f"{cluster:g} CPUs, so none stays free for the tasks that read, and Ray would wait "
            "for ever. Give fewer actors, or a smaller num_cpus: 0.5, for example."
        )
