"""The container DAG: what a model computes, as a graph of nodes.

Each container is a small frozen class: its type rule, its lowering to primitives, and how it
prints. The classes stand by theme in ``nodes/``; all of them are imported from here.
"""

from hbconv.containers import nodes
from hbconv.containers.feature_names import Container, NamesOut
from hbconv.containers.graph import Check, Graph, Traits, verify_graph
from hbconv.containers.node import (
    NODES,
    Node,
    container,
    current_source,
    rewrite,
    source,
    topological,
)
from hbconv.containers.nodes import *  # noqa: F403
from hbconv.containers.output import Output, Paths
from hbconv.containers.schema import Column, Conventions, Schema, Type
from hbconv.containers.show import show, show_rule
from hbconv.containers.vocabulary import Vocabulary

__all__ = [
    "NODES",
    "Check",
    "Column",
    "Container",
    "Conventions",
    "Graph",
    "NamesOut",
    "Node",
    "Output",
    "Paths",
    "Schema",
    "Traits",
    "Type",
    "Vocabulary",
    "container",
    "current_source",
    "rewrite",
    "show",
    "show_rule",
    "source",
    "topological",
    "verify_graph",
]
__all__ += nodes.__all__
