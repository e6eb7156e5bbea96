"""Kinds of nodes: what each does for a prediction, and the colours that tell them apart."""

from __future__ import annotations

from dataclasses import dataclass

from hbconv.containers import Node

__all__ = ["KINDS", "BoxKind", "kind_of"]


@dataclass(frozen=True)
class BoxKind:
    """A kind of nodes.

    Parameters
    ----------
    name : str
        In the legend.
    tint, strong : str
        Colours of nodes that take no time and all of it, as ``#rrggbb``.
    """

    name: str
    tint: str
    strong: str


KINDS = {
    "input": BoxKind("input", "#e9f0fb", "#4078c8"),
    "prepare": BoxKind("preparation", "#e2f5f1", "#14a08c"),
    "linear": BoxKind("linear", "#f0eafc", "#8257d8"),
    "trees": BoxKind("trees", "#e6f5e3", "#46a83c"),
    "distances": BoxKind("distances", "#fdf1dd", "#e0951f"),
    "decide": BoxKind("decision", "#fce9f1", "#d8487f"),
    "wiring": BoxKind("arithmetic", "#f2f4f7", "#8a94a6"),
    "output": BoxKind("answer", "#273043", "#273043"),
}
"""By name, in the order of the legend."""

_THEMES = {
    "input": "inputs",
    "prepare": (
        "affine basis_functions calendar codes find_code lookups missing normalize power_transforms"
    ),
    "linear": (
        "lasso_descent least_angles linear matching_pursuit non_negative_weights topic_mixture "
        "triangular"
    ),
    "trees": "contributions trees",
    "distances": "binary_distances distances haversine neighbor_graphs neighbors",
    "decide": "decisions pairwise_coupling probabilities table_exp votes",
    "wiring": "arithmetic conditions elementwise sums wiring",
}
"""Kind of the nodes of each file of ``hbconv.containers.nodes``."""

_KIND_OF = {theme: kind for kind, themes in _THEMES.items() for theme in themes.split()}


def kind_of(node: Node) -> str:
    """Return the kind of a node; arithmetic for containers of other packages."""
    return _KIND_OF.get(type(node).__module__.rpartition(".")[2], "wiring")
