"""Keys of records: digests of all that the ranking of contenders depends on."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict
from functools import cache
from typing import Any

from hbconv.backends.tvm.target.machine import Machine
from hbconv.containers import Graph, Node, TreeEnsemble, TreeLeaves
from hbconv.machine import describe_versions, find_processor
from hbconv.row_buckets import Bucket, find_bucket
from hbconv.target import Target
from hbconv.trees.forest import Forest

__all__ = ["describe_machine", "describe_structure", "record_key"]

FORMAT = 1
"""Version of records, and of what their keys are made from."""
STEPS_PER_DOUBLING = 4
"""Sizes of forests are rounded to a fifth: a model fitted again finds the record."""


def record_key(typed: Graph, target: Target, bucket: Bucket) -> str:
    """Return the key of the record of a graph and a bucket of rows.

    Parameters
    ----------
    typed : Graph
        Before the optimizer. Its values, and the dtypes of its columns, do not count.
    target : Target
        Of its rows only the bucket counts, and its strategy does not.
    bucket : Bucket
    """
    options = asdict(target.replace(rows=1, strategy=None))
    facts = {
        "format": FORMAT,
        "structure": describe_structure(typed),
        "target": options,
        "least_rows": bucket.least,
        "fitted_to": find_bucket(target.rows).least,
        "machine": describe_machine(),
        "versions": describe_versions(),
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()


def describe_structure(graph: Graph) -> list[Any]:
    """Return the kind, width and inputs of each node, and the rounded sizes of forests."""
    nodes = graph.nodes()
    places = {node: place for place, node in enumerate(nodes)}
    described = [[_describe(node), [places[i] for i in node.inputs]] for node in nodes]
    outputs = [places[root] for root in graph.output_roots]
    return [len(graph.schema.columns), sorted(graph.outputs), described, outputs]


def _describe(node: Node) -> list[Any]:
    forest = node.forest if isinstance(node, TreeEnsemble | TreeLeaves) else None
    return [node.name, node.type.width, None if forest is None else _sizes(forest)]


def _sizes(forest: Forest) -> list[Any]:
    counts = (forest.n_trees, forest.n_tests, forest.depth)
    kinds = (forest.n_outputs, forest.values.shape[1], forest.accumulate, bool(forest.tables))
    return [*map(_rounded, counts), *kinds]


def _rounded(count: int) -> int:
    """Return the size on a scale of four steps for each doubling.

    Examples
    --------
    >>> [_rounded(count) for count in (0, 1, 1_000, 1_050, 2_000)]
    [0, 4, 44, 44, 48]
    """
    return 0 if count == 0 else STEPS_PER_DOUBLING + round(STEPS_PER_DOUBLING * math.log2(count))


@cache
def describe_machine() -> dict[str, Any]:
    """Return what is known of this machine's processor."""
    host = asdict(Machine.host())
    return {**host, "extras": sorted(host["extras"]), "processor": find_processor()}
